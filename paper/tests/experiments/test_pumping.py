"""Aquifer tests: closed forms, flow about a well in time, and a test from the field."""

import jax.numpy as jnp
import numpy as np
import pytest

import riesz as rz
from riesz.errors import RieszError
from riesz_paper.data.pumping import readings
from riesz_paper.experiments.pumping.experiment import draw, pumping, row, summarise, table_of
from riesz_paper.experiments.pumping.field_tests import FIELD_TESTS
from riesz_paper.experiments.pumping.slug import (
    SLUG,
    doubling_times,
    on_screen,
    slug_mesh,
    slug_problem,
)
from riesz_pumping.fit import (
    INDEPENDENT,
    coordinates_at,
    level_function,
    pumping_problem,
    superpose,
)
from riesz_pumping.well import Readings


@pytest.mark.slow
@pytest.mark.parametrize("name", ["oude_korendijk", "sioux", "dalem"])
def test_theis_and_hantush_are_met_to_a_thousandth(name, pumping_folder):
    """At the times and places of the field's readings, with the values that timflow found."""
    test = FIELD_TESTS[name]
    well, values = test.well, test.published["timflow"]
    seen = readings(name, test.level, pumping_folder)
    problem = pumping_problem(well, seen, rz.Gaussian(0.01), {})
    found = level_function(problem)(coordinates_at(problem, values))
    exact = superpose(well, seen.radius, seen.time, values)
    np.testing.assert_allclose(found, exact, rtol=1e-3)


@pytest.mark.slow
def test_a_screen_has_one_head_and_a_slug_leaves_the_well_by_and_by():
    well = FIELD_TESTS["pratt_county_slug"].well
    times = np.geomspace(1e-5, 4e-3, 5)
    seen = Readings(("well",), np.zeros(5, int), np.full(5, 0.125), times, np.zeros(5))
    problem = slug_problem(well, seen, rz.Gaussian(0.01), {}, SLUG[False])
    z = {"k": jnp.asarray(4.0), "Ss": jnp.asarray(4e-4)}
    march = problem.time.transient(problem.forward)
    states = np.asarray(rz.solve(march, z))
    heads = states[:, on_screen(well, problem.forward.space.points)]
    assert np.ptp(heads, axis=1).max() < 1e-4 * well.displacement
    level = heads.mean(axis=1)
    assert level[0] == pytest.approx(well.displacement)
    assert (np.diff(level) < 0).all()
    assert 0 < level[-1] < 0.05 * well.displacement
    # What left the casing is in the aquifer: nothing flows out of the section.
    totals = rz.fem.budget(march, jnp.asarray(states), z)
    assert abs(float(totals.imbalance)) < 1e-10
    assert float(sum(totals.gains.values())) == pytest.approx(0.0, abs=1e-10)


def test_the_mesh_about_a_screen_has_its_whole_wall():
    well = FIELD_TESTS["pratt_county_slug"].well
    mesh = slug_mesh(well, SLUG[True])
    depths = mesh.nodes[np.unique(mesh.facets["screen"]), 1]
    np.testing.assert_allclose([depths.min(), depths.max()], well.screen)
    assert mesh.nodes[:, 1].max() == well.thickness


def test_steps_double_and_end_at_the_last_reading():
    doubling = doubling_times(1e-3, 2.0, 4)
    assert doubling[-1] == pytest.approx(2.0)
    lengths = np.diff(doubling).reshape(-1, 4)
    np.testing.assert_allclose(lengths / 2.0 ** np.arange(len(lengths))[:, None], lengths[0, 0])
    assert lengths[0, 0] <= 1e-3


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
