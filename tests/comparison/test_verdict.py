"""One verdict on the equation, before a fit and after it: by left-out blocks, with its interval."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import riesz as rz
from riesz.comparison.compare import compare, compare_in_closed_form, gain_by
from riesz.comparison.results import BLOCKS, KRIGING
from riesz.priors.correlated_residual import LocalEffect

SENSORS = np.random.default_rng(3).uniform(0.05, 0.95, (40, 2))


@pytest.fixture(scope="module")
def problem():
    local = LocalEffect(SENSORS, sd=0.5, length_scale=0.1)
    edge = rz.BoundaryGP(rz.priors.Matern52(0.8, 0.5), trend_sd=1.0, inducing=5)
    return rz.inverse_problem(
        rz.rectangle((8, 8)),
        rz.diffusion(1.0) - rz.source("f"),
        latents={
            "f": rz.GP(
                rz.priors.Matern52(0.4, 20.0), 12, learned=rz.priors.LearnedScales(), at_nodes=True
            ),
            "noise": dist.HalfNormal(0.5),
            "local": local.prior(),
        },
        observations=rz.observations(SENSORS, SENSORS[:, 0]),
        likelihood=rz.observe.WithEffects(rz.Gaussian("noise"), local=local),
        dirichlet={"boundary": rz.Unknown(edge)},
    )


def with_values(problem, values):
    return dataclasses.replace(problem, observed=jnp.asarray(values))


def test_what_closed_forms_say_is_said_of_the_posterior_to_the_last_digit(problem):
    """A plane with noise, of which kriging knows as much: single observations lean to one side."""
    rng = np.random.default_rng(5)
    own = with_values(problem, SENSORS[:, 0] + 0.3 * rng.normal(size=40))
    before = compare_in_closed_form(own)
    after = compare(rz.fit(own, "laplace(marginal)", progress=False))
    assert before.verdict == after.verdict
    apart = before.difference("equation", KRIGING)
    assert apart == after.difference("model 1", KRIGING, how=BLOCKS)
    assert apart.low < 0 < apart.high
    assert before.verdict[0].code == "physics_no_help"


@pytest.mark.slow
def test_what_neighbours_share_is_kept_where_the_data_have_it_and_else_not(problem):
    """Pairs of sensors beside each other that are alike, and a plane with a little noise."""
    rng = np.random.default_rng(5)
    apart = np.linalg.norm(SENSORS[:, None] - SENSORS[None], axis=2) / 0.15
    shared = np.linalg.cholesky((1 + apart) * np.exp(-apart) + 1e-9 * np.eye(40))
    rough = SENSORS[:, 0] + shared @ rng.normal(size=40)
    flat = SENSORS[:, 0] + 0.3 * rng.normal(size=40)
    gains = [gain_by(with_values(problem, values), "local").mean for values in (rough, flat)]
    assert gains[0] > 0.1 > abs(gains[1])


def test_without_such_an_unknown_there_is_nothing_to_decide(problem):
    assert gain_by(problem, "effects") is None
