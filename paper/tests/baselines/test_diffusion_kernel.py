"""The kernel of diffusion is a convolution, a covariance, and can be found from data."""

import jax.numpy as jnp
import numpy as np
import pytest

from riesz_paper.baselines.kriging.diffusion_kernel import (
    Diffused,
    diffused_covariance,
    diffusion_kernel,
)
from riesz_paper.baselines.kriging.multi_output import as_matrix, primary_moments
from riesz_paper.regression.covariates import Covariates


def gaussian(x, variance):
    return np.exp(-0.5 * x**2 / variance) / np.sqrt(2 * np.pi * variance)


def convolved(distance, spread, other_spread, length):
    """Of one axis: the latent kernel smoothed by both outputs' heat kernels, by quadrature."""
    u = np.linspace(-8, 8, 801)
    weight = (u[1] - u[0]) ** 2
    latent = gaussian(u[:, None] - u[None, :], length)
    return weight * gaussian(u, spread) @ latent @ gaussian(u - distance, other_spread)


def test_the_covariance_is_a_convolution_of_the_latent_kernel_with_both_heat_kernels():
    """Up to the scale of each output, which makes the variances those of the sensitivities."""
    spread = np.array([[0.3, 0.2], [0.1, 0.5]])
    length, offset = np.array([0.4, 0.6]), np.array([0.7, -0.4])
    found = diffused_covariance(
        jnp.array([[1.0], [2.0]]),
        jnp.asarray(spread),
        jnp.asarray(length[None]),
        jnp.asarray(offset[None, None] ** 2),
    )[:, :, 0, 0]
    axes = [
        [[convolved(offset[d], a, b, length[d]) for b in spread[:, d]] for a in spread[:, d]]
        for d in range(2)
    ]
    peaks = [[convolved(0.0, a, a, length[d]) for a in spread[:, d]] for d in range(2)]
    sds = np.sqrt(np.prod(peaks, axis=0)) / np.array([1.0, 2.0])
    np.testing.assert_allclose(found, np.prod(axes, axis=0) / np.outer(sds, sds), rtol=1e-10)


def random_parameters(rng, num_outputs, noise):
    return {
        "sensitivity": jnp.asarray(rng.normal(size=(num_outputs, 2))),
        "log_spread": jnp.asarray(rng.normal(-2, 0.5, size=(num_outputs, 2))),
        "log_length": jnp.asarray(rng.normal(-1.5, 0.5, size=(2, 2))),
        "log_noise": jnp.full(num_outputs, jnp.log(noise)),
    }


def test_the_matrix_over_all_outputs_is_positive_semi_definite():
    rng = np.random.default_rng(0)
    points = jnp.asarray(rng.uniform(size=(60, 2)))
    covariance = as_matrix(Diffused().covariance(random_parameters(rng, 3, 1e-6), points))
    np.testing.assert_allclose(covariance, covariance.T)
    assert np.linalg.eigvalsh(covariance).min() > 0


def test_sensitivities_are_sds():
    rng = np.random.default_rng(1)
    parameters = random_parameters(rng, 3, 1e-9)
    blocks = Diffused().covariance(parameters, jnp.asarray(rng.uniform(size=(4, 2))))
    wanted = np.sum(parameters["sensitivity"] ** 2, axis=1)
    np.testing.assert_allclose(np.einsum("ppii->pi", blocks), np.tile(wanted[:, None], 4))


@pytest.mark.slow
def test_draws_of_a_known_model_are_predicted_almost_as_well_as_by_the_model_itself():
    rng = np.random.default_rng(2)
    points, outputs = rng.uniform(size=(150, 2)), Diffused(1)
    truth = {
        "sensitivity": jnp.array([[1.0], [-0.8]]),
        "log_spread": jnp.log(jnp.array([[0.05, 0.05], [0.15, 0.15]])),
        "log_length": jnp.log(jnp.array([[0.08, 0.2]])),
        "log_noise": jnp.log(jnp.array([0.1, 0.1])),
    }
    factor = np.linalg.cholesky(as_matrix(outputs.covariance(truth, jnp.asarray(points))))
    fields = (factor @ rng.normal(size=300)).reshape(2, 150).T
    known = np.arange(150) < 100
    target, places = 10 + 3 * fields[:, 0], Covariates(points, {"other": 10 + fields[:, 1]}, {})
    trained = diffusion_kernel(1)(places.subset(known), target[known], seed=0)
    draws = trained(places.subset(~known))
    best, _ = primary_moments(
        outputs,
        truth,
        jnp.asarray(points),
        jnp.asarray(fields[known]),
        jnp.asarray(fields[~known, 1:]),
    )
    own = np.sqrt(np.mean((np.median(draws, axis=0) - target[~known]) ** 2))
    least = 3 * np.sqrt(np.mean((best - fields[~known, 0]) ** 2))
    assert own < 1.15 * least < target.std(), (own, least)
    lengths = np.exp(trained.parameters["log_length"][0])
    assert lengths[0] < lengths[1], lengths  # the latent state is stretched along y
    low, high = np.quantile(draws, [0.05, 0.95], axis=0)
    assert 0.78 < np.mean((low < target[~known]) & (target[~known] < high)) < 0.99
