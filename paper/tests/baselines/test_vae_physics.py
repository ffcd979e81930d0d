"""Equations on the decoder's mean: a paired control, falling penalties, the weak form itself."""

import dataclasses
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from riesz.errors import RieszError
from riesz.fem.terms.coefficient import Nodal
from riesz_paper.baselines.vae.model import vae
from riesz_paper.baselines.vae.physics import (
    LARGEST_FACTOR,
    NONLINEAR_DIFFUSION,
    edge_preserving,
    transport_coefficients,
    vae_dt,
    vae_nld,
)
from riesz_paper.baselines.vae.settings import MODERN
from riesz_paper.regression.covariates import Covariates

SMALL = dataclasses.replace(MODERN, encoder=(16,), decoder=(16,), num_steps=60)


def waves(num_places: int = 60) -> tuple[Covariates, np.ndarray]:
    """A target that varies with place and one number."""
    rng = np.random.default_rng(0)
    points = rng.uniform(-1, 1, size=(num_places, 2))
    zinc = np.exp(rng.normal(size=num_places))
    return Covariates(points, {"Zn": zinc}, {}), zinc * np.exp(np.sin(2 * points[:, 0]))


def test_without_weight_an_equation_changes_nothing_at_all():
    training, target = waves()
    plain = vae(SMALL)(training, target, seed=3)
    free = vae_dt(dataclasses.replace(SMALL, epsilon=math.inf))(training, target, seed=3)
    assert eqx.tree_equal(free.trained, plain.trained)


@pytest.mark.parametrize("method", [vae_dt, vae_nld])
def test_a_step_moves_networks_and_coefficients_and_tells_three_terms(method, only_traced):
    only_traced("riesz_paper.baselines.vae.training")
    found = method(SMALL)(*waves(), seed=3)
    assert set(found.history) == {"misfit", "kl", "penalty"}
    assert found.trained.coefficients is not None


@pytest.mark.slow
@pytest.mark.parametrize("method", [vae_dt, vae_nld])
def test_penalties_fall_and_a_tiny_weight_gives_the_paired_control(method):
    """The same first networks, batches and draws of z with and without an equation."""
    training, target = waves()
    plain = vae(SMALL)(training, target, seed=3)
    strict = method(SMALL)(training, target, seed=3)
    penalty = strict.history["penalty"]
    assert penalty[-10:].mean() < 0.5 * penalty[:5].mean(), penalty
    assert (penalty >= 0).all()
    assert np.abs(strict.history["misfit"] - plain.history["misfit"]).max() > 1e-3
    loose = method(dataclasses.replace(SMALL, epsilon=1e9))(training, target, seed=3)
    np.testing.assert_allclose(loose.history["misfit"], plain.history["misfit"], rtol=1e-6)


def test_the_nonlinear_penalty_sees_a_state_that_does_not_solve_the_equation():
    """-div(grad u / sqrt(1 + |grad u|^2)) = 0 for constants; for slopes, what leaves is missing."""
    rng = np.random.default_rng(1)
    penalty = NONLINEAR_DIFFUSION.penalty(rng.normal(size=(50, 2)), 4)
    num_nodes = penalty.problem.space.num_dofs
    zs = {
        "level": jnp.zeros(2),
        "slope": jnp.zeros(2),
        "edge": jnp.ones(2),
        "source": Nodal(jnp.zeros((2, num_nodes))),
        "tilt": jnp.array([0.0, 1.0]),
    }

    @eqx.filter_jit
    def estimates(penalty, zs):
        return penalty.estimates(penalty.norm.all(), lambda x, z: 1.0 + z["tilt"] * x[0], zs)

    found = estimates(penalty, zs)
    np.testing.assert_allclose(found[0], 0, atol=1e-12)
    assert found[1] > 0.1


def test_diffusion_across_edges_is_weaker_than_where_it_is_flat():
    z = {"level": jnp.array(0.3), "slope": jnp.array(-0.2), "edge": jnp.array(2.0)}
    x, u = jnp.zeros(2), jnp.array(1.0)
    flat = edge_preserving(x, z, u, jnp.zeros(2))
    steep = edge_preserving(x, z, u, jnp.array([6.0, 8.0]))
    np.testing.assert_allclose(flat, LARGEST_FACTOR ** np.tanh(0.1))
    np.testing.assert_allclose(steep / flat, 1 / np.sqrt(26.0))


def test_diffusivities_keep_within_their_factor():
    coefficients = transport_coefficients(jr.key(0), 10, np.dtype(float))
    nodes, codes = 10 * jr.normal(jr.key(1), (30, 2)), 10 * jr.normal(jr.key(2), (5, 10))
    found = jax.vmap(lambda code: coefficients.latents(nodes, code))(codes)
    values = np.asarray(found["diffusivity"].values)
    assert values.shape == (5, 30)
    assert 1 / LARGEST_FACTOR <= values.min() < values.max() <= LARGEST_FACTOR
    assert found["velocity"].shape == (5, 2)


def test_an_epsilon_that_is_not_positive_is_refused():
    with pytest.raises(RieszError, match="epsilon is 0"):
        dataclasses.replace(MODERN, epsilon=0.0)
