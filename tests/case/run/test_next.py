"""`riesz next` on a run: files, its section of the report, and what it refuses."""

import csv
import json
import sys

import matplotlib.image
import numpy as np
import pytest
import rasterio
from tests.tiny_run_in_time import tiny_run_in_time

from riesz.case.report.next import next_section
from riesz.case.run.folder import NEXT, load_answers, read_run
from riesz.case.run.measurand import Measurand
from riesz.case.run.next import cells_in_hull, look_up
from riesz.cli.main import main
from riesz.errors import RieszError
from riesz.mesh.grids import Grid


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Its state falls to the right, more in some draws: what is known there is known everywhere."""
    return tiny_run_in_time(tmp_path_factory.mktemp("next"), num_draws=40)


@pytest.fixture(scope="module")
def run(folder):
    return read_run(folder)


def places_in(folder, *rows, name="places.csv"):
    path = folder / name
    path.write_text("\n".join(["x,y", *rows]) + "\n")
    return path


def test_the_command_writes_a_table_a_raster_and_a_figure(folder, tmp_path, monkeypatch, capsys):
    outs = [str(tmp_path / name) for name in ("next.csv", "next.tif", "next.png")]
    words = ["riesz", "next", str(folder), "--cell", "0.1", "--count", "2", "--json"]
    monkeypatch.setattr(sys, "argv", [*words, *(w for out in outs for w in ("--out", out))])
    with pytest.raises(SystemExit, match="0"):
        main()
    told = json.loads(capsys.readouterr().out)
    first = told["places"][0]
    assert first["rank"] == 1
    assert first["x"] == pytest.approx(1.95)
    assert told["noise_sd"] == pytest.approx(0.05)
    with open(outs[0], newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == told["candidates"] == 200
    assert float(rows[0]["share"]) == first["share"]
    assert float(rows[1]["cumulative"]) > float(rows[0]["cumulative"])
    assert rows[2]["rank"] == rows[2]["cumulative"] == ""
    shares = np.array([float(row["share"]) for row in rows[2:]])
    assert (np.diff(shares) <= 0).all()
    with rasterio.open(outs[1]) as file:
        assert file.descriptions == ("next_share", "next_reduction")
        assert file.read(1).max() == pytest.approx(max(first["share"], shares[0]))
    assert np.ptp(matplotlib.image.imread(outs[2])) > 0


def test_a_measurement_tells_what_the_formula_says(run):
    told = run.next(candidates=np.array([[2.0, 0.5]]))
    end = run.draws().state.at_nodes.values()
    variance = float(end[:, run.draws().mesh.nodes[:, 0] == 2.0][:, 0].var(ddof=1))
    assert told["places"][0]["share"] == pytest.approx(variance / (variance + 0.05**2), rel=0.01)


def test_dates_are_those_asked_for(run):
    early, late = (run.next(at=when, cell=0.2) for when in ("1980-03-31", "1980-06-29"))
    assert early["date"] == "1980-03-31"
    assert early["before"] < late["before"]
    somewhere = run.next(at="1980-03-31", candidates=np.array([[1.0, 0.5]]))
    assert somewhere["before"] == early["before"]
    with pytest.raises(RieszError, match="dates are asked for: give one"):
        run.next(at="1980-01-01,1980-06-29", cell=0.2)


def test_the_report_has_what_was_kept(folder, tmp_path):
    read_run(folder).next("exceed:0.5", cell=0.2, count=2, report=True)
    read_run(folder).next("u", candidates=np.array([[1.0, 0.5]]), report=True)
    read_run(folder).next("u", candidates=np.array([[0.5, 0.5]]), report=True)
    read_run(folder).report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert page.count('id="next"') == page.count('href="#next"') == 1
    assert page.count("<h3>For ") == 2
    assert "0.5, 0.5" in page
    outline = [np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 1.0]])]
    assert next_section((), outline) == ""
    with pytest.raises(RieszError, match="delete it"):
        next_section([load_answers(folder)[0] | {"map": 3}], outline)
    (folder / NEXT).unlink()


def test_what_cannot_be_answered_is_refused_before_any_work(folder, run, tmp_path):
    good = places_in(tmp_path, "0.5,0.5")
    for words, told in (
        ({"candidates": places_in(tmp_path, name="none.csv")}, "no rows"),
        ({"candidates": places_in(tmp_path, "7,7", name="far.csv")}, "line 2"),
        ({"candidates": good, "count": 2}, "2 places are to be chosen among 1"),
        ({"candidates": good, "cell": 0.1}, "give one of them"),
        ({"quantity": "ss"}, "no quantity 'ss'"),
        ({"quantity": "budget:wells"}, "in time there is none"),
        ({"noise": -1.0}, "positive sd"),
        ({"covariates": {"depth": 1}}, "no covariate"),
    ):
        with pytest.raises(RieszError, match=told):
            run.next(**words)
    for out, words, told in (
        ("next.gpkg", {}, "end in .csv"),
        ("next.tif", {"candidates": good}, "needs cells"),
        ("none/next.csv", {}, "no folder"),
        ("places.csv", {"candidates": good}, "what is read here"),
    ):
        with pytest.raises(RieszError, match=told):
            run.next("u", tmp_path / out, **words)
    with pytest.raises(RieszError, match="not a run folder"):
        read_run(tmp_path / "nothing").next()


def test_values_and_lines_are_those_of_the_report(run):
    measured, draws = Measurand("cd", None, "log"), run.draws()
    assert look_up("exceed:2", measured, draws) == ("exceed:2", pytest.approx(np.log(2)))
    with pytest.raises(RieszError, match="above zero"):
        look_up("exceed:-1", measured, draws)


@pytest.mark.slow
def test_candidates_may_have_dates_of_their_own(folder, tmp_path):
    path = tmp_path / "dated.csv"
    path.write_text("x,y,day\n0.5,0.5,1980-02-15\n1.5,0.5,1980-05-15\n1.5,0.5,1980-06-29\n")
    for quantity in ("u", "s"):
        told = read_run(folder).next(quantity, candidates=path, num_draws=40, count=3)
        assert [place["day"] for place in told["places"]] == [
            *("1980-06-29", "1980-05-15", "1980-02-15"),
        ]


def test_candidates_lie_among_observations_that_the_domain_was_drawn_about():
    """A cell is one where its centre is in the hull: here below the diagonal."""
    axes = (np.arange(0.5, 4), np.arange(0.5, 4))
    every = Grid(axes, np.ones((4, 4), bool), (1.0, 1.0))
    hull = np.array([[0.0, 0.0], [4.2, 0.0], [0.0, 4.2]])
    found = cells_in_hull(every, hull).points
    assert len(found) == 10
    assert (found.sum(axis=1) <= 4).all()
    assert cells_in_hull(every, hull + 9.0) is every


def test_candidates_outside_are_left_out_and_named(run, tmp_path):
    path = places_in(tmp_path, "1.0,0.5", "7.0,0.5")
    told = run.next(candidates=path)
    assert told["candidates"] == 1
    assert told["notes"][0].endswith("where nothing is predicted: line 3")
