"""Fields with unknown scales: at given scales they are the field with those scales."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from riesz.errors import RieszError
from riesz.mesh.shapes import rectangle
from riesz.priors.gaussian_process import GP, BoundaryGP, LogGP
from riesz.priors.kernels import LearnedScales, Matern32, Matern52
from riesz.priors.spde import SPDEField

MESH = rectangle((6, 4), lower=(10.0, 20.0), upper=(13.0, 22.0))
SPREAD = LearnedScales(sd=0.7, length=0.4)
PLACES = np.array([[10.2, 20.1], [11.5, 21.0], [12.9, 21.7]])


def covariance(latent, lead):
    """Of the field's nodal values when its first coordinates are held."""
    free = latent.num_coordinates - len(lead)

    def nodal(rest):
        return latent.field.nodal(latent.value(jnp.concatenate([jnp.asarray(lead), rest])))

    factor = np.asarray(jax.jit(jax.jacfwd(nodal))(jnp.zeros(free)))
    return factor @ factor.T


@pytest.mark.parametrize("lengths", [0.8, (0.8, 1.3)], ids=["one length", "one for each axis"])
def test_a_process_with_moved_scales_is_the_one_with_those_scales(lengths):
    kernel = Matern52(lengths, 1.5)
    latent = GP(kernel, PLACES, mean=2.0, learned=SPREAD).on(MESH)
    lead = np.array([0.3, -0.6, 0.4][: 1 + np.size(lengths)])
    moved = Matern52(np.multiply(lengths, np.exp(0.4 * lead[1:])), 1.5 * np.exp(0.7 * 0.3))
    expected = covariance(GP(moved, PLACES, mean=2.0).on(MESH), np.zeros(0))
    np.testing.assert_allclose(covariance(latent, lead), expected, rtol=1e-9, atol=1e-10)
    assert latent.labels()[:2] in {("log_sd", "log_length"), ("log_sd", "log_length_0")}


@pytest.mark.slow
def test_at_the_medians_it_is_the_process_of_its_kernel():
    latent = GP(Matern32(0.8, 1.5), PLACES, learned=SPREAD).on(MESH)
    plain = GP(Matern32(0.8, 1.5), PLACES).on(MESH)
    coordinates = jnp.asarray([0.3, -1.0, 0.7])
    values = latent.field.nodal(latent.value(jnp.concatenate([jnp.zeros(2), coordinates])))
    np.testing.assert_allclose(values, plain.field.nodal(plain.value(coordinates)), rtol=1e-6)


def test_a_positive_field_with_unknown_scales_is_the_exponential_of_a_process():
    kernel, coordinates = Matern52(0.8, 0.5), jnp.linspace(-1.0, 1.0, 5)
    positive = LogGP(kernel, PLACES, 3.0, SPREAD).on(MESH)
    process = GP(kernel, PLACES, float(np.log(3.0)), learned=SPREAD).on(MESH)
    np.testing.assert_allclose(
        jnp.log(positive.field.nodal(positive.value(coordinates))),
        process.field.nodal(process.value(coordinates)),
        rtol=1e-12,
    )


@pytest.mark.slow
def test_the_trend_of_a_boundary_keeps_its_sd_when_the_scales_move():
    prior = BoundaryGP(Matern52(1.0, 0.5), trend_sd=2.0, inducing=6, learned=SPREAD)
    moved = BoundaryGP(
        Matern52(np.exp(0.4 * 0.5), 0.5 * np.exp(-0.7)), trend_sd=2.0, inducing=6
    ).on(MESH)
    found = covariance(prior.on(MESH), np.array([-1.0, 0.5]))
    np.testing.assert_allclose(found, covariance(moved, np.zeros(0)), rtol=1e-6, atol=1e-8)


@pytest.mark.slow
def test_a_stochastic_pde_with_moved_scales_has_the_covariance_of_the_one_with_those_scales():
    mesh = rectangle((16, 16), lower=(0.0, 0.0), upper=(4.0, 4.0))
    latent = SPDEField(1.5, 0.8, learned=SPREAD).on(mesh)
    moved = SPDEField(float(1.5 * np.exp(0.35)), float(0.8 * np.exp(0.12))).on(mesh)
    found = covariance(latent, np.array([0.5, 0.3]))
    expected = covariance(moved, np.zeros(0))
    # The same field; only how its variance is held to the one wanted differs a little.
    ratio = found / expected
    np.testing.assert_allclose(ratio, ratio[0, 0], rtol=1e-8)
    np.testing.assert_allclose(ratio[0, 0], 1.0, atol=0.05)
    plain = SPDEField(1.5, 0.8).on(mesh)
    at_medians = covariance(latent, np.zeros(2))
    np.testing.assert_allclose(at_medians, covariance(plain, np.zeros(0)), rtol=1e-9)


@pytest.mark.parametrize("spread", [{"sd": 0.0}, {"length": -1.0}, {"sd": float("nan")}])
def test_impossible_spreads_are_refused(spread):
    with pytest.raises(RieszError, match="it must be positive and finite"):
        LearnedScales(**spread)


@pytest.mark.parametrize("learned", [None, SPREAD], ids=["known scales", "unknown scales"])
def test_at_the_nodes_it_is_the_same_field(learned):
    kernel = Matern52(0.8, 0.5)
    inside = LogGP(kernel, PLACES, 3.0, learned).on(MESH)
    at_nodes = LogGP(kernel, PLACES, 3.0, learned, at_nodes=True).on(MESH)
    coordinates = jnp.linspace(-1.0, 1.0, inside.num_coordinates)
    values = [latent.field.nodal(latent.value(coordinates)) for latent in (inside, at_nodes)]
    np.testing.assert_allclose(*values, rtol=1e-9)
    assert inside.labels() == at_nodes.labels()


@pytest.mark.parametrize(
    "prior",
    [
        LogGP(Matern32(0.8, 1.5), PLACES, 3.0, SPREAD, at_nodes=True),
        GP(Matern52([0.5, 0.9], 1.5), PLACES, learned=SPREAD),
        BoundaryGP(Matern52(1.0, 0.5), jnp.sum, trend_sd=2.0, inducing=6, learned=SPREAD),
    ],
    ids=["at nodes", "weights, two lengths", "with a trend"],
)
@pytest.mark.slow
def test_the_host_has_the_values_of_programs_for_draws_that_share_scales(prior):
    latent = prior.on(MESH)
    draws = np.random.default_rng(1).standard_normal((6, latent.num_coordinates))
    draws[3:, : latent.num_scales] = draws[0, : latent.num_scales]
    expected = jax.vmap(latent.value)(jnp.asarray(draws))
    np.testing.assert_allclose(latent.of_draws(draws), expected, rtol=1e-8, atol=1e-8)
    at_nodes, some = jax.vmap(latent.field.nodal)(expected), np.array([2, 7])
    found = latent.field.nodal_draws(np.asarray(expected), some)
    np.testing.assert_allclose(found, np.asarray(at_nodes)[:, some], rtol=1e-9)


def test_at_some_nodes_it_is_the_field_there():
    latent, chosen = LogGP(Matern32(0.8), PLACES, 3.0, SPREAD, at_nodes=True).on(MESH), [1, 5]
    some = latent.at_some(np.array(chosen))
    own = jnp.asarray(np.random.default_rng(1).standard_normal(latent.num_coordinates))
    found = some.field.nodal(some.value(own))
    np.testing.assert_allclose(found, latent.field.nodal(latent.value(own))[np.array(chosen)])
