"""The aquifer in time: readings, covariances, forecasts, and the experiment made small."""

import dataclasses
import math
from functools import partial

import jax.numpy as jnp
import numpy as np
import pytest

import riesz as rz
from riesz.errors import RieszError
from riesz_paper.data.esrp import Split, Wells, esrp, splits_of
from riesz_paper.experiments.aquifer.data import mesh_of
from riesz_paper.experiments.aquifer_time import experiment, methods
from riesz_paper.experiments.aquifer_time.changes import FIRST_RECHARGE, At, responses_of
from riesz_paper.experiments.aquifer_time.fit import Fitted, at_rows, density_of, forecast
from riesz_paper.experiments.aquifer_time.model import WithoutEquation, own_drift, shares
from riesz_paper.experiments.aquifer_time.persistence import (
    REHEARSED_FROM,
    last_values,
    persistence,
)
from riesz_paper.experiments.aquifer_time.readings import (
    Case,
    Record,
    Rows,
    case_of,
    thinned,
    within_year_sd,
    yearly,
)

RNG = np.random.default_rng(3)
PLACES = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 20.0], [30.0, 10.0]])
LAST = 1979


def rows_of(*triples):
    well, year, head = zip(*triples, strict=True)
    return Rows(np.array(well), np.array(year), np.array(head, float))


@pytest.fixture(scope="module")
def case():
    """Three wells that were read, each in years of its own, and one that was not."""
    years = [(well, year) for well in range(3) for year in range(1961 + well, LAST, 3)]
    heads = [(*one, 4500 + 10 * one[0] + RNG.normal()) for one in years]
    training = rows_of(*heads, (0, LAST, 4499.0))
    asked = rows_of(*((w, y, 4500.0 + 10 * w) for w in (0, 3) for y in (1985, 1995)))
    medians = np.array([4500.0, 4530.0])
    return Case(training, training, asked, 4510.0, 10.0, medians, np.array([0, 3]))


def test_a_year_is_the_median_of_its_readings_and_of_two_years_the_later_counts():
    first = ((1, 1950, 3), (0, 1950, 1), (0, 1950, 5), (0, 1950, 2))
    rows = rows_of(*first, (0, 1951, 7), (0, 1953, 9))
    by_year = yearly(rows)
    assert by_year.head.tolist() == [2, 7, 9, 3]
    kept = thinned(by_year)
    assert list(zip(kept.well, kept.year, kept.head, strict=True)) == [
        (0, 1951, 7),
        (0, 1953, 9),
        (1, 1950, 3),
    ]
    assert within_year_sd(rows) == pytest.approx(math.sqrt((1 + 9 + 0) / 3))


def test_level_drift_and_error_are_those_of_grouped_noise(case):
    at = at_rows(case.training)
    z = {"drift": jnp.asarray(0.7), "memory": jnp.asarray(5.0)}
    same = at.well[:, None] == at.well[None, :]
    ours = own_drift(z, at, at) + 0.3**2 * same + 0.2**2 * np.eye(len(same))
    noise = rz.observe.GroupedNormal(
        0.2,
        case.training.well,
        level_sd=0.3,
        drift_sd=0.7,
        correlation_time=5.0,
        times=case.training.year.astype(float),
    )
    factor = noise.factor(jnp.zeros(len(same)), {})
    root = np.asarray(factor.colour(jnp.eye(len(same))))
    np.testing.assert_allclose(ours, root @ root.T, atol=1e-12)


def test_the_slope_of_the_likelihood_is_that_of_differences_whatever_fills_it_up(case):
    model = WithoutEquation(jnp.asarray(PLACES))
    exact, filled = (density_of(model, case, len(case.training) + room) for room in (0, 3))
    # Errors that are not small, so that differences are not all rounding.
    away = 0.3 * RNG.normal(size=model.num_coordinates)
    here = jnp.asarray(away).at[list(model.scales).index("error")].set(4.0)
    value, slope = exact.cost(here)
    there = filled.cost(here)
    assert there[0] == pytest.approx(value, rel=1e-10)
    np.testing.assert_allclose(there[1], slope, atol=1e-8)
    step = 1e-4
    for number, axis in enumerate(np.eye(len(here))):
        apart = exact.cost(here + step * axis)[0] - exact.cost(here - step * axis)[0]
        assert apart / (2 * step) == pytest.approx(slope[number], rel=1e-5, abs=1e-5)


def test_the_likelihood_is_that_of_a_normal_vector(case):
    model = WithoutEquation(jnp.asarray(PLACES))
    density, here = density_of(model, case, len(case.training)), jnp.zeros(model.num_coordinates)
    covariance = np.asarray(model.covariance(here, density.at, density.at, density.tables))
    covariance = covariance + float(model.error_sd(here)) ** 2 * np.eye(len(covariance))
    square = density.heads @ np.linalg.solve(covariance, density.heads)
    volume = np.linalg.slogdet(2 * np.pi * covariance)[1]
    expected = -0.5 * (square + volume)
    assert density(here) == pytest.approx(expected, rel=1e-9)


def test_a_well_that_was_read_keeps_its_level_and_others_are_less_certain(case):
    model = WithoutEquation(jnp.asarray(PLACES))
    scales = np.zeros((2, model.num_coordinates))
    found = Fitted(model, case, scales[0], scales, 0.0, 0.0)
    draws = forecast(found, case.targets, seed=0, each=2000)
    assert draws.shape == (4000, 4)
    last = rows_of((0, LAST, 0.0))
    again = forecast(found, last, seed=0, each=2000)[:, 0]
    error = 10.0 * float(model.error_sd(jnp.asarray(scales[0])))
    assert abs(again.mean() - 4499.0) < error
    read, unread = draws[:, 0].std(), draws[:, 2].std()
    assert again.std() < read < unread


def test_shares_are_of_the_two_ticks_beside_a_value():
    ticks = np.array([0.0, 1.0, 3.0])
    np.testing.assert_allclose(shares(jnp.asarray(2.5), ticks), [0, 0.25, 0.75])
    np.testing.assert_allclose(shares(jnp.asarray(9.0), ticks), [0, 0, 1])


def test_recharge_that_nothing_drains_adds_up_and_a_field_of_it_spreads():
    mesh = rz.rectangle((6, 6), (0.0, 0.0), (60.0, 60.0))
    found = responses_of(
        mesh,
        PLACES + 15.0,
        length=15.0,
        is_held=False,
        end=FIRST_RECHARGE + 6,
        num_terms=3,
        diffusivities=np.array([5.0, 100.0]),
    )
    np.testing.assert_allclose(found.whole, 1.0, rtol=1e-9)
    years = At(jnp.array([0, 2]), FIRST_RECHARGE + jnp.array([1, 4]))
    whole = found.covariances(years, years)[0]
    np.testing.assert_allclose(whole, [[2, 2], [2, 5]], rtol=1e-9)
    slow, quick = (np.ptp(one[:, -1], axis=-1).max() for one in found.field)
    assert quick < slow


def test_what_stays_is_the_last_year_or_that_of_the_nearest_well(case):
    assert last_values(case.history)[0] == 4499.0
    draws = persistence(last_values, PLACES, case, case.targets, seed=0)
    assert draws.shape[1] == len(case.targets)
    assert abs(draws[:, 0].mean() - 4499.0) < 0.2
    nearest = last_values(case.history)[1]
    assert abs(draws[:, 2].mean() - nearest) < 2.0
    assert draws[:, 2].std() > draws[:, 0].std()


@pytest.mark.parametrize("first", [REHEARSED_FROM, 1978])
def test_what_nothing_rehearses_is_refused(case, first):
    late = dataclasses.replace(case, history=case.history.between(first, LAST + 1))
    with pytest.raises(RieszError, match=f"no training well was read both before {REHEARSED_FROM}"):
        persistence(last_values, PLACES, late, case.targets, seed=0)


def test_a_change_of_wells_that_were_not_read_before_is_refused(case):
    unread = dataclasses.replace(case, wells=np.array([3]), medians=case.medians[1:])
    drawn = experiment.Drawn(unread, np.ones((5, 4)), np.ones((5, 4)), np.ones((5, 1)))
    with pytest.raises(RieszError, match="no well that is asked for was read from 1960 to 1979"):
        experiment.drift_row(drawn, 0.0)


def test_a_well_without_a_reading_to_score_is_refused():
    training, test = (
        Wells(numbers, numbers, PLACES[: len(numbers)], *np.zeros((2, len(numbers))))
        for numbers in (("a",), ("a", "b"))
    )
    record = Record(("a", "b"), PLACES[:2], rows_of((0, 1970, 1), (0, 1990, 2), (1, 1970, 3)))
    with pytest.raises(RieszError, match="no readings of b"):
        case_of(record, Split("A", training, test, np.zeros(2)))


def some_wells(wells, count):
    return wells.subset(np.arange(len(wells)) % (len(wells) // count) == 0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:ByEquation")  # of so few wells scales are hardly known
def test_the_experiment_made_small(esrp_folder, monkeypatch):
    """A few wells on a coarse mesh: the method that was chosen and a control, all kinds of rows."""
    plain = esrp(esrp_folder)
    (whole,) = splits_of(plain, "A")
    training, test = some_wells(whole.training, 16), some_wells(whole.test, 10)
    few = dataclasses.replace(
        whole, training=training, test=test, hull_distance_km=np.zeros(len(test))
    )
    small = dataclasses.replace(plain, splits=dict.fromkeys(plain.splits, (few,)))
    monkeypatch.setattr(methods, "mesh_of", lambda aquifer: mesh_of(aquifer, 0.25))
    fewer = partial(responses_of, num_terms=6)
    monkeypatch.setattr(methods, "responses_of", fewer)
    made = experiment.aquifer_time_experiment(small, 0, "quick")
    assert {task.identity["method"] for task in made.tasks} == set(methods.BY_NAME)
    some = [task for task in made.tasks if task.identity["method"] in ("equation", "last-value")]
    rows = [{**task.identity, **task.run()} for task in some]
    wells = {row["method"]: row for row in rows if row["kind"] == "well"}
    assert all(row["n"] == len(test) and row["mae"] > 0 for row in wells.values())
    assert wells["equation"]["mae"] < 2 * wells["last-value"]["mae"]
    drift = next(row for row in rows if row["kind"] == "drift" and row["selected"])
    assert drift["q025"] < drift["drift_feet"] < drift["q975"]
    assert "A, well: mae" in made.summarise(rows)


def test_other_splits_are_refused(esrp_folder):
    with pytest.raises(RieszError, match="no split 'B1' in time"):
        experiment.aquifer_time_experiment(esrp(esrp_folder), 0, "quick", "B1")
