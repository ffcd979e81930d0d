"""Methods take any density: those of toys without an equation, and each of a problem's own."""

import os
from functools import lru_cache

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import pytest
from jaxtyping import Array, Float
from tests.linear_gaussian import known_posterior, linear_problem

import riesz as rz
from riesz.density.exact import ExactDensity
from riesz.density.reduced_basis import ReducedDensity, reduce_over_prior
from riesz.errors import RieszError
from riesz.fem.linear.linear_solve import Dense
from riesz.method.base import Work
from riesz.method.gaussian_vi import GaussianSteps, fit_gaussian, init
from riesz.method.laplace import laplace_approximation
from riesz.method.mcmc.chains import ChainsState, Plan, run_chains
from riesz.method.mcmc.mcmc import gaussians_at_modes, init_dispersed, usable_modes
from riesz.method.mcmc.nuts import NutsSettings, all_chains
from riesz.method.newton import SearchSettings, find_map, find_modes
from riesz.posterior.density import (
    AbstractDensity,
    AbstractGradientDensity,
    hessian_vector_products,
    linearize_at,
    pool_for,
)
from riesz.problem.linearity import linear_parts


class Readings(AbstractDensity):
    """Linear readings with noise of sd one: the posterior is known."""

    matrix: Float[Array, "reading coordinate"]
    values: Float[Array, " reading"]

    def log_likelihood(self, coordinates):
        return -0.5 * jnp.sum((self.values - self.matrix @ coordinates) ** 2)

    def moments(self):
        covariance = np.linalg.inv(np.eye(self.matrix.shape[1]) + self.matrix.T @ self.matrix)
        return covariance @ self.matrix.T @ self.values, covariance


class Banana(AbstractDensity):
    """The second coordinate is nearly the square of the first."""

    def log_likelihood(self, coordinates):
        return -0.5 * ((coordinates[1] - coordinates[0] ** 2) / 0.3) ** 2


class BananaByGradients(AbstractGradientDensity):
    """The same, as if JAX had no second derivatives of it."""

    def log_likelihood(self, coordinates):
        return Banana().log_likelihood(coordinates)


class Funnel(AbstractDensity):
    """Neal's: the first coordinate is normal, and sets the width of the second."""

    def log_likelihood(self, coordinates):
        first, second = coordinates
        return 0.5 * (second**2 - second**2 * jnp.exp(-first) - first)


class TwoModes(AbstractDensity):
    """The square of a coordinate was read: its sign is not known."""

    def log_likelihood(self, coordinates):
        return -0.5 * ((coordinates[0] ** 2 - 2.0) / 0.2) ** 2


def readings() -> Readings:
    rng = np.random.default_rng(0)
    return Readings(jnp.asarray(2 * rng.normal(size=(4, 3))), jnp.asarray(rng.normal(size=4)))


def by_laplace(density, size):
    search = find_map(density, SearchSettings(), jnp.zeros(size))
    family, _, notes = laplace_approximation(density, search, size, seed=0)
    assert notes == ()
    return np.asarray(family.mean), np.asarray(family.covariance())


def by_gaussian_vi(density, size):
    mode = find_map(density, SearchSettings(tolerance=0.05), jnp.zeros(size)).end
    start = init(density, mode, size, jr.key(0))
    family = fit_gaussian(density, start, GaussianSteps(60, 2, 1, 0.05), jr.key(1)).family
    return np.asarray(family.mean), np.asarray(family.covariance())


def by_mcmc(density, size, num_draws=400):
    modes = gaussians_at_modes(density, jnp.zeros(size), 4, jr.key(0))
    chains = init_dispersed(density, modes, 4, jr.key(1), jr.key(2))
    first = ChainsState(chains, usable_modes(density, modes, jr.key(3)))
    transitions, _, _ = run_chains(density, first, Plan(40, num_draws, 0.8), Work())
    return transitions.transition.coordinates.reshape(-1, size)


def check_moments(mean, covariance, exact, tolerance):
    exact_mean, exact_covariance = exact
    sd = np.sqrt(np.diag(exact_covariance))
    assert np.abs((mean - exact_mean) / sd).max() < tolerance
    assert np.abs(np.sqrt(np.diag(covariance)) / sd - 1).max() < tolerance


@lru_cache
def density_of_problem(name):
    problem = linear_problem()
    if name == "exact":
        return ExactDensity(problem, Dense())
    return ReducedDensity(problem, reduce_over_prior(problem))


@pytest.mark.parametrize("method", [by_laplace, by_gaussian_vi])
@pytest.mark.parametrize("name", ["exact", "reduced"])
def test_gaussians_of_each_density_of_a_linear_problem_are_its_posterior(name, method):
    mean, covariance = method(density_of_problem(name), 3)
    check_moments(mean, covariance, known_posterior(), 1e-3)


@pytest.mark.slow  # quickly, by rz.fit below
@pytest.mark.parametrize("name", ["exact", "reduced"])
def test_chains_on_each_density_of_a_linear_problem_sample_its_posterior(name):
    draws = by_mcmc(density_of_problem(name), 3)
    check_moments(draws.mean(axis=0), np.cov(draws.T), known_posterior(), 0.1)


def test_derivatives_of_all_densities_of_a_problem_agree():
    place, directions = jnp.array([0.5, -1.0, 0.2]), jnp.eye(3)
    results = []
    for name in ("exact", "reduced"):
        density = density_of_problem(name)
        at = linearize_at(density, place)
        value, gradient = jax.jit(lambda p, own=density: jax.value_and_grad(own)(p))(place)
        np.testing.assert_allclose(at.gradient, -gradient, rtol=1e-8)
        images = hessian_vector_products(density, at, directions)
        # The state is linear in the unknowns: there are no second derivatives of it.
        by_gauss = hessian_vector_products(density, at, directions, jnp.zeros(()))
        np.testing.assert_allclose(by_gauss, images, rtol=1e-6, atol=1e-6)
        results.append((value, at.gradient, images))
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("method", [by_laplace, by_gaussian_vi])
def test_a_gaussian_without_an_equation_is_found(method):
    density = readings()
    mean, covariance = density.moments()
    found, spread = method(density, 3)
    np.testing.assert_allclose(found, mean, atol=1e-6)
    np.testing.assert_allclose(spread, covariance, rtol=1e-6, atol=1e-9)


def banana_moments():
    axis = np.linspace(-4, 4, 801)
    first, second = np.meshgrid(axis, axis, indexing="ij")
    logs = -0.5 * (first**2 + second**2 + ((second - first**2) / 0.3) ** 2)
    weights = np.exp(logs) / np.exp(logs).sum()
    return np.array([(weights * one).sum() for one in (first, second, first**2, second**2)])


def test_chains_of_both_kernels_follow_a_banana():
    settings = NutsSettings(100, 0.8, dense_mass=True, max_tree_depth=8, adapt_mass=True)
    chains = all_chains(Banana(), settings, jr.key(0), jnp.zeros((2, 2)), None, 600, Work())
    by_nuts = np.asarray(chains.coordinates[:, 100:]).reshape(-1, 2)
    for draws in (by_nuts, by_mcmc(Banana(), 2, num_draws=600)):
        found = np.concatenate([draws.mean(axis=0), (draws**2).mean(axis=0)])
        np.testing.assert_allclose(found, banana_moments(), atol=0.15)


def test_chains_of_both_kernels_go_into_a_funnel():
    settings = NutsSettings(150, 0.9, dense_mass=True, max_tree_depth=8, adapt_mass=True)
    chains = all_chains(Funnel(), settings, jr.key(0), jnp.zeros((2, 2)), None, 800, Work())
    by_nuts = np.asarray(chains.coordinates[:, 150:]).reshape(-1, 2)
    for draws in (by_nuts, by_mcmc(Funnel(), 2, num_draws=800)):
        width = np.exp(0.5 * draws[:, 0])
        found = [draws[:, 0].mean(), draws[:, 0].std(), (draws[:, 1] / width).std()]
        np.testing.assert_allclose(found, [0.0, 1.0, 1.0], atol=0.15)


def test_curvature_by_gradients_is_that_of_second_derivatives():
    directions = jnp.array([[1.0, 0.0], [0.3, -2.0], [0.0, 0.0]])
    for place in ([0.0, 0.0], [1.2, -0.7], [-0.5, 2.0]):
        exact, found = (
            hessian_vector_products(own, linearize_at(own, jnp.array(place)), directions)
            for own in (Banana(), BananaByGradients())
        )
        np.testing.assert_allclose(found, exact, rtol=0, atol=1e-6)


def test_both_of_two_modes_are_found_with_their_weights():
    ends = find_modes(TwoModes(), jnp.full(1, 0.1), 5, jr.key(0))
    places = sorted(float(end.coordinates[0]) for end in ends)
    np.testing.assert_allclose(places, [-1.407, 1.407], atol=0.01)
    modes = gaussians_at_modes(TwoModes(), jnp.full(1, 0.1), 5, jr.key(0))
    np.testing.assert_allclose(np.exp(modes.log_weights), [0.5, 0.5], atol=0.01)
    draws = by_mcmc(TwoModes(), 1)
    assert abs(np.mean(draws > 0) - 0.5) < 0.1


class Nowhere(AbstractDensity):
    def log_likelihood(self, coordinates):
        return jnp.log(coordinates[0] - 100.0)


def test_a_start_without_a_density_is_refused():
    with pytest.raises(RieszError, match="not finite where the search starts"):
        find_map(Nowhere(), SearchSettings(), jnp.zeros(1))


NOISE = 0.25


@lru_cache
def sources():
    """Strengths of three sources on nested meshes. The noise reads one of them, of which it would
    only depend where nobody goes: that one is not integrated out, and the posterior is normal.
    """
    rng = np.random.default_rng(3)
    points = rng.uniform(0.1, 0.9, (8, 2))

    def strength(x, z):
        return 10 * (z["w"][0] + 2 * z["w"][1] * jnp.cos(jnp.pi * x[0]))

    def other(x, z):
        return 10 * z["s"] * jnp.cos(jnp.pi * x[1])

    def posed(values):
        return rz.inverse_problem(
            rz.hierarchy(rz.rectangle((4, 4)), 2),
            rz.diffusion(1.0) - rz.source(strength) - rz.source(other),
            latents={"w": dist.Normal(0.5 * jnp.ones(2), 1.5), "s": dist.Normal(0.0, 1.0)},
            observations=rz.observations(points, values),
            likelihood=rz.Gaussian(lambda z: jnp.maximum(NOISE, z["s"] - 100.0)),
            dirichlet={"left": 0.0, "right": 1.0},
        )

    empty = posed(np.zeros(8))
    clean = empty.operator @ empty.state(jnp.array([0.8, -0.6, 0.4]))
    return posed(np.asarray(clean) + NOISE * rng.normal(size=8))


@lru_cache
def posterior_of_sources():
    """Mean and covariance by the formulas of linear regression."""
    problem = sources()
    places = jnp.concatenate([jnp.zeros((1, 3)), jnp.eye(3)])
    seen = np.asarray(jax.lax.map(lambda at: problem.operator @ problem.state(at), places))
    matrix = (seen[1:] - seen[:1]).T / NOISE
    covariance = np.linalg.inv(np.eye(3) + matrix.T @ matrix)
    return covariance @ matrix.T @ (np.asarray(problem.observed) - seen[0]) / NOISE, covariance


METHODS = {
    "laplace": (rz.Laplace, {}),
    "gaussian-vi": (rz.GaussianVI, {"num_draws": 16, "num_curved": 2}),
    "hmc": (rz.MCMC, {"num_warmup": 60, "num_searches": 2}),
    "nuts": (rz.MCMC, {"kernel": "nuts", "num_warmup": 150}),
}
SMALL = {"features": 64, "num_patches": 2, "readout_batches": 20, "refining_draws": 64}
DENSITIES = {
    "exact": (rz.Exact, {"linear_solver": Dense()}),
    "reduced-basis": (rz.ReducedBasis, {"num_snapshots": 40, "linear_solver": Dense()}),
    "surrogate": (rz.Surrogate, SMALL | {"tries_states": False}),
    "relaxed": (rz.Relaxed, {"epsilon_rel": 0.01}),
    "marginal": (rz.Marginal, {"num_draws": 40_000, "num_values": 1000}),
}


def check_pair(method, density, tolerance, num_samples=400):
    """Where draws of chains are weighed by exact solves, all of them are."""
    (kind, settings), (where, how) = METHODS[method], DENSITIES[density]
    if kind is rz.MCMC:
        settings = settings | {"num_samples": num_samples}
    elif kind is rz.GaussianVI and where is rz.Surrogate:
        settings = {}  # its rounds have settings of their own
    if where in (rz.ReducedBasis, rz.Surrogate):
        how = how | {"num_exact": 4 * num_samples}
    own = {"density": where(**how), "seed": 1, "check": False, "progress": False}
    posterior = rz.fit(sources(), kind(**settings), **own)
    name = method if method in ("laplace", "gaussian-vi") else "mcmc"
    assert posterior.engine == (name if density == "exact" else f"{name}({density})")
    found = posterior.coordinate_mean(), posterior.coordinate_covariance()
    check_moments(*map(np.asarray, found), posterior_of_sources(), tolerance)


def test_one_unknown_of_the_sources_is_not_integrated_out():
    names = sources().latents.coordinate_names()
    assert [names[i] for i in np.asarray(linear_parts(sources()).others)] == ["s"]


SLOW = {
    ("gaussian-vi", "marginal"),
    ("hmc", "exact"),  # quickly, in tests of each kernel
    ("nuts", "exact"),
    ("hmc", "relaxed"),
    ("hmc", "marginal"),
}


def marked(pairs):
    return [pytest.param(*one, marks=[pytest.mark.slow] * (one in SLOW)) for one in pairs]


GAUSSIANS = [(method, density) for density in DENSITIES for method in ("laplace", "gaussian-vi")]
CHAINS = [("hmc", density) for density in DENSITIES] + [("nuts", "exact"), ("nuts", "marginal")]


@pytest.mark.parametrize(("method", "density"), marked(GAUSSIANS))
def test_gaussians_on_all_densities_are_the_posterior(method, density):
    check_pair(method, density, 0.05 if density == "surrogate" else 0.02)


@pytest.mark.parametrize(("method", "density"), marked(CHAINS))
def test_chains_on_all_densities_sample_the_posterior(method, density):
    check_pair(method, density, 0.1)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "density"), CHAINS)
def test_long_chains_on_all_densities_sample_the_posterior(method, density):
    check_pair(method, density, 0.05, num_samples=2500)


class Long(AbstractDensity):
    """So many operations that variables of its program have every name of two letters."""

    def log_likelihood(self, coordinates):
        total = jnp.zeros(())
        for number in range(1000):
            total = total + number * coordinates[0]
        return total


class Factorised(AbstractDensity):
    """Readings whose covariance is known by its eigenvectors."""

    size: int

    def log_likelihood(self, coordinates):
        _, axes = jnp.linalg.eigh(jnp.outer(coordinates, coordinates) + jnp.eye(self.size))
        return -jnp.sum((axes.T @ coordinates) ** 2)


def test_densities_with_factorisations_are_evaluated_by_one_thread():
    """Those of several programs at once wait for each other: GaussianVI by Relaxed never ended."""
    each = (Factorised(3), True), (Banana(), os.cpu_count() == 1), (Long(), os.cpu_count() == 1)
    for density, is_alone in each:
        with pool_for(density, jnp.ones(3)) as pool:
            assert (pool._max_workers == 1) == is_alone
