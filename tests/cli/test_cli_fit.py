"""From a problem file to a map: check, fit and predict, and how they say no."""

import csv
import dataclasses
import importlib.util
import io
import json
import re
import shlex
import shutil
import sys
import tomllib
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import equinox as eqx
import numpy as np
import pytest
import rasterio
from tests.command import run
from tests.pairs import pair

from riesz.case.run.fit import Account, write_run
from riesz.case.run.folder import check_free, read_run
from riesz.case.run.request import statistic
from riesz.cli.main import main
from riesz.diagnose.summary import Summary
from riesz.errors import RieszError
from riesz.inference.fit import Choice
from riesz.io.tables import layers
from riesz.mesh.location import locate
from riesz.notes import text_note
from riesz.prediction.draws import BITS
from riesz.prediction.predict import predict

ROOT = Path(__file__).parent.parent.parent
AQUIFER = ROOT / "examples" / "aquifer"
README, START = ROOT / "README.md", ROOT / "docs" / "index.md"

TINY = """
[engine]
name = "mcmc"
[engine.mcmc]
kernel = "nuts"
num_warmup = 10
num_samples = 8
num_chains = 1
max_tree_depth = 2
"""
"""Settings that find nothing worth having, in no time; other engines: test_cli_engines."""


def refused(words, monkeypatch, capsys):
    """The one line with which the command says no."""
    status, _, errors = run(words, monkeypatch, capsys)
    assert status == 2
    assert "Traceback" not in errors
    return errors


def start_commands():
    """The lines that the Start page shows for the example, as words, without the comments."""
    (block,) = re.findall(r"```sh\n(riesz check.*?)```", START.read_text(), flags=re.DOTALL)
    return [shlex.split(line, comments=True)[1:] for line in block.splitlines()]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Where the lines of the Start page are run."""
    return tmp_path_factory.mktemp("root")


COARSE = {"max_edge = 12_000": "max_edge = 36_000", "levels = 2": "levels = 1"}
FEW = {
    "max_edge = 36_000": "max_edge = 36_000\nsimplify = 2_500",
    "terms = 8": "terms = 2",
    "inducing = 12": "inducing = 3",
    "sd = 1.0": "sd = 50.0",
}


def example(folder, *changes, engine=None):
    """The example of the README with some texts changed, and perhaps with another engine."""
    text = (AQUIFER / "problem.toml").read_text()
    for old, new in (both for change in changes for both in change.items()):
        assert text.count(old) == 1
        text = text.replace(old, new)
    text = text if engine is None else text.split("[engine]", maxsplit=1)[0] + engine
    (folder / "problem.toml").write_text(text)
    for name in ("outline.geojson", "wells.csv"):
        (folder / name).write_bytes((AQUIFER / name).read_bytes())
    return folder


@pytest.fixture(scope="module")
def folder(root):
    """The example with few unknowns, on a coarse mesh and with hardly any draws."""
    folder = root / "examples" / "aquifer"
    folder.mkdir(parents=True)
    return example(folder, COARSE, FEW, engine=TINY)


@pytest.fixture(scope="module")
def fit_command(root, folder):
    """What the command of the Start page printed that made a run folder."""
    words = [*start_commands()[1], "--seed", "3", "--json"]
    printed, errors = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(printed), redirect_stderr(errors):
        patch.chdir(root)
        patch.setattr(sys, "argv", ["riesz", *words])
        with pytest.raises(SystemExit) as stop:
            main()
    return stop.value.code, printed.getvalue(), errors.getvalue()


@pytest.fixture(scope="module")
def made(root, fit_command):
    """The run folder."""
    return root / "out" / "aquifer"


@pytest.fixture(scope="module")
def fitted(made):
    """The run folder, read."""
    return read_run(made)


def test_check_says_what_it_understood(tmp_path, monkeypatch, capsys):
    words = ["check", example(tmp_path, COARSE) / "problem.toml"]
    status, text, _ = run(words, monkeypatch, capsys)
    assert status == 0
    assert "area 15,076 km2" in text
    assert "80 rows of wells.csv, all inside" in text
    assert "engine        laplace(marginal), because the problem file names it" in text
    assert "Nothing to warn of." in text


def test_check_prints_one_object_last(folder, monkeypatch, capsys):
    status, text, _ = run(["check", folder / "problem.toml", "--json"], monkeypatch, capsys)
    assert status == 0
    told = json.loads(text.splitlines()[-1])
    assert told["observations"] == 80
    assert told["unknown_numbers"] == 5
    assert told["engine"] == "mcmc"


def test_the_lines_of_the_start_page_run(root, fitted, monkeypatch, capsys):
    check, fit, *predictions, report = start_commands()
    runs = {Path("out/aquifer"): fitted}  # read once, not for each line
    monkeypatch.setattr("riesz.case.run.folder.read_run", runs.__getitem__)
    assert [words[0] for words in predictions] == ["predict"] * 3
    assert report == ["report", "out/aquifer"]  # it has tests of its own
    monkeypatch.chdir(root)
    assert check == ["check", "examples/aquifer/problem.toml"]
    assert fit[1:] == ["examples/aquifer/problem.toml", "--out", "out/aquifer"]
    for words in predictions:
        status, text, _ = run(words, monkeypatch, capsys)
        assert status == 0
        assert f"written: {words[-1]}" in text
    with rasterio.open("head.tif") as head, rasterio.open("head_sd.tif") as sd:
        assert head.res == sd.res == (1500.0, 1500.0)
        assert np.nanmin(sd.read(1)) > 0
    header, *rows = csv.reader(Path("wet.csv").read_text().splitlines())
    assert header == ["well", "x_m", "y_m", "head_m", "measurement_exceed_1450"]
    assert len(rows) == 80
    assert all(0 <= float(row[4]) <= 1 for row in rows)


def test_a_run_folder_holds_all_that_was_used(folder, made):
    out = made
    kept = {"problem.toml", "observations.csv", "mesh.npz", "posterior", "draws.npz", "summary.txt"}
    assert {path.name for path in out.iterdir()} == kept | {"manifest.json", "misfit.json"}
    assert (out / "problem.toml").read_text() == (folder / "problem.toml").read_text()
    header, *rows = csv.reader((folder / "wells.csv").read_text().splitlines())
    kept_header, *kept_rows = csv.reader((out / "observations.csv").read_text().splitlines())
    assert kept_header == ["x", "y", "value"]
    places = [header.index(name) for name in ("x_m", "y_m", "head_m")]
    wanted = [[float(row[place]) for place in places] for row in rows]
    assert [[float(cell) for cell in row] for row in kept_rows] == wanted
    assert "posterior by mcmc" in (out / "summary.txt").read_text()
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["seed"] == 3
    assert manifest["versions"]["jax"]
    assert manifest["rows"][0]["unknown"] == "transmissivity (mean over the nodes)"
    assert manifest["summary"]["engine"] == "mcmc"
    assert manifest["config"]["engine"]["mcmc"]["num_samples"] == 8
    assert manifest["command"].startswith("riesz fit ")
    archive = next(out.glob("posterior/*.npz"))
    written = {"summary.txt", "draws.npz", "posterior/posterior.json", f"posterior/{archive.name}"}
    fitted = {"problem.toml", "observations.csv", "mesh.npz", "misfit.json"}
    assert set(manifest["files"]) == fitted | written
    assert [path.name for path in made.parent.iterdir()] == ["aquifer"]


def test_fit_says_which_engine_and_prints_one_object_last(fit_command):
    status, printed, errors = fit_command
    assert not status
    assert "engine mcmc: the problem file names it" in errors
    told = json.loads(printed.splitlines()[-1])
    assert told["out"] == "out/aquifer"
    assert told["observations"] == 80
    assert any("the chains do not agree yet" in note for note in told["notes"])  # so soon


def test_a_run_is_never_overwritten(folder, made, monkeypatch, capsys):
    words = ["fit", folder / "problem.toml", "--out", made]
    assert "is not empty: choose another --out" in refused(words, monkeypatch, capsys)


def written_again(fitted, folder):
    """Another run folder of a run, whose files have gone in the meantime."""
    gone = folder.parent / "gone"
    prepared = dataclasses.replace(fitted.case.prepared, path=gone / "wells.csv")
    return write_run(
        folder,
        dataclasses.replace(fitted.case, path=gone / "problem.toml", prepared=prepared),
        Account(
            fitted.posterior,
            Summary("mcmc", ({"unknown": "rim"},), 80, 1.0, 0.95, ()),
            fitted.stored,
            misfit=fitted.misfit,
        ),
        choice=Choice(pair("mcmc", kernel="nuts"), text_note("so")),
        command="riesz fit",
        seed=3,
        seconds=1.0,
    )


def test_a_run_is_the_same_after_writing_it_again(fitted, made, tmp_path):
    again = written_again(fitted, tmp_path / "new" / "run")
    assert again["engine"] == "mcmc"
    for name in ("problem.toml", "observations.csv", "draws.npz", "misfit.json"):
        assert (tmp_path / "new" / "run" / name).read_bytes() == (made / name).read_bytes()
    posterior = read_run(tmp_path / "new" / "run").posterior
    assert eqx.tree_equal(posterior.states, fitted.posterior.states)
    assert eqx.tree_equal(posterior.distribution, fitted.posterior.distribution)


def test_a_run_that_cannot_take_its_name_is_kept(fitted, made, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine").touch()
    with pytest.raises(RieszError, match=r"cannot be named .*run: Directory not empty; it is kept"):
        written_again(fitted, tmp_path / "run")
    kept = tmp_path / "run.unfinished" / "run"
    assert {path.name for path in kept.iterdir()} == {path.name for path in made.iterdir()}


@pytest.mark.parametrize(
    "name",
    ["problem.toml", "observations.csv", "mesh.npz", "draws.npz", "posterior/posterior.json"],
)
def test_a_file_that_changed_after_the_fit_is_named(name, made, tmp_path):
    shutil.copytree(made, tmp_path / "run")
    with (tmp_path / "run" / name).open("ab") as file:
        file.write(b"\n")
    with pytest.raises(RieszError, match=f"{name} changed after the fit: a changed problem needs"):
        read_run(tmp_path / "run")


@pytest.mark.parametrize("pattern", ["problem.toml", "draws.npz", "posterior/*.npz"])
def test_a_file_that_is_missing_is_named(pattern, made, tmp_path):
    shutil.copytree(made, tmp_path / "run")
    (path,) = (tmp_path / "run").glob(pattern)
    path.unlink()
    with pytest.raises(RieszError, match=re.escape(path.name)):
        read_run(tmp_path / "run")


def test_a_run_of_another_version_is_read_with_a_note_and_a_newer_one_refused(made, tmp_path):
    shutil.copytree(made, tmp_path / "run")
    manifest = json.loads((made / "manifest.json").read_text())
    manifest["versions"]["riesz"] = "0.0.7"
    (tmp_path / "run" / "manifest.json").write_text(json.dumps(manifest))
    known = read_run(made).notes
    *of_fit, note = read_run(tmp_path / "run").notes
    assert tuple(of_fit) == known
    assert (note.code, note.values["saved"]) == ("other_version", "0.0.7")
    (tmp_path / "run" / "manifest.json").write_text(json.dumps(manifest | {"schema": 99}))
    with pytest.raises(
        RieszError, match=r"by a newer version of riesz \(schema 99; this one reads"
    ):
        read_run(tmp_path / "run")


def test_a_run_without_digests_is_told(made, tmp_path):
    shutil.copytree(made, tmp_path / "run")
    manifest = json.loads((made / "manifest.json").read_text())
    del manifest["files"]
    (tmp_path / "run" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(RieszError, match="has no digests of the files that were fitted"):
        read_run(tmp_path / "run")


def test_a_raster_is_north_up_with_values_of_the_cell_centres(
    made, fitted, tmp_path, monkeypatch, capsys
):
    out = tmp_path / "head.tif"
    words = ["predict", made, "--quantity", "u", "--cell", "9000", "--out", out, "--json"]
    status, text, errors = run(words, monkeypatch, capsys)
    assert status == 0
    assert f"note: {fitted.posterior.notes[-1]}" in errors
    mesh = fitted.case.problem.forward.space.mesh
    with rasterio.open(out) as file:
        values = file.read(1)
        rows, columns = np.indices(values.shape)
        x, y = (np.reshape(part, values.shape) for part in file.xy(rows.ravel(), columns.ravel()))
        assert file.crs.to_epsg() == 32612
        assert file.descriptions == ("u_mean",)
        assert np.isnan(file.nodata)
        assert file.res == (9000.0, 9000.0)
        np.testing.assert_allclose(file.bounds[:2], mesh.nodes.min(axis=0))
    assert y[0, 0] > y[-1, 0]
    centres = np.stack([x.ravel(), y.ravel()], axis=1)
    inside = locate(mesh, centres).inside.reshape(values.shape)
    np.testing.assert_array_equal(np.isfinite(values), inside)
    assert 0 < inside.sum() < inside.size
    there = predict(fitted.posterior, "u", centres[inside.ravel()], quantiles=())
    assert (np.abs(values[inside] - there.mean) <= 2**-BITS * there.sd).all()
    told = json.loads(text.splitlines()[-1])
    assert told["places"] == inside.sum()
    assert told["notes"] == list(map(str, fitted.posterior.notes))
    assert told["ranges"]["u_mean"] == [values[inside].min(), values[inside].max()]


@pytest.mark.parametrize(
    ("quantity", "stat", "columns"),
    [
        ("transmissivity", "q95", ["transmissivity_q95"]),
        ("u", "exceed:1450", ["u_exceed_1450"]),
        ("flux", "sd", ["flux_sd_0", "flux_sd_1"]),
    ],
)
def test_a_table_has_a_row_a_point(quantity, stat, columns, folder, made, fitted, tmp_path):
    out = tmp_path / "at.csv"
    told = fitted.predict(quantity=quantity, stat=stat, points=folder / "wells.csv").save(out)
    assert list(told["ranges"]) == columns
    header, *rows = csv.reader(out.read_text().splitlines())
    assert header == ["well", "x_m", "y_m", "head_m", *columns]
    rows = np.array([[*row[1:3], *row[4:]] for row in rows], float)
    wells = fitted.case.problem.observations.points
    np.testing.assert_array_equal(rows[:, :2], wells)
    found = predict(fitted.posterior, quantity, wells, quantiles=(0.95,), exceed=(1450.0,))
    wanted = {"q95": found.quantiles[0.95], "sd": found.sd, "exceed:1450": found.exceedance[1450.0]}
    rounding = 2**-BITS * found.sd.ravel()
    assert (np.abs(rows[:, 2:].ravel() - wanted[stat].ravel()) <= rounding).all()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"grid": "4x3", "out": "a.gpk"}, "not in '.gpk': did you mean '.gpkg'?"),
        ({"grid": "4by3"}, "the grid is '4by3': give cells along x and y"),
        ({"grid": "90000x90000"}, "the grid would have 8.1e+09 cells: take larger ones"),
        ({"grid": "4x3", "cell": 9.0}, "not by grid and cell"),
        ({}, "say where by one of points, grid or cell"),
        ({"cell": -1.0}, "the cell size is -1"),
        ({"cell": 1e-9}, "cells: take larger ones"),
        ({"cell": 9e3, "stat": "mode"}, "the statistic is 'mode': give mean"),
        ({"cell": 9e3, "stat": "q100"}, "the statistic is 'q100': give mean"),
        ({"cell": 9e3, "stat": "q00"}, "a quantile in percent between 0 and 100, such as q05"),
        ({"cell": 9e3, "stat": "q955"}, "the statistic is 'q955'"),
        ({"cell": 9e3, "stat": "exceed:1e999"}, "exceed:VALUE with a finite number"),
        ({"points": Path("far.csv"), "out": "far.csv"}, "far.csv is what is read here"),
        ({"points": Path("far.csv"), "out": "../{here}/far.csv"}, "is what is read here"),
        ({"cell": 9e3, "quantity": "g"}, "there is no quantity 'g'"),
        ({"cell": 9e3, "out": "no/a.csv"}, "there is no folder"),
        (
            {"points": Path("far.csv")},
            "far.csv: 1 of 1 points lie outside the domain, first line 2",
        ),
        ({"points": Path("far.csv"), "out": "a.tif"}, "a raster needs a grid"),
    ],
)
def test_predict_says_no_and_writes_nothing(words, message, fitted, tmp_path, monkeypatch):
    (tmp_path / "far.csv").write_text("x_m,y_m\n0,0\n")
    monkeypatch.chdir(tmp_path)
    words = dict(words)
    out = Path(words.pop("out", "a.csv").format(here=tmp_path.name))
    with pytest.raises(RieszError, match=re.escape(message)):
        fitted.predict(**words).save(out)
    assert [path.name for path in tmp_path.iterdir()] == ["far.csv"]


@pytest.mark.parametrize(
    ("text", "level"),
    [
        *(("q05", 0.05), ("q5", 0.05), ("q95", 0.95), ("q97.5", 0.975), ("q2.5", 0.025)),
        *(("q00.1", 0.001), ("median", 0.5)),
    ],
)
def test_quantiles_are_in_percent_and_keep_their_names(text, level):
    assert statistic(text).quantiles == pytest.approx((level,))
    assert statistic(text).name == text


def test_a_quantile_by_its_probability_is_named_by_the_percentage():
    assert statistic("q:0.025").quantiles == (0.025,)
    assert statistic("q:.975").name == "q97.5"


def test_a_threshold_keeps_its_digits():
    assert statistic("exceed:1450.1234567").name == "exceed_1450.1234567"
    assert statistic("exceed:1450.1234567").exceed == (1450.1234567,)


def test_predict_writes_no_folder_and_nothing_into_the_run(made, tmp_path):
    (tmp_path / "a.csv").mkdir()
    with pytest.raises(RieszError, match=r"a\.csv is a folder: give the name of a file"):
        read_run(made).predict(cell=9e3).save(tmp_path / "a.csv")
    with pytest.raises(RieszError, match=r"observations\.csv is what is read here"):
        read_run(made).predict(cell=9e3).save(made / "observations.csv")


def test_what_is_not_a_run_folder_is_told(tmp_path, folder, monkeypatch, capsys):
    words = ["--cell", "9", "--out", tmp_path / "a.csv"]
    assert "no such folder" in refused(["predict", tmp_path / "no", *words], monkeypatch, capsys)
    assert "it has no observations.csv" in refused(["predict", folder, *words], monkeypatch, capsys)


def test_without_rasterio_the_extra_is_named(made, tmp_path, monkeypatch, capsys):
    def absent(name):
        raise ImportError(name)

    monkeypatch.setattr(layers, "import_module", absent)
    words = ["predict", made, "--cell", "9", "--out", tmp_path / "a.tif"]
    assert "pip install '.[gis]'" in refused(words, monkeypatch, capsys)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["check", "nowhere.toml"], "nowhere.toml cannot be read"),
        (["fit", "problem.toml", "--out", "run", "--engine", "mcm"], "did you mean 'mcmc'?"),
        (["fit", "problem.toml", "--out", "run"], "line 2: head_m is 'dry', not a finite number"),
        (["fit", "problem.toml", "--out", "a/b/run"], "line 2: head_m is 'dry', not a finite"),
        (["fit", "problem.toml", "--out", "wells.csv"], "wells.csv is not a folder"),
        (["fit", "problem.toml", "--out", "wells.csv/run"], "cannot be made: Not a directory"),
        (["fit", "problem.toml", "--out", "."], "is not empty: choose another --out"),
        (["fit", "problem.toml", "--out", "x" * 300], "cannot be made: File name too long"),
        (["fit", "problem.toml", "--out", "/proc/run"], "the folder /proc/run cannot be made"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    words, message, folder, tmp_path, monkeypatch, capsys
):
    for name in ("problem.toml", "outline.geojson"):
        (tmp_path / name).write_text((folder / name).read_text())
    (tmp_path / "wells.csv").write_text("x_m,y_m,head_m\n180000,130000,dry\n")
    given = {path.name for path in tmp_path.iterdir()}
    monkeypatch.chdir(tmp_path)
    errors = refused(words, monkeypatch, capsys)
    assert message in errors
    assert len(errors.strip().splitlines()) == 1
    assert {path.name for path in tmp_path.iterdir()} == given


def test_looking_whether_a_run_could_be_made_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RieszError, match=r"\. is where this runs: choose another --out"):
        check_free(Path())
    for name in ("x" * 250, "a/b/run", "a/run9/.."):
        check_free(Path(name))
    assert not list(tmp_path.iterdir())
    (tmp_path / "empty").mkdir()
    check_free(Path("empty"))
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]


def test_a_run_that_is_stopped_while_writing_leaves_nothing(fitted, tmp_path, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("riesz.case.run.fit.write_results", stop)
    summary = Summary("gaussian-vi(surrogate)", ({"unknown": "rim"},), 80, 1.0, 0.95, ())
    choice = Choice(pair("gaussian-vi(surrogate)"), text_note("so"))
    details = {"choice": choice, "command": "", "seed": 0, "seconds": 1.0}
    with pytest.raises(KeyboardInterrupt):
        write_run(tmp_path / "run", fitted.case, Account(fitted.posterior, summary), **details)
    assert not list(tmp_path.iterdir())


def numbers_in(path):
    return np.array(re.findall(r"-?\d+\.?\d*", path.read_text()), float)


@pytest.mark.slow
def test_the_example_is_what_its_script_makes(tmp_path):
    spec = importlib.util.spec_from_file_location("make_data", AQUIFER / "make_data.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main(tmp_path)
    for name in ("outline.geojson", "wells.csv"):
        new, kept = (
            re.findall(r"-?\d+\.?\d*", (f / name).read_text()) for f in (tmp_path, AQUIFER)
        )
        np.testing.assert_allclose(np.array(new, float), np.array(kept, float), atol=0.02)


def test_the_readme_shows_the_example():
    (block,) = re.findall(r"```toml\n(.*?)```", README.read_text(), flags=re.DOTALL)
    example = tomllib.loads((AQUIFER / "problem.toml").read_text())
    example.pop("engine")
    assert tomllib.loads(block) == example
