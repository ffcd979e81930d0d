"""`riesz check` tells costs by size, and whether the data are what the priors expect."""

import json

import numpy as np
import pytest
from tests.pairs import pair
from tests.small_problem import problem_toml, rectangle, written
from typer.testing import CliRunner

from riesz.case.check.description import Cost, area_text, cost_of, cost_text, engine_lines
from riesz.case.check.predictive import PriorPredictive
from riesz.case.file.problem import read_problem
from riesz.cli.main import app
from riesz.errors import RieszError
from riesz.inference.table import engine_of

BODY = problem_toml(
    crs="EPSG:32612",
    domain=rectangle([4000, 2000], max_edge=900),
    observations={"unit": "m"},
    noise=0.1,
    equation={"diffusion": 1.0},
    boundary={"left": "rim"},
    unknowns={"rim": {"prior": "normal", "mean": 5.0, "sd": 1.0}},
)


@pytest.fixture
def problem(tmp_path):
    return written(tmp_path, BODY, "x,y,value\n500,500,5.5\n2000,1500,4.0\n900,900,50\n")


@pytest.mark.slow
def test_data_that_no_prior_draw_predicts_are_told_and_drawn(problem):
    picture = problem.parent / "prior.png"
    words = ["check", str(problem), "--draw", str(picture), "--json"]
    told = CliRunner().invoke(app, words, catch_exceptions=False)
    found = json.loads(told.stdout)
    # Nothing but the value on the left makes the state: it is that everywhere.
    assert found["prior_predictive"][1].startswith("warning: 1 of 3 observations lie outside")
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert found["unit"] == "m"
    assert found["prepared"] == ["3 rows of wells.csv"]
    assert found["rough_seconds"] > 0
    plain = CliRunner().invoke(app, ["check", str(problem)], catch_exceptions=False)
    assert "area 8 km2" in plain.stdout
    assert "a guess from the sizes, right within a factor of about three" in plain.stdout


@pytest.mark.parametrize(("path", "message"), [("a.jpg", "end in .png"), ("no/a.png", "no folder")])
def test_pictures_that_cannot_be_written_are_told_first(path, message):
    with pytest.raises(RieszError, match=message):
        CliRunner().invoke(app, ["check", "none.toml", "--draw", path], catch_exceptions=False)


def test_far_too_wide_priors_are_told():
    predicted = np.array([[-900.0, 0.0], [900.0, 0.0]])
    observed = np.array([0.0, 1.0])
    lines = PriorPredictive(predicted, predicted, observed, np.array([False, True])).lines()
    assert "warning: 1 of 2" in lines[1]
    assert "times as far apart as the observations" in lines[2]


def test_a_named_engine_is_told_beside_what_auto_would_take(problem):
    case = read_problem(problem)
    assert len(engine_lines(case)) == 1
    assert case.check().numbers["auto"] is None
    problem.write_text(f'{BODY}[engine]\nname = "mcmc"\n')
    case = read_problem(problem)
    first, second = engine_lines(case)
    assert first == "mcmc, because the problem file names it"
    assert second.startswith("auto would take laplace(marginal), because the state is linear")
    assert case.check().numbers["auto"]["engine"] == "laplace(marginal)"
    problem.write_text(f'{BODY}[engine]\nname = "laplace"\ndensity = "marginal"\n')
    assert engine_lines(read_problem(problem))[1].startswith("auto would take it too, because the")


def test_costs_grow_with_the_problem_and_are_told_in_sensible_units(problem):
    case = read_problem(problem)
    assert area_text(case) == "area 8 km2"
    small = case.problem
    problem.write_text(BODY.replace("max_edge = 900", "max_edge = 90"))
    large = read_problem(problem).problem
    names = ("laplace(marginal)", "laplace", "mcmc", "gaussian-vi(surrogate)", "mcmc(relaxed)")
    for engine in map(engine_of, names):
        assert cost_of(large, engine).seconds > cost_of(small, engine).seconds
        assert cost_of(large, engine).megabytes > cost_of(small, engine).megabytes
    assert (
        cost_of(large, pair("mcmc", kernel="nuts")).seconds
        > cost_of(large, pair("laplace(marginal)")).seconds
    )
    assert [cost_text(s) for s in (3.0, 62.0, 600.0, 7200.0)] == [
        "10 seconds",
        "60 seconds",
        "10 minutes",
        "2.0 hours",
    ]
    assert "1.5 GB" in str(Cost(10.0, 1500.0))
