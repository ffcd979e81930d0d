"""Covariance functions against scikit-learn and GPJax."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.gaussian_process import kernels as sklearn_kernels

from riesz.errors import RieszError
from riesz.mesh.shapes import rectangle
from riesz.priors.kernels import RBF, Matern12, Matern32, Matern52, kernel_on

SMOOTHNESS = {Matern12: 0.5, Matern32: 1.5, Matern52: 2.5}
KERNELS = (*SMOOTHNESS, RBF)
POINTS = np.random.default_rng(0).normal(size=(12, 2))
LENGTHS = (0.4, 1.7)


def of_sklearn(kind):
    if kind is RBF:
        return sklearn_kernels.RBF(LENGTHS)
    return sklearn_kernels.Matern(LENGTHS, nu=SMOOTHNESS[kind])


@pytest.mark.parametrize("kind", KERNELS)
def test_the_matrix_is_that_of_scikit_learn(kind):
    expected = 1.5**2 * of_sklearn(kind)(POINTS, POINTS[:5])
    np.testing.assert_allclose(kind(LENGTHS, 1.5).matrix(POINTS, POINTS[:5]), expected, atol=1e-14)


@pytest.mark.parametrize("kind", KERNELS)
def test_the_device_and_the_host_agree(kind):
    kernel = kind(0.7, 2.0)
    places = jnp.asarray(POINTS)
    on_device = jax.vmap(lambda x: jax.vmap(lambda y: kernel(x, y))(places))(places)
    np.testing.assert_allclose(on_device, kernel.matrix(POINTS, POINTS), rtol=1e-13)


def test_a_kernel_in_single_precision_stays_there():
    kernel = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), Matern52(0.5))
    value = kernel(jnp.zeros(2, jnp.float32), jnp.ones(2, jnp.float32))
    assert value.dtype == jnp.float32
    np.testing.assert_allclose(value, Matern52(0.5)(jnp.zeros(2), jnp.ones(2)), rtol=1e-5)


@pytest.mark.parametrize("kind", KERNELS)
def test_derivatives_by_the_length_scale_are_finite_at_zero_distance(kind):
    slope = jax.grad(lambda scale: kind(scale)(jnp.ones(2), jnp.ones(2)))(0.3)
    np.testing.assert_allclose(slope, 0.0, atol=1e-12)


def test_without_a_length_scale_the_domain_gives_it():
    kernel = kernel_on(RBF(sd=2.0), rectangle((4, 2), upper=(8.0, 4.0)))
    np.testing.assert_allclose(kernel.length_scale, [2.0])
    assert kernel.describe() == "RBF with length scale 2 and sd 2"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Matern12(0.0), "length_scale of Matern12 is .* must be positive"),
        (lambda: RBF((1.0, -2.0)), "length_scale of RBF"),
        (lambda: RBF(1.0, np.nan), "sd of RBF is nan"),
        (lambda: RBF()(jnp.zeros(2), jnp.zeros(2)), "RBF has no length scale"),
        (lambda: kernel_on(RBF((1.0, 1.0, 1.0)), rectangle((1, 1))), "3 length scales"),
    ],
)
def test_bad_kernels_are_refused(build, message):
    with pytest.raises(RieszError, match=message):
        build()
