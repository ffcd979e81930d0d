"""Noise models against SciPy's densities, with scales of every kind."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from riesz.errors import RieszError
from riesz.observe.likelihood import Gaussian, StudentT

OBSERVED = jnp.array([1.0, 2.0, 4.0])
PREDICTED = jnp.array([1.2, 1.5, 4.4])
Z = {"sigma": jnp.asarray(0.3), "a": jnp.asarray(2.0)}
SCALES = [
    (0.5, 0.5),
    (1, 1.0),
    ([0.1, 0.2, 0.3], np.array([0.1, 0.2, 0.3])),
    ("sigma", 0.3),
    (lambda z: 0.1 * z["a"] * jnp.ones(3), 0.2),
]


@pytest.mark.parametrize(("scale", "sd"), SCALES)
def test_densities_are_those_of_scipy(scale, sd):
    gaussian = Gaussian(scale).log_prob(OBSERVED, PREDICTED, Z)
    np.testing.assert_allclose(gaussian, stats.norm.logpdf(OBSERVED, PREDICTED, sd).sum())
    student = StudentT(scale, 3.0).log_prob(OBSERVED, PREDICTED, Z)
    np.testing.assert_allclose(student, stats.t.logpdf(OBSERVED, 3.0, PREDICTED, sd).sum())


def test_residuals_of_heavy_tails_are_measured_by_their_standard_deviation():
    found = StudentT(0.3, 5.0).noise_sd(PREDICTED, Z)
    np.testing.assert_allclose(found, stats.t.std(5.0, scale=0.3), rtol=1e-12)
    np.testing.assert_allclose(StudentT(0.3, 2.0).noise_sd(PREDICTED, Z), 0.3)


@pytest.mark.parametrize("likelihood", [Gaussian, StudentT])
@pytest.mark.parametrize("scale", [scale for scale, _ in SCALES])
def test_every_scale_survives_compilation(likelihood, scale):
    noise = likelihood(scale)
    plain = noise.log_prob(OBSERVED, PREDICTED, Z)
    compiled = eqx.filter_jit(lambda n, z: n.log_prob(OBSERVED, PREDICTED, z))(noise, Z)
    np.testing.assert_allclose(compiled, plain)
    bound = jax.jit(lambda z: noise.log_prob(OBSERVED, PREDICTED, z))(Z)
    np.testing.assert_allclose(bound, plain)


def test_single_precision_is_kept():
    single = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), (OBSERVED, PREDICTED, Z))
    for noise in (Gaussian(0.5), Gaussian([0.1, 0.2, 0.3]), Gaussian("sigma"), StudentT(0.5)):
        assert noise.log_prob(*single).dtype == jnp.float32


@pytest.mark.parametrize(
    ("noise", "text"),
    [
        (Gaussian(0.25), "normal, sd 0.25"),
        (Gaussian([0.1, 0.2]), "normal, sd 0.1 .. 0.2, one for each observation"),
        (StudentT("sigma"), "Student-t with 4 degrees of freedom, sd 'sigma' learned"),
        (Gaussian(lambda z: 1.0), "normal, sd a function of the unknowns"),
    ],
)
def test_noise_is_described(noise, text):
    assert noise.describe() == text


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Gaussian(-0.1), "the noise sd is -0.1: it must be positive and finite"),
        (lambda: Gaussian([0.1, 0.0]), "the noise sd is 0.0 for observation 1: it must"),
        (lambda: Gaussian(np.nan), "the noise sd is nan"),
        (lambda: StudentT(np.inf), "the noise sd is inf"),
        (lambda: StudentT({}), "the noise sd is {}: give a number"),
        (lambda: StudentT(1.0, degrees_of_freedom=0.0), "degrees_of_freedom is 0.0"),
    ],
)
def test_bad_noise_is_refused(build, message):
    with pytest.raises(RieszError, match=message):
        build()
