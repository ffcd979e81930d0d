"""Variational families against closed forms, and flows against quadrature."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest
from jax.scipy.stats import norm
from scipy import stats

from riesz.errors import RieszError
from riesz.posterior.family import (
    FullRank,
    LowRank,
    MeanField,
    antithetic,
    full_rank,
    low_rank,
    mean_field,
)
from riesz.posterior.flow import Flow, flow

DIM = 4


def numbers(seed, *shape):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape))


MEAN, LOG_SD = numbers(0, DIM), 0.5 * numbers(1, DIM)
BELOW, DIRECTIONS = numbers(2, DIM, DIM), numbers(3, DIM, 2)
SD = np.diag(np.exp(LOG_SD))
LOWER = np.tril(BELOW, -1) + SD
GAUSSIANS = {
    "mean field": (MeanField(MEAN, LOG_SD), SD**2),
    "full rank": (FullRank(MEAN, LOG_SD, BELOW), LOWER @ LOWER.T),
    "low rank": (
        LowRank(MEAN, LOG_SD, DIRECTIONS),
        SD @ (np.eye(DIM) + DIRECTIONS @ DIRECTIONS.T) @ SD,
    ),
}
gaussians = pytest.mark.parametrize(
    ("family", "covariance"), GAUSSIANS.values(), ids=GAUSSIANS.keys()
)


@gaussians
def test_draws_have_the_mean_and_the_covariance(family, covariance):
    """Exactly: draws are affine in the normals, so their moments follow from the map."""
    normals = jnp.concatenate([jnp.zeros((1, DIM)), jnp.eye(DIM)])
    draws = family.transformed(normals)
    np.testing.assert_allclose(draws[0], MEAN)
    rows = draws[1:] - draws[:1]
    np.testing.assert_allclose(rows.T @ rows, covariance, atol=1e-12)
    np.testing.assert_allclose(family.covariance(), covariance, atol=1e-12)


@gaussians
def test_the_density_is_that_of_scipy(family, covariance):
    place = numbers(4, DIM)
    expected = stats.multivariate_normal(MEAN, covariance).logpdf(place)
    np.testing.assert_allclose(family.log_prob(place), expected)


@gaussians
def test_the_divergence_from_the_prior_is_the_closed_form(family, covariance):
    log_det = np.linalg.slogdet(covariance)[1]
    expected = 0.5 * (np.trace(covariance) + MEAN @ MEAN - DIM - log_det)
    np.testing.assert_allclose(family.kl_to_prior(), expected)


def test_families_start_at_the_prior_in_their_precision():
    dtype = jnp.float32
    families = (mean_field(3, dtype), full_rank(3, dtype), flow(3, jr.key(0), dtype))
    normals = numbers(5, 6, 3).astype(dtype)

    @jax.jit
    def parts(family):
        at_first = family.log_prob(normals[0])
        return family.transformed(normals), family.kl_to_prior(normals), at_first

    for family in families:
        draws, divergence, density = parts(family)
        np.testing.assert_allclose(draws, normals, rtol=1e-5)
        np.testing.assert_allclose(divergence, 0.0, atol=1e-5)
        assert draws.dtype == family.dtype == density.dtype == dtype
    assert float(low_rank(3, 2, jr.key(0), dtype).kl_to_prior()) < 1e-3


def test_antithetic_draws_have_mean_zero():
    np.testing.assert_allclose(antithetic(jr.key(0), 8, 3, float).mean(axis=0), 0.0, atol=1e-16)
    assert antithetic(jr.key(0), 5, 3, float).shape == (5, 3)


def bent(dim: int) -> Flow:
    """A flow far from the identity."""
    start = flow(dim, jr.key(1), float, num_hidden=5)
    leaves, tree = jax.tree.flatten(start)
    rng = np.random.default_rng(0)
    return jax.tree.unflatten(
        tree, [leaf + 0.25 * jnp.asarray(rng.normal(size=leaf.shape)) for leaf in leaves]
    )


def test_the_density_of_a_flow_integrates_to_one_and_matches_its_draws():
    family = bent(2)
    grid = np.linspace(-12, 12, 241)
    places = jnp.asarray(np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2))
    weights = np.exp(jax.jit(jax.vmap(family.log_prob))(places)) * (grid[1] - grid[0]) ** 2
    np.testing.assert_allclose(weights.sum(), 1.0, atol=1e-3)
    draws = np.asarray(family.transformed(numbers(6, 20_000, 2)))
    mean = weights @ np.asarray(places)
    error = draws.std(axis=0) / np.sqrt(len(draws))
    assert (np.abs(draws.mean(axis=0) - mean) < 4 * error).all()


def test_the_divergence_of_a_flow_is_that_of_quadrature():
    family = bent(1)
    places = jnp.linspace(-15, 15, 4001)[:, None]
    log_q = np.asarray(jax.jit(jax.vmap(family.log_prob))(places))
    log_p = stats.norm.logpdf(np.asarray(places)[:, 0])
    expected = np.sum(np.exp(log_q) * (log_q - log_p)) * 30 / 4000
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    by_normal = jax.jit(jax.vmap(family.kl_to_prior))(jnp.asarray(nodes)[:, None, None])
    np.testing.assert_allclose(weights @ by_normal / weights.sum(), expected, rtol=1e-4)


@pytest.mark.parametrize("dim", [1, 3])
def test_layers_of_a_flow_are_inverted_and_change_volumes_as_they_say(dim):
    family, x = bent(dim), numbers(7, dim)
    assert len(family.couplings) == (4 if dim > 1 else 0)

    @jax.jit
    def both_ways(layer):
        y, change = layer.forward(x)
        return change, layer.inverse(y), jax.jacfwd(lambda v: layer.forward(v)[0])(x)

    for layer in family.layers():
        change, (back, undone), slopes = both_ways(layer)
        np.testing.assert_allclose(back, x, atol=1e-12)
        np.testing.assert_allclose(undone, -change, atol=1e-12)
        np.testing.assert_allclose(change, np.linalg.slogdet(slopes)[1], atol=1e-12)


@pytest.mark.slow
def test_a_flow_fits_a_curved_posterior_that_no_gaussian_can():
    """The ridge x2 = x1^2: its evidence is one, so the gap of the bound is the divergence."""

    def log_target(x):
        return -0.5 * (x[0] ** 2 + 4 * (x[1] - x[0] ** 2) ** 2) - jnp.log(jnp.pi)

    def divergence(family, normals):
        draws = family.transformed(normals)
        log_prior = jax.vmap(lambda x: jnp.sum(norm.logpdf(x)))(draws)
        return family.kl_to_prior(normals) + jnp.mean(log_prior - jax.vmap(log_target)(draws))

    def fitted(family):
        optimiser = optax.adam(optax.cosine_decay_schedule(0.02, 600))

        def step(carry, key):
            family, state = carry
            slope = jax.grad(divergence)(family, jr.normal(key, (256, 2)))
            update, state = optimiser.update(slope, state)
            return (optax.apply_updates(family, update), state), None

        start = (family, optimiser.init(family))
        (family, _), _ = jax.jit(lambda s: jax.lax.scan(step, s, jr.split(jr.key(3), 600)))(start)
        return divergence(family, jr.normal(jr.key(9), (20_000, 2)))

    curved, straight = fitted(flow(2, jr.key(2), float)), fitted(full_rank(2, float))
    assert curved < 0.1 * straight, (curved, straight)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: low_rank(3, 0, jr.key(0), float), "the rank is 0"),
        (lambda: flow(3, jr.key(0), float, num_couplings=-1), "-1 coupling layers"),
        (lambda: flow(3, jr.key(0), float, num_hidden=0), "of 0 units"),
        (lambda: flow(3, jr.key(0), float).kl_to_prior(), "pass normals"),
    ],
)
def test_bad_families_are_refused(build, message):
    with pytest.raises(RieszError, match=message):
        build()
