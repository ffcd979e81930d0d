"""Noise that readings of one group share: against the dense covariance that it stands for."""

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
from riesz.observe.sites import lanes_of

# Unequal gaps, three readings of B at one time, C alone, in no order.
GROUPS = np.array(["B", "A", "B", "C", "A", "B", "B", "A", "D", "D", "A"])
TIMES = np.array([3.0, 0.0, 3.0, 7.0, 9.5, 3.0, -4.0, 0.1, 2.0, 2.0, 1e3])
COUNT = len(GROUPS)
OWN = 0.1 + 0.05 * np.arange(COUNT)
Z = {
    "own": jnp.asarray(0.3),
    "level": jnp.asarray(0.7),
    "drift": jnp.asarray(0.4),
    "memory": jnp.asarray(2.5),
}
STATE = jnp.sin(jnp.arange(COUNT) + 0.0)
VALUES = STATE + jnp.cos(3.0 * jnp.arange(COUNT))

DRIFT = {"drift_sd": "drift", "correlation_time": "memory", "times": TIMES}
KINDS = {
    "level": (rz.observe.GroupedNormal("own", GROUPS, level_sd=0.7), 0.3, 0.7, 0.0),
    "drift": (rz.observe.GroupedNormal(OWN, GROUPS, **DRIFT), OWN, 0.0, 0.4),
    "both": (rz.observe.GroupedNormal(OWN, GROUPS, level_sd="level", **DRIFT), OWN, 0.7, 0.4),
    "hardly anything of its own": (
        rz.observe.GroupedNormal(1e-3, GROUPS, level_sd="level", **DRIFT),
        *(1e-3, 0.7, 0.4),
    ),
}


def dense(own, level, drift):
    same = GROUPS[:, None] == GROUPS[None]
    apart = np.abs(TIMES[:, None] - TIMES[None])
    shared = level**2 + drift**2 * np.exp(-apart / 2.5)
    return np.where(same, shared, 0.0) + np.diag(np.broadcast_to(own, COUNT) ** 2)


@eqx.filter_jit
def everything(likelihood):
    factor = likelihood.factor(STATE, Z)
    units = jnp.eye(COUNT)
    return {
        "density": likelihood.log_prob(VALUES, STATE, Z),
        "slope": jax.grad(lambda z: likelihood.log_prob(VALUES, STATE, z))(Z),
        "by_state": jax.grad(lambda u: likelihood.log_prob(VALUES, u, Z))(STATE),
        "white": factor.white(units),
        "coloured": factor.colour(units),
        "sd": likelihood.noise_sd(STATE, Z),
        "bent": jax.hessian(lambda u: likelihood.log_prob(VALUES, u, Z))(STATE),
    }


@pytest.fixture(scope="module")
def found():
    return {name: everything(likelihood) for name, (likelihood, *_) in KINDS.items()}


@pytest.mark.parametrize("name", KINDS)
def test_it_is_one_normal_vector(found, name):
    _, *sds = KINDS[name]
    covariance, mine = dense(*sds), found[name]
    normal = stats.multivariate_normal(np.asarray(STATE), covariance)
    precision, gap = np.linalg.inv(covariance), np.asarray(VALUES - STATE)
    np.testing.assert_allclose(mine["density"], normal.logpdf(VALUES), rtol=1e-10)
    np.testing.assert_allclose(mine["sd"] ** 2, np.diag(covariance), rtol=1e-12)
    largest = np.abs(precision).max()
    np.testing.assert_allclose(mine["by_state"], precision @ gap, rtol=1e-8, atol=1e-10 * largest)
    np.testing.assert_allclose(-mine["bent"], precision, rtol=1e-8, atol=1e-10 * largest)


@pytest.mark.parametrize("name", KINDS)
def test_its_factor_whitens_and_colours(found, name):
    _, *sds = KINDS[name]
    covariance, white, coloured = dense(*sds), found[name]["white"], found[name]["coloured"]
    np.testing.assert_allclose(coloured @ coloured.T, covariance, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(white @ coloured, np.eye(COUNT), atol=1e-10)


@pytest.mark.parametrize("name", KINDS)
def test_slopes_by_what_is_learned_are_those_of_the_dense_density(found, name):
    likelihood, *sds = KINDS[name]
    same, apart = GROUPS[:, None] == GROUPS[None], np.abs(TIMES[:, None] - TIMES[None])
    kept = np.where(same, np.exp(-apart / 2.5), 0.0)
    changes = {
        "own": 2 * 0.3 * np.eye(COUNT),
        "level": 2 * 0.7 * same,
        "drift": 2 * 0.4 * kept,
        "memory": 0.4**2 * kept * apart / 2.5**2,
    }
    learned = [scale for scale in likelihood.scales().values() if isinstance(scale, str)]
    precision = np.linalg.inv(dense(*sds))
    weights = precision @ np.asarray(VALUES - STATE)
    for unknown, slope in found[name]["slope"].items():
        change = changes[unknown] * (unknown in learned)
        wanted = 0.5 * (weights @ change @ weights - np.sum(precision * change))
        np.testing.assert_allclose(slope, wanted, rtol=1e-7, atol=1e-9)


def test_draws_have_the_covariance():
    likelihood, *sds = KINDS["both"]

    @eqx.filter_jit
    def drawn(key):
        return likelihood.distribution(STATE, Z).sample(key, (40_000,))

    draws, covariance = np.asarray(drawn(jr.key(0))), dense(*sds)
    assert draws.shape == (40_000, COUNT)
    sd = np.sqrt(np.diag(covariance))
    np.testing.assert_array_less(np.abs(draws.mean(axis=0) - STATE) / sd, 5 / 200)
    gap = np.abs(np.cov(draws.T) - covariance) / np.outer(sd, sd)
    assert gap.max() < 5 * np.sqrt(2) / 200


def test_equally_spaced_readings_without_errors_of_their_own_are_an_autoregression():
    count, share = 6, np.exp(-1 / 2.5)
    groups, times = np.zeros(count, int), np.arange(count)
    words = {"drift_sd": 0.4, "correlation_time": 2.5, "times": times}
    values = jnp.cos(1.0 * jnp.arange(count))
    found = rz.observe.GroupedNormal(1e-7, groups, **words).log_prob(values, jnp.zeros(count), Z)
    steps = stats.norm(share * values[:-1], 0.4 * np.sqrt(1 - share**2)).logpdf(values[1:])
    wanted = stats.norm(0, 0.4).logpdf(values[0]) + steps.sum()
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_lanes_hold_each_reading_once_and_in_order(seed):
    rng = np.random.default_rng(seed)
    group = np.unique(rng.integers(0, 12, 60) ** 2 % 7, return_inverse=True)[1]
    times = rng.integers(0, 20, 60) / 2
    lanes = lanes_of(group, times)
    reading = np.asarray(lanes.reading)
    np.testing.assert_array_equal(np.sort(reading[reading < 60]), np.arange(60))
    np.testing.assert_array_equal(reading.ravel()[lanes.slot], np.arange(60))
    sizes = np.bincount(group)
    assert len(reading) == sizes.max()
    assert reading.size < 2 * 60 + sizes.max()
    for lane, gaps, firsts in zip(reading.T, lanes.gap.T, lanes.is_first.T, strict=True):
        own = lane[lane < 60]
        starts = np.flatnonzero(np.r_[True, np.diff(group[own]) != 0])
        np.testing.assert_array_equal(np.flatnonzero(firsts[: len(own)]), starts)
        apart = np.r_[0.0, np.diff(times[own])]
        apart[starts] = 0.0
        assert (apart >= 0).all()
        np.testing.assert_array_equal(gaps[: len(own)], apart)


def test_dates_are_times_in_days():
    dates = np.datetime64("1980-01-01T00:00:00") + (TIMES * 86_400).astype("timedelta64[s]")
    by_date = rz.observe.GroupedNormal(OWN, GROUPS, **(DRIFT | {"times": dates}))
    np.testing.assert_allclose(by_date.lanes.gap, KINDS["drift"][0].lanes.gap, rtol=1e-12)


def test_a_new_reading_has_all_of_the_noise():
    likelihood = rz.observe.GroupedNormal("own", GROUPS, level_sd="level", **DRIFT)
    variance = 0.3**2 + 0.7**2 + 0.4**2
    np.testing.assert_allclose(likelihood.new(jnp.zeros(3), Z).variance, variance, rtol=1e-12)
    parameters = {name: np.full((2, 1), one) for name, one in likelihood.parameters(Z).items()}
    said = np.zeros((2, 3))
    one_sd = likelihood.observation_distribution.quantile(
        np.full((2, 1), stats.norm.cdf(1.0)), said, parameters
    )
    np.testing.assert_allclose(one_sd, np.sqrt(variance), rtol=1e-12)
    with pytest.raises(RieszError, match="each sensor has noise of its own"):
        KINDS["both"][0].new(jnp.zeros(3), Z)


@pytest.mark.slow
def test_beside_other_data_it_is_whitened_by_itself():
    first, second = KINDS["level"][0], rz.Gaussian(0.5)
    whole = Joint((first, rz.observe.WithEffects(second, np.ones((2, 1)))), (COUNT, 2))
    assert whole.is_normal
    assert not whole.is_independent
    factor = whole.factor(jnp.zeros(COUNT + 2), Z | {"effects": jnp.ones(1)})
    columns = jnp.eye(COUNT + 2)[:, -3:]
    np.testing.assert_allclose(factor.white(columns)[COUNT:], 2 * columns[COUNT:])
    np.testing.assert_allclose(factor.white(factor.colour(columns)), columns, atol=1e-12)
    own = first.factor(STATE, Z).log_volume()
    np.testing.assert_allclose(factor.log_volume(), own + 2 * np.log(0.5), rtol=1e-12)


def test_it_is_described():
    assert rz.observe.GroupedNormal(0.1, GROUPS, level_sd="level", **DRIFT).describe() == (
        "normal, sd 0.1; readings of each of 4 groups share a level (sd 'level' learned) and a "
        "drift (sd 'drift' learned, correlation time 'memory' learned)"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({}, "share nothing: give level_sd"),
        ({"drift_sd": 0.1}, "a drift needs .*: correlation_time is missing"),
        ({"level_sd": 1.0, "times": TIMES}, "a drift needs .*: drift_sd is missing"),
        ({"level_sd": -1.0}, "the noise level_sd is -1.0: it must be positive"),
        ({"level_sd": OWN}, "the noise level_sd is one number for all groups"),
        (DRIFT | {"times": TIMES[:3]}, r"times have shape \(3,\), but there are 11 groups"),
        (DRIFT | {"times": np.where(TIMES > 8, np.nan, TIMES)}, "time of reading 4 is nan"),
        (DRIFT | {"times": np.array(["1980", "NaT"] + 9 * ["1981"], "M8[D]")}, "reading 1 is nan"),
        ({"level_sd": 1.0, "groups": GROUPS[:, None]}, r"groups has shape \(11, 1\)"),
        ({"level_sd": 1.0, "groups": ["a", None, "b"]}, "reading 1 has no group"),
        ({"level_sd": 1.0, "groups": [1.0, np.nan, np.nan]}, r"1 has no group \(2 of 3"),
    ],
)
def test_what_makes_no_noise_is_refused(words, message):
    with pytest.raises(RieszError, match=message):
        rz.observe.GroupedNormal(0.1, **({"groups": GROUPS} | words))


def test_sizes_are_looked_at():
    likelihood = KINDS["level"][0]
    with pytest.raises(RieszError, match=r"there are 3 observations, .* has groups for 11"):
        likelihood.check_values(np.zeros(3))
    with pytest.raises(RieszError, match=r"level_sd has shape \(2,\): it is one number"):
        KINDS["both"][0].noise_sd(STATE, Z | {"level": jnp.ones(2)})
