"""Predictions of a run in time: which dates, at which places, and in which files."""

import csv
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
import rasterio
import xarray
from tests.command import run as run_command
from tests.tiny_run_in_time import case_in_time, fallen, tiny_run_in_time

from riesz.case.report.content import content_of
from riesz.case.report.page import page_data
from riesz.case.run import in_time
from riesz.case.run.folder import read_run
from riesz.errors import RieszError
from riesz.observe.distributions import NormalSumDistribution
from riesz.observe.sites import SiteErrors
from riesz.posterior.family import MeanField
from riesz.posterior.posterior import ExactStates, Posterior
from riesz.prediction.drawing import draws_and_course
from riesz.prediction.draws import exactly
from riesz.prediction.predict import predict

STEPS = [f"1980-{day}" for day in ("01-01", "01-31", "03-01", "03-31", "04-30", "05-30", "06-29")]
KEPT = [STEPS[0], STEPS[3], STEPS[6]]  # of maps
WELLS = np.array([[0.5, 0.5], [1.5, 0.4]])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_run_in_time(tmp_path_factory.mktemp("dates"))


@pytest.fixture(scope="module")
def run(folder):
    return read_run(folder)


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_without_places_a_table_is_of_the_observed_ones_at_each_date(run, tmp_path):
    told = run.predict(quantity="u", stat="mean,sd", at="all").save(tmp_path / "a.csv")
    assert told["dates"] == STEPS
    assert told["places"] == 2
    rows = rows_of(tmp_path / "a.csv")
    assert list(rows[0]) == ["well", "x", "y", "day", "u_mean", "u_sd"]
    assert [row["well"] for row in rows] == ["A"] * 7 + ["B"] * 7
    assert [row["day"] for row in rows] == STEPS * 2
    wanted = fallen(WELLS, 30.0 * np.arange(7)).mean(axis=0)
    np.testing.assert_allclose([float(row["u_mean"]) for row in rows], wanted.T.ravel())


def test_between_two_steps_the_state_lies_on_a_line(run, tmp_path):
    run.predict(quantity="u", at="1980-02-15,1980-01-31,1980-03-01").save(tmp_path / "a.csv")
    first, middle, last = (float(row["u_mean"]) for row in rows_of(tmp_path / "a.csv")[:3])
    assert middle == pytest.approx((first + last) / 2)


def test_a_raster_has_a_band_a_date(run, tmp_path):
    asked = {"quantity": "u", "grid": "8x4", "at": [STEPS[0], STEPS[-1]]}
    run.predict(**asked).save(tmp_path / "a.tif")
    run.predict(stat="mean,sd", **asked).save(tmp_path / "both.tif")
    run.predict(quantity="u", grid="8x4").save(tmp_path / "last.tif")
    with rasterio.open(tmp_path / "a.tif") as file, rasterio.open(tmp_path / "last.tif") as last:
        assert file.descriptions == (STEPS[0], STEPS[-1])
        np.testing.assert_allclose(file.read(2), last.read(1), rtol=1e-6)
        assert np.abs(file.read(1) - file.read(2)).max() > 0.01
    with rasterio.open(tmp_path / "both.tif") as file:
        assert file.descriptions[:2] == ("u_mean 1980-01-01", "u_sd 1980-01-01")


def test_netcdf_has_an_axis_of_time(run, tmp_path):
    told = run.predict(stat="mean,sd", grid="8x4", at=KEPT).save(tmp_path / "a.nc")
    assert list(told["ranges"]) == ["measurement_mean", "measurement_sd"]
    with xarray.open_dataset(tmp_path / "a.nc", engine="scipy") as found:
        assert found["measurement_mean"].dims == ("time", "y", "x")
        np.testing.assert_array_equal(found["time"].values, np.array(KEPT, "datetime64[ns]"))
        assert found["time"].attrs["standard_name"] == "time"
    with xarray.open_dataset(tmp_path / "a.nc", engine="scipy", decode_times=False) as found:
        assert found["time"].attrs["units"] == "days since 1980-01-01 00:00:00"


def test_hydrographs_are_drawn_with_what_was_read(folder, tmp_path, monkeypatch, capsys):
    out = tmp_path / "a.png"
    status, told, _ = run_command(["predict", folder, "--out", out], monkeypatch, capsys)
    assert status == 0
    assert out.read_bytes().startswith(b"\x89PNG")
    assert "at 2 places and 7 dates" in told


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"at": "1979-12-31"}, "1 of 1 dates asked for lie outside the time axis, 1980-01-01"),
        ({"at": "soon"}, "are 'soon': give a date such as 1980-01-31"),
        ({"at": "17"}, "are numbers, but the time axis has dates"),
        ({"at": "1980-02-01T00:00+01:00"}, "give a date such as"),
        ({"at": "all", "quantity": "s"}, "s does not change in time"),
    ],
)
def test_dates_that_make_no_sense_are_told(run, tmp_path, words, message):
    with pytest.raises(RieszError, match=message):
        run.predict(grid="4x2", **words).save(tmp_path / "a.csv")


def test_a_table_of_places_with_a_date_outside_is_told_by_its_line(run, tmp_path):
    (tmp_path / "p.csv").write_text("x,y,day\n0.5,0.5,1980-02-01\n0.5,0.5,1981-02-01\n")
    with pytest.raises(RieszError, match="line 3: the time 1981-02-01T00:00:00 is not between"):
        run.predict(points=tmp_path / "p.csv").save(tmp_path / "a.csv")


@pytest.mark.slow
def test_what_a_fit_keeps_and_what_is_marched_to_later_are_the_same(tmp_path):
    case = case_in_time(tmp_path)
    family = MeanField(jnp.array([0.3]), jnp.log(jnp.array([0.5])))
    posterior = Posterior(case.problem, family, ExactStates(), {}, "laplace", 0)
    direct = predict(posterior, "u", WELLS, times=STEPS, num_draws=8)
    draws, course = draws_and_course(posterior, num_draws=8)
    np.testing.assert_allclose(course.states().mean(axis=0), direct.mean, rtol=1e-5)
    np.testing.assert_array_equal(course.shown, np.arange(7))
    last = course.map_draws(draws, -1).state.at_nodes.values()
    np.testing.assert_allclose(last, draws.state.at_nodes.values(), rtol=1e-5)
    run = replace(read_run(tiny_run_in_time(tmp_path)), fitted=(case, posterior))
    (tmp_path / "p.csv").write_text("x,y,day\n0.5,0.5,1980-01-31\n1.5,0.4,1980-04-30\n")
    run.predict(quantity="u", points=tmp_path / "p.csv", num_draws=8).save(tmp_path / "a.csv")
    rows = rows_of(tmp_path / "a.csv")
    assert [row["day"] for row in rows] == ["1980-01-31", "1980-04-30"]
    found = [float(row["u_mean"]) for row in rows]
    np.testing.assert_allclose(found, [direct.mean[1, 0], direct.mean[4, 1]], rtol=1e-6)


def test_forecasts_know_the_level_of_their_site_and_take_no_march(run, tmp_path, monkeypatch):
    kept = run.stored
    count = kept.draws.num_draws
    off = np.array([0.4, 0.4, -0.3])  # of two readings of A, and one of B
    shifts = replace(
        kept.draws.shifts,
        scatter=NormalSumDistribution(("sd", "level_sd")),
        parameters={"sd": np.full((count, 1), 0.01), "level_sd": np.full((count, 1), 5.0)},
        sites=SiteErrors(np.array([0, 0, 1]), WELLS, None, None),
        residuals=exactly(np.tile(off, (count, 1))),
    )
    known = replace(run)
    known.__dict__["stored"] = kept._replace(
        draws=replace(kept.draws, shifts=shifts), course=replace(kept.course, shifts=shifts)
    )
    (tmp_path / "p.csv").write_text("well,day\nB,1980-06-29\nA,1980-01-31\n")
    monkeypatch.setattr(in_time, "solve_in_time_at", None)
    places = {"points": tmp_path / "p.csv"}
    told = known.predict(stat="mean,sd", **places).save(tmp_path / "a.csv")
    known.predict(quantity="u", **places).save(tmp_path / "u.csv")
    rows = rows_of(tmp_path / "a.csv")
    assert [(row["well"], row["day"]) for row in rows] == [("B", STEPS[-1]), ("A", STEPS[1])]
    states = [float(row["u_mean"]) for row in rows_of(tmp_path / "u.csv")]
    found = [float(row["measurement_mean"]) for row in rows]
    np.testing.assert_allclose(np.subtract(found, states), [-0.3, 0.4], atol=1e-4)
    assert not any("readings of their own" in note for note in told["notes"])
    (tmp_path / "p.csv").write_text("well,x,y,day\nnew,0.5,0.5,1980-06-29\n")
    told = known.predict(stat="sd", **places).save(tmp_path / "a.csv")
    assert any("all places have no readings of their own" in note for note in told["notes"])
    assert float(rows_of(tmp_path / "a.csv")[0]["measurement_sd"]) > 4.0
    (tmp_path / "p.csv").write_text("well,day\nnew,1980-06-29\n")
    with pytest.raises(RieszError, match="line 2: well is 'new', of which there are no readings"):
        known.predict(**places).save(tmp_path / "a.csv")


def test_the_report_has_maps_by_date_and_hydrographs(run):
    data = page_data(content_of(run))["course"]
    assert data["dates"] == STEPS
    assert data["shown"] == [0, 3, 6]
    assert data["sites"] == ["A", "B"]
    assert [len(then) for then in data["maps"]] == [2, 2, 2]
    mean, low, high = np.array(data["lines"][1])
    wanted = fallen(WELLS[1:], 30.0 * np.arange(7))[:, :, 0]
    np.testing.assert_allclose(mean, wanted.mean(axis=0), rtol=1e-4)
    assert (low < mean - 0.05).all()
    assert (high > mean + 0.05).all()
    np.testing.assert_allclose(data["read"], [1.5, 4.5, 3.0])
