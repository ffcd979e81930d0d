"""Predictions of several experiments that share their unknowns."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import riesz as rz
from riesz.posterior.family import EmpiricalDraws
from riesz.posterior.posterior import ExactStates, Posterior

MESH = rz.rectangle((2, 2))
LATENTS = {"k": dist.LogNormal(0.0, 1.0)}


def pumping(rate):
    return rz.Experiment(
        rz.diffusion("k") - rz.source(rate),
        rz.observations([[0.3, 0.5]], [0.1]),
        rz.Gaussian(0.01),
        {"left": 0.0},
    )


def test_parts_of_a_problem_are_those_of_its_experiments_or_its_own():
    both = [pumping(1.0), pumping(-2.0)]
    for message, words in {
        "there are likelihood, newton, of which each has": {
            "experiments": both,
            "likelihood": rz.Gaussian(1.0),
            "newton": rz.fem.Newton(),
        },
        "there are 2 experiments and a time axis": {"experiments": both, "times": [0.0, 1.0]},
        "there are no experiments": {"experiments": []},
        "the problem lacks observations and likelihood": {"equation": both[0].equation},
    }.items():
        with pytest.raises(rz.RieszError, match=message):
            rz.inverse_problem(MESH, latents=LATENTS, **words)


def test_predictions_are_of_the_experiment_that_was_asked_for():
    """The second well is pumped twice as much, and backwards."""
    problem = rz.inverse_problem(MESH, experiments=[pumping(1.0), pumping(-2.0)], latents=LATENTS)
    draws = EmpiricalDraws(jnp.linspace(-1.0, 1.0, 4).reshape(1, 4, 1))
    posterior = Posterior(problem, draws, ExactStates(), engine="mcmc")
    for quantity in ("u", "flux"):
        first, second = (
            rz.predict(posterior, quantity, num_draws=4, experiment=one).mean for one in (0, 1)
        )
        assert np.abs(first).max() > 0
        np.testing.assert_allclose(second, -2 * first, rtol=1e-9, atol=1e-12)
        with pytest.raises(rz.RieszError, match="2 experiments with a state each: say which"):
            rz.predict(posterior, quantity, num_draws=4)
    with pytest.raises(rz.RieszError, match="experiment is 2, but there are 2"):
        rz.predict(posterior, "u", num_draws=4, experiment=2)
    outflow = rz.predict(
        posterior, rz.prediction.BudgetTerm("prescribed on left", experiment=1), num_draws=4
    )
    np.testing.assert_allclose(outflow.mean, -2.0)
    assert rz.predict(posterior, "k", num_draws=4).mean > 0
