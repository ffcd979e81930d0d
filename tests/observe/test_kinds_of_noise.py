"""Counts, shares, log-normal and correlated noise: densities, moments, and what is refused."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy import stats

import riesz as rz
from riesz.errors import RieszError
from riesz.observe.joint import Joint

STATE = jnp.array([0.3, 1.2, 0.8])
Z = {"c": jnp.asarray(4.0), "l": jnp.asarray(0.7), "s": jnp.asarray(0.3)}
RATES = np.array([2.0, 3.0, 4.0]) * np.exp(STATE)
SHARES = 1 / (1 + np.exp(-np.asarray(STATE)))
X = np.array([0.0, 0.5, 2.0])
COVARIANCE = 0.3**2 * np.exp(-np.abs(X[:, None] - X[None]) / 0.7)

KINDS = {
    "poisson": (rz.Poisson([2.0, 3.0, 4.0]), stats.poisson(RATES), [1.0, 9.0, 12.0]),
    "rates": (rz.Poisson(10.0, "identity"), stats.poisson(10 * STATE), [1.0, 9.0, 12.0]),
    "negative-binomial": (
        rz.observe.NegativeBinomial("c", [2.0, 3.0, 4.0]),
        stats.nbinom(4.0, 4.0 / (4.0 + RATES)),
        [1.0, 9.0, 12.0],
    ),
    "log-normal": (
        rz.observe.LogNormal("s"),
        stats.lognorm(0.3, scale=np.asarray(STATE)),
        [0.4, 1.0, 0.9],
    ),
    "binomial": (
        rz.observe.Binomial([10.0, 20.0, 40.0]),
        stats.binom([10, 20, 40], SHARES),
        [0.4, 1, 0.5],
    ),
}


def density(scipy, values, trials):
    values = np.asarray(values)
    if hasattr(scipy.dist, "pmf"):
        return scipy.logpmf(values if trials is None else np.round(values * trials)).sum()
    return scipy.logpdf(values).sum()


@eqx.filter_jit
def densities_and_sds(given):
    return {
        name: (likelihood.log_prob(values, STATE, Z), likelihood.noise_sd(STATE, Z))
        for name, (likelihood, values) in given.items()
    }


def test_densities_and_sds_are_those_of_scipy():
    given = {name: (one, jnp.asarray(values, float)) for name, (one, _, values) in KINDS.items()}
    found = densities_and_sds(given)
    for name, (_, scipy, values) in KINDS.items():
        trials = np.array([10, 20, 40]) if name == "binomial" else None
        # The beta function of the negative binomial is good to seven digits only.
        np.testing.assert_allclose(found[name][0], density(scipy, values, trials), rtol=1e-6)
        np.testing.assert_allclose(found[name][1], scipy.std() / (1 if trials is None else trials))


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_draws_have_the_moments_of_scipy(name):
    likelihood, scipy, _ = KINDS[name]
    unit = np.array([10, 20, 40]) if name == "binomial" else 1
    keys = jr.split(jr.key(0), 2000)
    draws = eqx.filter_jit(jax.vmap(lambda key: likelihood.sample(key, STATE, Z)))(keys)
    sd = scipy.std() / unit
    assert (np.abs(draws.mean(axis=0) - scipy.mean() / unit) / sd).max() < 5 / 2000**0.5
    np.testing.assert_allclose(draws.std(axis=0), sd, rtol=0.12)


@pytest.mark.parametrize(
    ("likelihood", "words"),
    [
        (rz.Poisson(), "Poisson counts, the state is the log of the rate"),
        (rz.Poisson([1.0, 2.0], "identity"), "the rate, exposure 1 .. 2, one for each observation"),
        (
            rz.observe.NegativeBinomial("c"),
            "negative binomial counts, concentration 'c' learned, the st",
        ),
        (
            rz.observe.Binomial([5.0, 9.0]),
            "binomial shares, trials 5 .. 9, one for each observation",
        ),
        (
            rz.observe.LogNormal(0.2, "log"),
            "log-normal, sd 0.2 of the logarithm, the state is the log of",
        ),
        (
            rz.observe.CorrelatedNormal(covariance=COVARIANCE),
            "normal, correlated by a known matrix, sd",
        ),
    ],
)
def test_noise_is_described(likelihood, words):
    assert words in likelihood.describe()


def test_noise_that_sensors_share_is_one_normal_vector():
    values = jnp.array([0.2, 1.5, 0.9])
    wanted = stats.multivariate_normal(np.asarray(STATE), COVARIANCE).logpdf(values)
    learned = rz.observe.CorrelatedNormal("s", points=X, length="l")
    known = rz.observe.CorrelatedNormal(covariance=COVARIANCE)

    @eqx.filter_jit
    def density_and_sd(likelihood):
        return likelihood.log_prob(values, STATE, Z), likelihood.noise_sd(STATE, Z)

    for likelihood in (learned, known):
        density, sd = density_and_sd(likelihood)
        np.testing.assert_allclose(density, wanted, rtol=1e-6)
        np.testing.assert_allclose(sd, 0.3)
    # A new measurement has a share of its own in what others have in common.
    np.testing.assert_allclose(learned.new(jnp.zeros(5), Z).variance, 0.09 * np.ones(5))
    with pytest.raises(RieszError, match="each sensor has noise of its own"):
        known.new(jnp.zeros(5), Z)


def test_a_joint_likelihood_is_the_product_of_its_parts():
    parts = (
        rz.Gaussian(0.3),
        rz.Poisson(),
        rz.observe.CorrelatedNormal("s", points=X[1:], length="l"),
    )
    values, state = jnp.array([0.1, 0.2, 0.3, 5.0, 1.0, 2.0]), jnp.arange(6.0) / 5
    cuts = ((0, 3), (3, 4), (4, 6))
    whole = Joint(parts, (3, 1, 2))

    @eqx.filter_jit
    def evaluated():
        own = zip(parts, cuts, strict=True)
        each = [one.log_prob(values[a:b], state[a:b], Z) for one, (a, b) in own]
        return whole.log_prob(values, state, Z), each

    together, each = evaluated()
    np.testing.assert_allclose(together, sum(each))
    assert jax.eval_shape(lambda: whole.sample(jr.key(0), state, Z)).shape == (6,)
    assert not whole.is_normal
    assert whole.is_discrete
    assert set(whole.parameters(Z)) == {"0.sd", "1.exposure", "2.sd", "2.length"}


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: rz.Poisson().check_values(np.array([1.0, -1.0])), "first -1 of observation 1"),
        (lambda: rz.Poisson().check_values(np.array([0.5])), "are no counts"),
        (lambda: rz.Poisson(link="logit"), "link of Poisson is 'logit': it may be"),
        (lambda: rz.Poisson(0.0), "the exposure is 0.0: it must be positive"),
        (lambda: rz.observe.NegativeBinomial(-1.0), "the concentration is -1.0"),
        (
            lambda: rz.observe.Binomial(20.0).check_values(np.array([0.5, 3.0])),
            "are no shares, first 3",
        ),
        (
            lambda: rz.observe.Binomial(20.0).check_values(np.array([0.52])),
            "shares times trials are no",
        ),
        (
            lambda: rz.observe.LogNormal(0.1).check_values(np.array([0.0])),
            "values are not positive",
        ),
        (lambda: rz.observe.CorrelatedNormal(0.1), "given by covariance=..., or by sd"),
        (
            lambda: rz.observe.CorrelatedNormal(0.1, points=X),
            "needs both points=... and length=...",
        ),
        (
            lambda: rz.observe.CorrelatedNormal(0.1, points=[0, 1, 1], length=1.0),
            "1 and 2 are at one pl",
        ),
        (lambda: rz.observe.CorrelatedNormal(covariance=np.ones((2, 2))), "has the eigenvalue"),
        (lambda: rz.observe.CorrelatedNormal(covariance=np.ones((2, 3))), "give a square matrix"),
        (
            lambda: rz.observe.CorrelatedNormal(0.1, points=X, length=[1.0, 2.0, 3.0]),
            "one number for all",
        ),
    ],
)
def test_impossible_noise_and_values_are_refused(act, message):
    with pytest.raises(RieszError, match=message):
        act()
