"""An unknown history of a well beside an unknown diffusivity: both from heads in time."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from tests.pairs import pair

import riesz as rz
from riesz.density.marginal.linear import MarginalDensity
from riesz.density.marginal.points import point_map_at_sensors
from riesz.errors import RieszError
from riesz.problem.linearity import linear_parts

TIMES = np.linspace(0, 1, 11)
KNOTS = np.linspace(0, 1, 6)
PLACES = np.array([[0.3, 0.4], [0.6, 0.6], [0.8, 0.3]])


def pumped(values, noise_sd=0.01):
    rates = rz.series(KNOTS, "q", kind="linear")
    return rz.inverse_problem(
        rz.rectangle((8, 8)),
        rz.storage(1.0) + rz.diffusion("k") - rz.point_source([[0.45, 0.5]], rates),
        latents={
            "k": dist.LogNormal(-1.0, 0.5),
            "q": rz.priors.process_in_time(rz.Matern32(0.4), KNOTS, mean=1.0),
        },
        dirichlet={"boundary": 0.0},
        observations=rz.observations(
            np.tile(PLACES, (5, 1)), values, times=np.repeat([0.2, 0.4, 0.6, 0.8, 1.0], 3)
        ),
        likelihood=rz.Gaussian(noise_sd),
        times=TIMES,
        initial=0.0,
    )


@pytest.fixture(scope="module")
def problem():
    empty = pumped(np.zeros(15))
    rng = np.random.default_rng(2)
    truth = jnp.asarray(rng.normal(size=empty.num_coordinates))
    clean = np.asarray(empty.operator @ empty.state(truth))
    return pumped(clean + 0.01 * rng.normal(size=15))


@pytest.mark.slow
def test_a_history_is_linear_and_a_diffusivity_is_not():
    problem = pumped(np.zeros(15))
    parts = linear_parts(problem)
    assert len(parts.linear) == len(KNOTS)
    assert [problem.latents.coordinate_names()[i] for i in np.asarray(parts.others)] == ["k"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "engine",
    # A diffusivity times a history bends: with steps of the usual length some transitions diverge.
    [pair("laplace(marginal)"), pair("mcmc", target_accept=0.95, num_samples=500)],
    ids=["laplace(marginal)", "mcmc"],
)
def test_engines_agree_with_quadrature_over_the_diffusivity(problem, engine):
    parts, at = linear_parts(problem), point_map_at_sensors(problem)
    grid = np.linspace(-3, 3, 121)

    @eqx.filter_jit
    def given(others):
        one = MarginalDensity(problem, parts, at).system(others)
        return one.log_likelihood(), one.mean, one.variances(jnp.eye(len(KNOTS)))

    found = [given(jnp.asarray([k])) for k in grid]
    likelihoods, means, spreads = (
        np.stack(list(map(np.asarray, own))) for own in zip(*found, strict=True)
    )
    logs = likelihoods - 0.5 * grid**2
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    mean = weights @ means
    sd = np.sqrt(weights @ (spreads + (means - mean) ** 2))
    about = weights @ grid
    width = np.sqrt(weights @ (grid - about) ** 2)
    posterior = rz.fit(problem, engine, seed=0, progress=False)
    draws = np.asarray(posterior.distribution.all())
    others, linear = draws[:, np.asarray(parts.others)[0]], draws[:, np.asarray(parts.linear)]
    assert abs(others.mean() - about) < 0.15 * width
    assert others.std() == pytest.approx(width, rel=0.1)
    assert np.abs((linear.mean(axis=0) - mean) / sd).max() < 0.2
    np.testing.assert_allclose(linear.std(axis=0) / sd, 1, atol=0.12)


def test_a_process_needs_times_that_are_numbers():
    with pytest.raises(RieszError, match="NaN"):
        rz.priors.process_in_time(rz.Matern32(0.4), [0.0, np.nan])
    with pytest.raises(RieszError, match="no length scale"):
        rz.priors.process_in_time(rz.Matern32(), [0.0, 1.0])
