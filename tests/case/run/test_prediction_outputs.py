"""Predictions come back from every kind of file with their CRS, units and values."""

import csv
import dataclasses
import json
import sys
from pathlib import Path
from xml.etree import ElementTree

import geopandas
import matplotlib
import meshio
import numpy as np
import pyogrio
import pytest
import rasterio
import xarray
from tests.tiny_run import tiny_run

from riesz.case.run.folder import read_run
from riesz.case.run.measurand import measurand_of
from riesz.case.run.predict import RunPrediction
from riesz.case.run.request import (
    PredictionRequest,
    check_output_path,
    check_request,
    statistics_in,
)
from riesz.cli.main import main
from riesz.errors import RieszError
from riesz.io.maps.geopackage import round_numbers
from riesz.io.maps.raster import COLOURS, Band, colour_range
from riesz.io.tables import layers
from riesz.prediction.draws import BITS
from riesz.prediction.predict import predict

NUM_DRAWS = 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two of nine wells are only known to lie below what is written."""
    return tiny_run(tmp_path_factory.mktemp("outputs"), num_below=2, num_draws=NUM_DRAWS)


@pytest.fixture(scope="module")
def fitted(folder):
    """The run, read."""
    return read_run(folder)


@pytest.fixture(scope="module")
def in_metres(fitted, folder):
    """Writes predictions of the run as if its problem file named a transform."""
    from riesz.case.run import predict

    def written(out, *, transform=None, **words):
        measured = dataclasses.replace(measurand_of(fitted.observations), transform=transform)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(predict, "measurand_of", lambda names: measured)
            return fitted.predict(**{"quantity": "u"} | words).save(out)

    return written


@pytest.fixture(scope="module")
def direct(fitted):
    """The same without files, on the nodes."""
    return predict(fitted.posterior, "u", num_draws=NUM_DRAWS, quantiles=(0.05,), exceed=(103.0,))


def test_a_raster_has_named_bands_with_units_and_a_style(in_metres, tmp_path):
    out = tmp_path / "head.tif"
    told = in_metres(out, stat="mean,sd,q05,exceed:103", cell=400.0)
    assert told["files"] == [str(out), str(tmp_path / "head.qml")]
    with rasterio.open(out) as file:
        assert file.crs.to_epsg() == 32612
        assert file.descriptions == ("u_mean", "u_sd", "u_q05", "u_exceed_103")
        assert file.units == ("m", "m", "m", "1")
        assert file.tags(4)["long_name"] == "probability of more than 103 of u"
        mean, sd, low, above = file.read()
        assert np.isnan(file.nodata)
    assert (low < mean).all()
    assert (sd > 0).all()
    assert ((above >= 0) & (above <= 1)).all()
    style = ElementTree.fromstring((tmp_path / "head.qml").read_bytes())
    shader = style.find("pipe/rasterrenderer/rastershader/colorrampshader")
    ends = [float(item.get("value")) for item in shader.findall("item")]
    assert [ends[0], ends[-1]] == pytest.approx([mean.min(), mean.max()])
    assert ends == sorted(ends)


def test_netcdf_has_units_a_grid_mapping_and_fill_values(in_metres, tmp_path):
    out = tmp_path / "head.nc"
    in_metres(out, quantity="value", stat="mean,exceed:103", cell=400.0)
    with xarray.open_dataset(out, engine="scipy", decode_coords="all") as found:
        assert dict(found.sizes) == {"y": 5, "x": 10}
        assert found.attrs["Conventions"] == "CF-1.8"
        assert found["value_mean"].attrs["units"] == "m"
        assert found["value_mean"].attrs["long_name"] == "mean of head_m"
        assert found["value_exceed_103"].attrs["units"] == "1"
        assert found["x"].attrs["standard_name"] == "projection_x_coordinate"
        assert found["x"].attrs["units"] == "metre"
        assert "UTM zone 12N" in found["crs"].attrs["crs_wkt"]
        assert found["crs"].attrs["grid_mapping_name"] == "transverse_mercator"
        assert np.isnan(found["value_mean"].encoding["_FillValue"])
        assert found["y"].values[0] < found["y"].values[-1]
        assert float(found["value_mean"].max()) > 100
    with rasterio.open(f"netcdf:{out}:value_mean") as raster:  # as QGIS opens it
        assert raster.crs.to_epsg() == 32612


def test_a_geopackage_has_contours_flow_and_measurements(in_metres, fitted, tmp_path):
    out = tmp_path / "head.gpkg"
    in_metres(out, cell=400.0)
    assert set(pyogrio.list_layers(out)[:, 0]) == {"contours", "flow", "measurements"}
    contours, flow, told = (
        geopandas.read_file(out, layer=layer) for layer in ("contours", "flow", "measurements")
    )
    assert contours.crs.to_epsg() == flow.crs.to_epsg() == told.crs.to_epsg() == 32612
    assert set(contours["statistic"]) == {"u_mean"}
    assert set(contours["unit"]) == set(told["unit"]) == {"m"}
    assert contours["level"].between(95, 110).all()
    assert set(contours.geom_type) == {"LineString"}
    # Water runs from the middle to the prescribed rim: in the west, westwards.
    west = flow[flow.geometry.x < 350_400]
    assert (west["flux_x"].mean() < 0) & west["direction"].between(180, 360).any()
    np.testing.assert_allclose(flow["magnitude"], np.hypot(flow["flux_x"], flow["flux_y"]))
    np.testing.assert_allclose(told["residual"][2:], (told["measured"] - told["predicted"])[2:])
    np.testing.assert_allclose(told["measured"], fitted.case.problem.observations.values)
    assert (told["high_95"] - told["low_95"] > 2 * told["sd"]).all()
    assert [path.name for path in tmp_path.iterdir()] == ["head.gpkg"]


def test_limits_have_no_residual_in_a_geopackage(in_metres, tmp_path):
    out = tmp_path / "head.gpkg"
    in_metres(str(out), quantity="conductivity", cell=400.0)
    told = geopandas.read_file(out, layer="measurements")
    assert told["censored"].tolist() == [True] * 2 + [False] * 7
    assert told["residual"].isna().tolist() == told["censored"].tolist()
    assert told["measured"].notna().all()


def test_an_unknown_has_contours_but_no_flow(in_metres, tmp_path):
    out = tmp_path / "conductivity.gpkg"
    in_metres(out, quantity="conductivity", cell=400.0)
    assert set(pyogrio.list_layers(out)[:, 0]) == {"contours", "measurements"}


def test_a_vtu_file_holds_values_at_the_nodes(in_metres, direct, fitted, tmp_path):
    out = tmp_path / "head.vtu"
    told = in_metres(out, stat="mean,sd")
    found = meshio.read(out)
    rounding = 2**-BITS * direct.sd
    assert (np.abs(found.point_data["u_mean"] - direct.mean) <= rounding).all()
    assert (np.abs(found.point_data["u_sd"] - direct.sd) <= rounding).all()
    mesh = fitted.case.problem.forward.space.mesh
    np.testing.assert_allclose(found.points[:, :2], mesh.nodes)
    assert told["places"] == mesh.num_nodes
    with pytest.raises(RieszError, match="level is a number, not a function of place"):
        in_metres(tmp_path / "level.vtu", quantity="level")
    in_metres(tmp_path / "flux.vtu", quantity="flux")
    assert set(meshio.read(tmp_path / "flux.vtu").cell_data) == {"flux_mean_0", "flux_mean_1"}


def test_an_ensemble_has_a_column_a_draw_with_the_same_mean(in_metres, tmp_path):
    draws, mean = tmp_path / "draws.csv", tmp_path / "mean.csv"
    in_metres(draws, stat="ensemble", cell=400.0)
    in_metres(mean, stat="all", cell=400.0)
    header, *rows = csv.reader(draws.read_text().splitlines())
    assert header[:4] == ["x_m", "y_m", "u_draw0000", "u_draw0001"]
    assert len(header) == 2 + NUM_DRAWS
    every = np.array(rows, float)[:, 2:]
    header, *rows = csv.reader(mean.read_text().splitlines())
    assert header[2:] == ["u_mean", "u_sd", "u_q05", "u_q50", "u_q95"]
    table = np.array(rows, float)
    np.testing.assert_allclose(every.mean(axis=1), table[:, 2])
    np.testing.assert_allclose(np.quantile(every, 0.5, axis=1), table[:, 5])


def test_the_measured_value_is_the_exponential_of_a_logarithm(in_metres, tmp_path):
    states, values = tmp_path / "u.csv", tmp_path / "value.csv"
    in_metres(states, stat="q50", cell=400.0, transform="log")
    in_metres(values, quantity="value", stat="q50", cell=400.0, transform="log")
    read = [np.loadtxt(path, delimiter=",", skiprows=1)[:, 2] for path in (states, values)]
    np.testing.assert_allclose(np.log(read[1]), read[0], rtol=1e-4)


def test_units_of_states_that_are_logarithms_are_not_those_of_the_measurements(fitted):
    measured = dataclasses.replace(measurand_of(fitted.observations), unit="mg/kg", transform="log")
    assert measured.unit_of("value") == "mg/kg"
    assert measured.unit_of("u") is None
    assert measured.unit_of("conductivity") is None
    np.testing.assert_allclose(measured.of(np.zeros(2)), 1.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mean,", "the statistic is '': give mean"),
        ("mean,mode", "the statistic is 'mode'"),
        ("q:1.5", "the statistic is 'q:1.5'"),
        ("q00", "the statistic is 'q00'"),
        ("mean,sd,mean", "has mean more than once"),
        ("ensemble,mean", "the statistic is 'ensemble'"),
        ("exceed:nan", "exceed:VALUE with a finite number"),
    ],
)
def test_nonsense_among_statistics_is_told(text, message):
    with pytest.raises(RieszError, match=message):
        statistics_in(text)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"out": "a.vtu", "cell": 9.0}, "leave cell out"),
        ({"out": "a.nc", "points": Path("a.csv")}, "a NetCDF map needs a grid"),
        ({"out": "a.gpkg", "points": Path("a.csv")}, "a map of contours needs a grid"),
        ({"out": "a.tif", "cell": 9.0, "stat": "ensemble"}, "ensemble is for .csv files"),
        ({"out": "a.tiff", "cell": 9.0}, "did you mean '.tif'?"),
        ({"out": "a", "cell": 9.0}, "files that end in .csv, .tif, .gpkg, .nc, .vtu or .png"),
    ],
)
def test_bad_requests_are_refused_before_any_work(words, message, fitted, tmp_path, monkeypatch):
    def never(*_):
        raise AssertionError("work began")

    monkeypatch.setattr(RunPrediction, "compute", never)
    places = {key: value for key, value in words.items() if key != "out"}
    with pytest.raises(RieszError) as refusal:
        fitted.predict(**places).save(tmp_path / words["out"])
    assert message in str(refusal.value)


def request_in(folder, run, name):
    run = dataclasses.replace(run, folder=folder)
    return PredictionRequest(run=run, out=folder / name, cell=9.0)


def test_a_folder_that_may_not_be_written_to_is_told_first(fitted, tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(RieszError, match="you may not write to"):
        check_request(request_in(tmp_path, fitted, "a.csv"))


def test_a_quantity_that_is_misspelt_is_told_with_the_nearest(in_metres, tmp_path):
    with pytest.raises(RieszError, match="did you mean 'conductivity'"):
        in_metres(tmp_path / "a.csv", quantity="conductivty", cell=400.0)


@pytest.mark.parametrize("suffix", [".nc", ".gpkg"])
def test_without_the_packages_the_extra_is_named(suffix, fitted, tmp_path, monkeypatch):
    def absent(name):
        raise ImportError(name)

    monkeypatch.setattr(layers, "import_module", absent)
    with pytest.raises(RieszError, match=r"pip install '\.\[gis\]'"):
        check_request(request_in(tmp_path, fitted, f"a{suffix}"))


def test_a_geopackage_that_is_stopped_leaves_what_was_there(in_metres, tmp_path, monkeypatch):
    out = tmp_path / "head.gpkg"
    out.write_text("before")

    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(geopandas.GeoDataFrame, "to_file", stopped)
    with pytest.raises(KeyboardInterrupt):
        in_metres(out, cell=400.0)
    assert out.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["head.gpkg"]


def test_colours_suit_what_they_show():
    def colours(name, low, high):
        return colour_range([Band(name, np.array([low, np.nan, high]))])

    assert colours("u_mean", 1.0, 9.0) == ("viridis", 1.0, 9.0)
    assert colours("u_sd", 1.0, 9.0) == ("magma", 1.0, 9.0)
    assert colours("u_exceed_3", 0.2, 0.4) == ("cividis", 0.0, 1.0)
    assert colours("f_mean", -3.0, 9.0) == ("RdBu_r", -9.0, 9.0)
    assert colours("u_mean", -0.1, 9.0)[0] == "viridis"


def test_colours_are_those_of_matplotlib():
    for name, codes in COLOURS.items():
        shares = np.linspace(0, 1, len(codes.split()))
        wanted = matplotlib.colormaps[name](shares, bytes=True)[:, :3]
        assert [bytes(one.tolist()).hex() for one in wanted] == codes.split()


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (4.3, 4.31), (-120.0, 3400.0), (1e-9, 3e-9)])
def test_contours_stand_at_about_a_dozen_round_numbers(low, high):
    marks = round_numbers(low, high)
    inside = marks[(marks > low) & (marks < high)]
    assert 4 < len(inside) <= 12
    step = marks[1] - marks[0]
    assert np.isclose(step / 10 ** np.floor(np.log10(step * 1.0001)), [1, 2, 2.5, 5]).any()
    np.testing.assert_allclose(marks / step, np.round(marks / step), atol=1e-9)


def test_quiet_prints_nothing_and_json_prints_one_object(
    folder, fitted, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr("riesz.case.run.folder.read_run", lambda folder: fitted)

    def run(*words):
        out = ["--out", str(tmp_path / "a.csv"), "--cell", "400"]
        monkeypatch.setattr(sys, "argv", ["riesz", "predict", str(folder), *out, *words])
        with pytest.raises(SystemExit) as stop:
            main()
        assert not stop.value.code
        return capsys.readouterr()

    told = run("--quiet")
    assert (told.out, told.err) == ("", "")
    told = run("--quiet", "--json")
    assert json.loads(told.out)["files"] == [str(tmp_path / "a.csv")]


@pytest.mark.parametrize("name", ["problem.toml", "observations.csv", "wells.csv", "rivers.csv"])
def test_what_a_run_is_read_from_is_not_overwritten(name, fitted, tmp_path):
    (tmp_path / name).write_text("")
    with pytest.raises(RieszError, match="is what is read here: write to another file"):
        check_output_path(request_in(tmp_path, fitted, name))


def test_a_table_of_places_keeps_its_columns_and_the_rows_outside(fitted, tmp_path):
    places, out = tmp_path / "places.csv", tmp_path / "out.csv"
    places.write_text(
        "id;x_m;y_m;u_mean;depth\nA;350500,5;4800500;old;1,5\nfar;1;2;old;2\nB;353000;4801000;;\n"
    )
    told = fitted.predict(quantity="u", points=places).save(out)
    with open(out, newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["id", "x_m", "y_m", "depth", "u_mean"]
    assert [row["id"] for row in rows] == ["A", "far", "B"]
    assert (rows[0]["x_m"], rows[0]["depth"], rows[1]["u_mean"]) == ("350500.5", "1.5", "")
    alone = tmp_path / "alone.csv"
    inside = np.array([[350500.5, 4800500.0], [353000.0, 4801000.0]])
    fitted.predict(quantity="u", points=inside).save(alone)
    with open(alone, newline="") as file:
        expected = [row["u_mean"] for row in csv.DictReader(file)]
    assert [rows[0]["u_mean"], rows[2]["u_mean"]] == expected
    assert told["places"] == 2
    assert told["notes"][0] == (
        "1 of 3 rows of places.csv lie outside the domain, where nothing is predicted: line 3"
    )
