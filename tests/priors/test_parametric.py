"""Priors as functions of standard normal coordinates."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.stats
from jax.scipy.special import ndtr
from scipy.stats import kstest, norm

from riesz.errors import RieszError
from riesz.mesh.shapes import rectangle
from riesz.mesh.tags import tag_region
from riesz.priors.gaussian_process import LogGP
from riesz.priors.karhunen_loeve import KarhunenLoeve
from riesz.priors.kernels import Matern52
from riesz.priors.latent import latent_space, parametric
from riesz.priors.regions import Regions

MESH = tag_region(rectangle((3, 3)), "all", [[-1, -1], [2, -1], [2, 2], [-1, 2]])

COORDINATES = jnp.asarray(np.random.default_rng(0).normal(size=(2000, 1)))

PRIORS = [
    dist.MixtureSameFamily(
        dist.Categorical(jnp.array([0.3, 0.7])), dist.Normal(jnp.array([-2.0, 3.0]), 0.3)
    ),
    dist.Normal(3.0, 0.5),
    dist.LogNormal(-1.0, 0.7),
    dist.HalfNormal(2.0),
    dist.Uniform(-1.0, 4.0),
    dist.Exponential(0.3),
    dist.TruncatedNormal(1.0, 1.0, low=0.0),
]


class Triangular(dist.Distribution):
    """The density 2x on the unit interval."""

    support = dist.constraints.unit_interval

    def sample(self, key, sample_shape=()):
        return jnp.sqrt(jax.random.uniform(key, sample_shape))

    def log_prob(self, value):
        return jnp.log(2 * value)


class NotNormed(Triangular):
    def log_prob(self, value):
        return jnp.log(6 * value)


@pytest.mark.parametrize("prior", PRIORS, ids=lambda p: type(p).__name__)
def test_values_of_normal_coordinates_follow_the_prior(prior):
    latent = parametric(prior, "a")
    values = jax.jit(jax.vmap(latent.value))(COORDINATES)
    distribution = jax.jit(jax.vmap(prior.cdf))
    assert kstest(np.asarray(values), lambda x: np.asarray(distribution(x))).pvalue > 1e-3


@pytest.mark.parametrize(
    ("prior", "exact"),
    [
        (dist.StudentT(2.0, 1.0, 3.0), scipy.stats.t(2, 1, 3)),
        (dist.Gamma(0.3, 2.0), scipy.stats.gamma(0.3, scale=0.5)),
        (dist.Beta(0.5, 0.7), scipy.stats.beta(0.5, 0.7)),
    ],
    ids=lambda one: type(one).__name__,
)
def test_quantiles_by_table_are_exact_far_into_both_tails(prior, exact):
    at = np.array([-6.0, -3.0, -0.37, 0.0, 1.0, 2.5, 5.0])
    wanted = np.where(at < 0, exact.ppf(norm.cdf(at)), exact.isf(norm.sf(at)))
    value = jax.jit(jax.vmap(parametric(prior, "a").value))
    np.testing.assert_allclose(value(jnp.asarray(at)[:, None]), wanted, rtol=1e-6)


def test_the_density_of_the_value_is_that_of_the_prior():
    """The standard normal density is the prior's times the slope of the map, Jacobian and all."""
    prior = dist.InverseGamma(3.0, 2.0)
    value_of = parametric(prior, "a").value
    value, slope = jax.value_and_grad(lambda at: value_of(at[None]))(jnp.asarray(0.7))
    found = prior.log_prob(value) + jnp.log(jnp.abs(slope))
    np.testing.assert_allclose(found, dist.Normal(0.0, 1.0).log_prob(0.7), rtol=1e-6)


def test_shares_sum_to_one_and_follow_their_distribution():
    latent = parametric(dist.Dirichlet(jnp.array([2.0, 1.0, 0.5])), "shares")
    draws = jnp.asarray(np.random.default_rng(1).normal(size=(2000, 2)))
    values = np.asarray(jax.jit(jax.vmap(latent.value))(draws))
    assert latent.num_coordinates == 2
    np.testing.assert_allclose(values.sum(axis=1), 1.0)
    for own, alpha in zip(values.T, (2.0, 1.0, 0.5), strict=True):
        assert kstest(own, scipy.stats.beta(alpha, 3.5 - alpha).cdf).pvalue > 1e-3
    assert "Dirichlet, 95 % within (" in latent.describe()


def test_a_prior_of_ones_own_is_a_density_or_a_transform_of_normal_numbers():
    own = parametric(Triangular(), "a")
    np.testing.assert_allclose(own.where_all_are(0.0), np.sqrt(0.5), rtol=1e-6)
    base = dist.Normal(0.0, 1.0).expand([2]).to_event(1)
    factor = jnp.array([[1.0, 0.0], [0.5, 0.7]])
    affine = dist.transforms.LowerCholeskyAffine(jnp.array([1.0, 2.0]), factor)
    flow = dist.TransformedDistribution(base, [affine, dist.transforms.ExpTransform()])
    at = jnp.array([0.3, -0.4])
    wanted = jnp.exp(jnp.array([1.0, 2.0]) + factor @ at)
    np.testing.assert_allclose(parametric(flow, "b").value(at), wanted)
    wide = parametric(dist.MultivariateStudentT(4.0, jnp.array([1.0, 2.0]), factor), "c")
    draws = jnp.asarray(np.random.default_rng(2).normal(size=(2000, 3)))
    values = np.asarray(jax.jit(jax.vmap(wide.value))(draws))
    assert kstest(values[:, 1], scipy.stats.t(4, 2, np.sqrt(0.74)).cdf).pvalue > 1e-3


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
    assert {leaf.dtype for leaf in jax.tree.leaves(z)} == {jnp.dtype(jnp.float32)}


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        (dist.LKJCholesky(3), "over .3, 3. numbers together.*TransformedDistribution"),
        (NotNormed(), "integrates to 3, not to one"),
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
