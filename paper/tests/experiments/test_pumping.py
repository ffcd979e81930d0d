"""Aquifer tests: closed forms, flow about a well in time, and a test from the field."""

import jax.numpy as jnp
import numpy as np
import pytest
from riesz_paper.experiments.pumping.closed_forms import hantush, leaky_well_function, theis
from riesz_paper.experiments.pumping.flow import (
    SLUG,
    doubling_times,
    flow_problem,
    growing_times,
    on_screen,
    slug_mesh,
)
from scipy.special import exp1, k0

import riesz as rz
from riesz.errors import FileFormatError, RieszError
from riesz_paper.data.pumping import Readings, readings
from riesz_paper.experiments.pumping.experiment import (
    correlation,
    draw,
    pumping,
    row,
    summarise,
    table_of,
)
from riesz_paper.experiments.pumping.field_tests import FIELD_TESTS
from riesz_paper.experiments.pumping.fit import DRIFT, INDEPENDENT, coordinates_of, noise_of

VALUES = {"k": 50.0, "Ss": 1e-4, "c": 300.0}


def made_up(well, times):
    """Two piezometers, read at the same times."""
    radius = np.repeat([30.0, 90.0], len(times))
    number = np.repeat([0, 1], len(times))
    return Readings(("near", "far"), number, radius, np.tile(times, 2), np.zeros(2 * len(times)))


def closed_form(well, seen):
    told = {
        "rate": well.rate,
        "transmissivity": VALUES["k"] * well.thickness,
        "storativity": VALUES["Ss"] * well.thickness,
    }
    if well.leaky:
        return hantush(seen.radius, seen.time, resistance=VALUES["c"], **told)
    return theis(seen.radius, seen.time, **told)


def levels(problem, values):
    start = np.zeros(problem.num_coordinates)
    own = jnp.asarray(coordinates_of(problem, values, start))
    return np.asarray(problem.predicted(problem.state(own), problem.z(own)))


def test_without_leakage_the_leaky_well_function_is_the_exponential_integral():
    u = np.geomspace(1e-9, 20.0, 40)
    np.testing.assert_allclose(leaky_well_function(u, 0 * u), exp1(u), rtol=1e-10)


def test_in_the_end_leakage_holds_the_cone():
    ratio = np.array([0.01, 0.3, 2.0])
    found = leaky_well_function(np.full(3, 1e-12), ratio)
    np.testing.assert_allclose(found, 2 * k0(ratio), rtol=1e-10)


@pytest.mark.parametrize("name", ["dalem"])
def test_few_cells_and_steps_follow_the_closed_forms(name):
    """For the search: within one per cent of the largest drawdown."""
    well = FIELD_TESTS[name].well
    seen = made_up(well, np.geomspace(0.003, 0.5, 6))
    problem = flow_problem(well, seen, rz.Gaussian(0.01), fine=False)
    exact = closed_form(well, seen)
    np.testing.assert_allclose(levels(problem, VALUES), exact, atol=0.01 * exact.max())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["oude_korendijk", "sioux", "dalem"])
def test_theis_and_hantush_are_met_to_a_thousandth(name, pumping_folder):
    """At the times and places of the field's readings, with the values that timflow found."""
    test = FIELD_TESTS[name]
    well, values = test.well, test.published["timflow"]
    seen = readings(name, test.level, pumping_folder)
    problem = flow_problem(well, seen, rz.Gaussian(0.01), fine=True)
    told = {
        "rate": well.rate,
        "transmissivity": values["k"] * well.thickness,
        "storativity": values["Ss"] * well.thickness,
    }
    exact = (
        hantush(seen.radius, seen.time, resistance=values["c"], **told)
        if well.leaky
        else theis(seen.radius, seen.time, **told)
    )
    np.testing.assert_allclose(levels(problem, values), exact, rtol=1e-3)


@pytest.mark.slow
def test_a_screen_has_one_head_and_a_slug_leaves_the_well_by_and_by():
    well = FIELD_TESTS["pratt_county_slug"].well
    times = np.geomspace(1e-5, 4e-3, 5)
    seen = Readings(("well",), np.zeros(5, int), np.full(5, 0.125), times, np.zeros(5))
    problem = flow_problem(well, seen, rz.Gaussian(0.01), fine=False)
    z = {"k": jnp.asarray(4.0), "Ss": jnp.asarray(4e-4)}
    march = problem.time.transient(problem.forward)
    states = np.asarray(rz.solve_in_time(march, z))
    heads = states[:, on_screen(well, problem.forward.space.points)]
    assert np.ptp(heads, axis=1).max() < 1e-4 * well.displacement
    level = heads.mean(axis=1)
    assert level[0] == pytest.approx(well.displacement)
    assert (np.diff(level) < 0).all()
    assert 0 < level[-1] < 0.05 * well.displacement
    # What left the casing is in the aquifer: nothing flows out of the section.
    totals = rz.budget_in_time(march, jnp.asarray(states), z)
    assert abs(float(totals.imbalance)) < 1e-10
    assert float(sum(totals.gains.values())) == pytest.approx(0.0, abs=1e-10)


def test_the_mesh_about_a_screen_has_its_whole_wall():
    well = FIELD_TESTS["pratt_county_slug"].well
    mesh = slug_mesh(well, SLUG[True])
    depths = mesh.nodes[np.unique(mesh.facets["screen"]), 1]
    np.testing.assert_allclose([depths.min(), depths.max()], well.screen)
    assert mesh.nodes[:, 1].max() == well.thickness


def test_steps_grow_or_double_and_end_at_the_last_reading():
    growing = np.diff(growing_times(1e-3, 2.0, 1.1))
    np.testing.assert_allclose(growing[1:] / growing[:-1], growing[1] / growing[0])
    assert growing[0] == pytest.approx(1e-3)
    assert 1.09 < growing[1] / growing[0] <= 1.1
    doubling = doubling_times(1e-3, 2.0, 4)
    assert doubling[-1] == pytest.approx(2.0)
    lengths = np.diff(doubling).reshape(-1, 4)
    np.testing.assert_allclose(lengths / 2.0 ** np.arange(len(lengths))[:, None], lengths[0, 0])
    assert lengths[0, 0] <= 1e-3


def test_residuals_that_follow_each_other_are_told_from_noise():
    seen = made_up(None, np.geomspace(0.01, 1.0, 400))
    noise = np.random.default_rng(0).normal(size=800)
    assert abs(correlation(noise, seen)) < 0.1
    assert correlation(np.cumsum(noise), seen) > 0.9


def test_readings_of_a_well_share_a_drift():
    seen = made_up(None, np.geomspace(0.01, 1.0, 4))
    likelihood, priors = noise_of(DRIFT, seen)
    assert set(priors) == {"noise_sd", "drift_sd", "memory"}
    z = {"noise_sd": jnp.asarray(0.1), "drift_sd": jnp.asarray(0.2), "memory": jnp.asarray(1.0)}
    factor = likelihood.factor(jnp.zeros(8), z)
    root = np.asarray(factor.coloured(jnp.eye(8)))
    covariance = root @ root.T
    np.testing.assert_allclose(np.diag(covariance), 0.1**2 + 0.2**2)
    np.testing.assert_allclose(covariance[:4, 4:], 0.0, atol=1e-12)
    gap = np.log(seen.time[1] / seen.time[0])
    np.testing.assert_allclose(covariance[0, 1], 0.2**2 * np.exp(-gap))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("well,r_m,time_d,drawdown_m\na,1,-1,0\n", "line 2: time_d is -1, and must be positive"),
        ("well,r_m,time_d,drawdown_m\na,1,1,0\na,2,2,0\n", "well a is at several distances"),
        ("well,r_m,time_d,drawdown_m\na,1,1,0\na,1,1,0\n", "line 3: well a was read before"),
        ("well,r_m,time_d\na,1,1\n", "has no column 'drawdown_m'"),
    ],
)
def test_bad_readings_are_told(tmp_path, text, message):
    (tmp_path / "sioux.csv").write_text(text)
    with pytest.raises(FileFormatError, match=message):
        readings("sioux", "drawdown_m", tmp_path)


def test_a_missing_table_is_told_before_any_work(tmp_path):
    with pytest.raises(RieszError, match="oude_korendijk"):
        pumping(0, "quick", tmp_path)


def test_rows_are_summed_up_and_drawn(tmp_path, pumping_folder):
    told = {"test": "sioux", "noise": INDEPENDENT, "parameter": "k", "cpu_seconds": 1.0}
    found = {**told, "mean": 280.0, "sd": 2.0, "published": 282.8, "predicted": None}
    seen = readings("sioux", "drawdown_m", pumping_folder)
    rows = [
        {**found, "source": "timflow", "inside": True, "predicted": seen.level.tolist()},
        {**found, "source": "AQTESOLV", "inside": False},
    ]
    assert summarise(rows)["sioux, independent: k"] == "280 +- 2; inside: timflow"
    assert all("predicted" not in one for one in table_of(rows))
    draw(rows, tmp_path, pumping_folder)
    assert {one.name for one in tmp_path.iterdir()} == {"values.md", "fits.png"}


@pytest.mark.slow
def test_of_sioux_the_published_conductivity_is_inside(pumping_folder):
    found = row(pumping_folder, "sioux", INDEPENDENT, "k", "timflow", 0)
    assert found["q025"] < found["published"] < found["q975"]
    assert found["sd"] < 0.01 * found["mean"]
    assert found["rmse"] < 0.0041
