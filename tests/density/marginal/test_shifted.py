"""A record of a system that stands still, by one march backwards a place: the same as by others."""

import dataclasses

import numpy as np
import numpyro.distributions as dist
import pytest
from tests.pairs import pair

import riesz as rz
from riesz.density.marginal.linear import response_table
from riesz.density.marginal.points import time_points
from riesz.problem.linearity import linear_parts

pytestmark = pytest.mark.slow  # quickly: test_in_time.py of problems

TIMES, FIELD = np.linspace(0, 0.5, 9), rz.KarhunenLoeve(rz.Matern32(0.3), num_terms=7)
WARMING = rz.series([0.0, 0.25], [0.0, 2.0], kind="linear")


def posed(**changed):
    given = {
        "latents": {"start": FIELD, "f": FIELD},
        "dirichlet": {"boundary": 0.0},
        "times": TIMES,
        "initial": "start",
    }
    form = rz.storage(1.0) + rz.diffusion(0.2) - rz.source("f")
    places, when = np.array([0.3, 0.7]), np.array([0.1, 0.3, 0.45])
    points, dated = np.tile(places, len(when)), np.repeat(when, len(places))
    return rz.inverse_problem(
        rz.interval(8),
        changed.pop("form", form),
        observations=rz.observations(points, np.ones(len(points)), times=dated),
        likelihood=rz.Gaussian(0.1),
        **(given | changed),
    )


STEADY = {
    "latents": {"f": FIELD, "left": dist.Normal(0.0, 1.0)},
    "dirichlet": {"left": "left", "right": WARMING},
    "initial": rz.fem.SteadyState(),
}
CASES = {
    "an initial state": {},
    "a steady state and a known series": STEADY,
    "an initial state that is known": STEADY | {"initial": 0.3},
    "Euler's scheme": {"scheme": "euler"},
}


@pytest.mark.parametrize(
    "case",
    [name if number < 1 else pytest.param(name, marks=pytest.mark.slow)
     for number, name in enumerate(CASES)],
)  # fmt: skip
def test_marches_backwards_moved_in_time_make_the_table(case):
    problem = posed(**CASES[case])
    parts, at = linear_parts(problem), time_points(problem, None, problem.default_solver())
    assert at.by_shifts
    offset, responses = response_table(problem, parts, at)
    by_marches = response_table(problem, parts, dataclasses.replace(at, by_shifts=False))
    np.testing.assert_allclose(offset, by_marches[0], atol=1e-12)
    np.testing.assert_allclose(responses, by_marches[1], atol=1e-12)


@pytest.mark.slow
def test_the_marginal_density_reads_its_data_off_that_table():
    problem = posed()
    posterior = rz.fit(problem, pair("laplace(marginal)", num_draws=4000), seed=0, progress=False)
    exact = rz.inference.assimilate(problem).posterior()
    sd = np.sqrt(np.asarray(exact.distribution.variances()))
    shift = np.asarray(posterior.coordinate_mean() - exact.coordinate_mean()) / sd
    assert np.abs(shift).max() < 0.1


HISTORY = rz.series(TIMES, "q", kind="linear")


@pytest.mark.parametrize(
    "changed",
    [
        {"times": np.array([0.0, 0.1, 0.25, 0.5])},
        {
            "form": rz.storage(1.0)
            + rz.diffusion(rz.series([0.0, 0.2], [0.2, 0.4]))
            - rz.source("f")
        },
        {
            "form": rz.storage(1.0) + rz.diffusion(0.2) - rz.point_source([0.4], HISTORY),
            "latents": {"q": rz.priors.process_in_time(rz.Matern32(0.3), TIMES)},
            "initial": 0.0,
        },
    ],
    ids=["uneven steps", "a matrix that changes", "an unknown history"],
)
def test_what_changes_in_time_is_not_moved_in_time(changed):
    problem = posed(**changed)
    assert not time_points(problem, None, problem.default_solver()).by_shifts
