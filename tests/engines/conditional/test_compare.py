"""Models of the same data held against each other by leaving out one observation at a time."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import riesz as rz
from riesz.engines.conditional.compare import KRIGING, WITH, WITHOUT, Comparison, compared
from riesz.latent.local import LocalEffect

SENSORS = np.random.default_rng(3).uniform(0.05, 0.95, (40, 2))


def comparison(ours, kriging):
    ours, kriging = np.asarray(ours), np.asarray(kriging)
    return Comparison({WITH: ours, WITHOUT: ours - 1.0, KRIGING: kriging})


def test_kriging_does_as_well_where_the_gain_is_within_its_standard_error():
    one, other = np.arange(100.0), np.tile([1.0, -1.0], 50)
    chosen, against = comparison(one, one + 0.01 * other).sentences()
    assert chosen.startswith("with what neighbours share beyond the equation: left out, ")
    assert against.startswith("kriging does as well here")
    _, against = comparison(one, one - 1.0 + 0.01 * other).sentences()
    assert against.startswith("the equation foretells these data better than kriging")
    assert "+1.000 +- 0.00" in against


@pytest.fixture(scope="module")
def problem():
    local = LocalEffect(SENSORS, sd=0.5, length_scale=0.1)
    edge = rz.BoundaryGP(rz.Matern52(0.8, 0.5), trend_sd=1.0, inducing=5)
    return rz.inverse_problem(
        rz.rectangle((8, 8)),
        rz.diffusion(1.0) - rz.source("f"),
        latents={
            "f": rz.GP(rz.Matern52(0.4, 20.0), 12, learned=rz.LearnedScales(), at_nodes=True),
            "noise": dist.HalfNormal(0.5),
            "local": local.prior(),
        },
        observations=rz.observations(SENSORS, SENSORS[:, 0]),
        likelihood=rz.WithEffects(rz.Gaussian("noise"), local=local),
        dirichlet={"boundary": rz.Unknown(edge)},
    )


@pytest.mark.slow
def test_what_neighbours_share_is_kept_where_the_data_have_it_and_else_not(problem):
    """Pairs of sensors beside each other that are alike, and a plane with a little noise."""
    rng = np.random.default_rng(5)
    apart = np.linalg.norm(SENSORS[:, None] - SENSORS[None], axis=2) / 0.15
    shared = np.linalg.cholesky((1 + apart) * np.exp(-apart) + 1e-9 * np.eye(40))
    rough = SENSORS[:, 0] + shared @ rng.normal(size=40)
    flat = SENSORS[:, 0] + 0.3 * rng.normal(size=40)
    found = {}
    for name, values in (("rough", rough), ("flat", flat)):
        own = dataclasses.replace(problem, observed=jnp.asarray(values))
        found[name] = compared(own, "local")
    gain = {name: one.mean(WITH) - one.mean(WITHOUT) for name, one in found.items()}
    assert found["rough"].best == WITH
    assert gain["rough"] > 0.1 > abs(gain["flat"])


def test_without_such_an_unknown_there_is_nothing_to_decide(problem):
    assert compared(problem, "effects") is None
