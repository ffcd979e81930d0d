"""Priors as functions of standard normal coordinates."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from jax.scipy.special import ndtr
from scipy.stats import kstest

from riesz.errors import RieszError
from riesz.latent.gaussian_process import LogGP
from riesz.latent.karhunen_loeve import KarhunenLoeve
from riesz.latent.kernels import Matern52
from riesz.latent.latent import latent_space, parametric
from riesz.latent.regions import Regions
from riesz.mesh.shapes import rectangle
from riesz.mesh.tags import tag_region

MESH = tag_region(rectangle((3, 3)), "all", [[-1, -1], [2, -1], [2, 2], [-1, 2]])

COORDINATES = jnp.asarray(np.random.default_rng(0).normal(size=(2000, 1)))

PRIORS = [
    dist.Normal(3.0, 0.5),
    dist.LogNormal(-1.0, 0.7),
    dist.HalfNormal(2.0),
    dist.Uniform(-1.0, 4.0),
    dist.Exponential(0.3),
    dist.TruncatedNormal(1.0, 1.0, low=0.0),
]


@pytest.mark.parametrize("prior", PRIORS, ids=lambda p: type(p).__name__)
def test_values_of_normal_coordinates_follow_the_prior(prior):
    latent = parametric(prior, "a")
    values = jax.jit(jax.vmap(latent.value))(COORDINATES)
    distribution = jax.jit(prior.cdf)
    assert kstest(np.asarray(values), lambda x: np.asarray(distribution(x))).pvalue > 1e-3


def test_a_multivariate_normal_has_its_covariance():
    covariance = jnp.array([[2.0, 0.6], [0.6, 0.5]])
    latent = parametric(dist.MultivariateNormal(jnp.array([1.0, 2.0]), covariance), "tau")
    jacobian = jax.jit(jax.jacobian(latent.value))(jnp.zeros(2))
    np.testing.assert_allclose(jacobian @ jacobian.T, covariance)
    np.testing.assert_allclose(latent.value(jnp.zeros(2)), [1.0, 2.0])


def test_repeated_multivariate_normals_have_their_covariance_each():
    factor = jnp.array([[1.0, 0.0], [10.0, 1.0]])
    latent = parametric(dist.MultivariateNormal(jnp.zeros(2), scale_tril=factor).expand([2]), "a")
    value = latent.value(jnp.array([1.0, 2.0, 3.0, 4.0]))
    np.testing.assert_allclose(value, [[1.0, 12.0], [3.0, 34.0]])


def test_vectors_and_repeated_priors_have_a_coordinate_for_each_entry():
    space = latent_space(
        {"tau": dist.Normal(0.0, 2.0).expand([2]).to_event(1), "k": dist.HalfNormal(1.0)}, MESH
    )
    z = space.z(jnp.array([1.0, -1.0, 0.0]))
    np.testing.assert_allclose(z["tau"], [2.0, -2.0])
    assert z["k"].shape == ()
    assert space.coordinate_names() == ("tau[0]", "tau[1]", "k")
    np.testing.assert_allclose(
        space.log_prior(jnp.ones(3)), dist.Normal(0, 1).log_prob(jnp.ones(3)).sum()
    )


@pytest.mark.parametrize(
    "prior", [dist.HalfNormal(2.0), dist.Laplace(1.0, 2.0)], ids=lambda p: type(p).__name__
)
def test_values_far_out_are_finite(prior):
    values = jax.vmap(parametric(prior, "a").value)(jnp.array([[-9.0], [9.0]], jnp.float32))
    assert values.dtype == jnp.float32
    assert bool(jnp.isfinite(values).all())


@pytest.mark.parametrize(
    "prior",
    [
        dist.MultivariateNormal(jnp.zeros(2), jnp.eye(2)),
        Regions(dist.Uniform(1.0, 2.0)),
        KarhunenLoeve(Matern52(), 3),
        LogGP(Matern52(), inducing=3),
    ],
    ids=lambda p: type(p).__name__,
)
def test_values_have_the_precision_of_the_coordinates(prior):
    space = latent_space({"a": prior}, MESH)
    z = space.z(jnp.zeros(space.num_coordinates, jnp.float32))
    assert z["a"].dtype == jnp.float32


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        (dist.Gamma(2.0, 1.0), "quantiles NumPyro cannot give: use Normal"),
        (dist.Normal(jnp.zeros(0), 1.0), "holds no number"),
        (dist.Normal(np.nan, 1.0, validate_args=False), "has the median nan"),
        (dist.DiscreteUniform(1, 5), "is a DiscreteUniform, over whole numbers"),
        (dist.Uniform(2.0, 1.0, validate_args=False), "its parameters are reversed"),
        (3.0, "is a float: give a NumPyro distribution"),
        (dist.Normal, "is a .*: give a NumPyro distribution"),
    ],
)
def test_bad_priors_are_refused(prior, message):
    with pytest.raises(RieszError, match=message):
        latent_space({"a": prior}, MESH)


def test_no_unknowns_are_refused():
    with pytest.raises(RieszError, match="there are no unknowns"):
        latent_space({}, MESH)


TAILS = [
    dist.HalfNormal(2.0),
    dist.HalfCauchy(0.5),
    dist.Cauchy(1.0, 2.0),
    dist.Laplace(1.0, 2.0),
    dist.Logistic(1.0, 2.0),
    dist.Exponential(0.3),
    dist.Uniform(0.0, 4.0),
    dist.LogUniform(1e-3, 10.0),
    dist.TruncatedNormal(1.0, 1.0, low=0.0),
]


@pytest.mark.parametrize("prior", TAILS, ids=lambda p: type(p).__name__)
@pytest.mark.slow
def test_tails_in_single_precision_are_those_of_the_prior(prior):
    """Values to 1e-4, and slopes that do not vanish, to six standard deviations on both sides."""
    places = np.array([-6.0, -5.0, -4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    latent = parametric(prior, "a")
    single = jnp.asarray(places, jnp.float32)
    values, slopes = jax.vmap(jax.value_and_grad(lambda x: latent.value(x[None])))(single)
    assert values.dtype == jnp.float32
    np.testing.assert_allclose(values, prior.icdf(ndtr(jnp.asarray(places))), rtol=1e-4)
    assert np.all(np.asarray(slopes) > 0)


def test_entries_of_a_normal_vector_are_described_by_their_own_spread():
    factor = jnp.array([[1.0, 0.0], [3.0, 4.0]])
    told = parametric(dist.MultivariateNormal(jnp.zeros(2), scale_tril=factor), "a").describe()
    assert told == "MultivariateNormal, 95 % within (-1.96, -9.8) .. (1.96, 9.8), median (0, 0)"
