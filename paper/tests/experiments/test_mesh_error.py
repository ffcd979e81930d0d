"""Intervals on a coarse mesh: what rows hold, and that a correction brings what it is for."""

import numpy as np
import numpyro.distributions as dist
import pytest

import riesz as rz
from riesz_paper.experiments.mesh_error import experiment as module
from riesz_paper.experiments.mesh_error.experiment import (
    CONTROL,
    CORRECT,
    NOW,
    SCORES,
    WHAT,
    mesh_error_experiment,
    summarise,
)
from riesz_paper.experiments.mesh_error.problem import Case, case_of, in_time


@pytest.fixture(scope="module")
def coarse() -> Case:
    """Six cells along each side and precise readings: the mesh is off by more than the noise."""
    rng = np.random.default_rng(4)
    points = rng.uniform(0.05, 0.95, (80, 2))
    everywhere = rz.inverse_problem(
        rz.rectangle((6, 6)),
        rz.diffusion("a") - rz.source("f"),
        latents={"a": dist.LogNormal(0.0, 0.5), "f": dist.Normal(10.0, 0.1)},
        observations=rz.observations(points, np.zeros(len(points))),
        likelihood=rz.Gaussian(1.0),
        dirichlet={"boundary": 0.0},
    )
    case = case_of("number", everywhere, 40, 0.03, rng, over=1.0)
    assert case is not None
    return case


@pytest.fixture
def by_laplace(monkeypatch):
    """In place of a choice of engines, which takes its time."""

    def fit(problem, **how):
        return rz.fit(problem, "laplace", check=False, progress=False, **how)

    monkeypatch.setattr(module, "fit", fit)


def test_intervals_miss_the_truth_of_a_finer_mesh_until_the_error_is_corrected(coarse, by_laplace):
    rows = {what: module.scores(coarse, what) for what in (NOW, CORRECT)}
    assert rows[NOW]["coverage95"] < 0.6
    assert rows[CORRECT]["coverage95"] >= 0.9
    assert rows[CORRECT]["width"] < 2 * rows[NOW]["width"]


def test_the_estimate_is_near_the_error_that_a_mesh_two_levels_finer_shows(coarse, by_laplace):
    told = module.errors(coarse, NOW)
    assert told["correlation"] > 0.97
    assert 0.8 < told["estimate"] / told["truth"] < 1.25
    assert set(told) | set(module.scores(coarse, NOW)) == set(SCORES)


def test_one_of_four_problems_is_in_time_and_each_has_three_rows():
    tasks = mesh_error_experiment(7, "full").tasks
    assert len(tasks) == 3 * 80
    assert [task.identity["what"] for task in tasks[:3]] == list(WHAT)
    assert len(mesh_error_experiment(7, "quick", problems=5).tasks) == 15


def test_readings_in_time_are_at_ends_of_periods_and_places_come_last():
    family, problem, num_sensors = in_time(np.random.default_rng(2))
    times = problem.observations.times
    assert family in module.HELD
    assert times is not None
    assert len(np.unique(times[:num_sensors])) == 12
    assert len(np.unique(times[num_sensors:])) == 3
    assert "s" in problem.latents.names


def test_a_fit_without_a_posterior_counts_in_no_mean(coarse, monkeypatch):
    def late(problem, **how):
        raise rz.RieszError("the time was over")

    monkeypatch.setattr(module, "case_at", lambda seed, number: coarse)
    monkeypatch.setattr(module, "fit", late)
    monkeypatch.setattr(module, "fit_now", late)
    rows = [
        {"problem": 0, "seed": 1, "what": what} | module.row(1, 0, what) for what in (NOW, CONTROL)
    ]
    assert {row["refused"] for row in rows} == {"the time was over"}
    assert rows[0].keys() == rows[1].keys() >= set(SCORES)
    assert summarise(rows)["all: problems"] == 0
