"""What errors of the equation do to the data, and how large the data say they are."""

from functools import lru_cache

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import pytest
from tests.source_strengths import discrepancy, source_problem

from riesz.density.relaxed.discrepancy import gram_factor, log_densities, relax_solver
from riesz.density.relaxed.relaxed import (
    Learned,
    Relaxed,
    as_epsilon,
    median_unit,
    relaxed_density,
)
from riesz.density.relaxed.states import RelaxedStates, error_grams, linearise
from riesz.errors import RieszError
from riesz.fem.assembly import jacobian
from riesz.fem.elements.space import P1
from riesz.fem.problem import boundary_value_problem
from riesz.fem.terms.weakform import advection, diffusion, source
from riesz.mesh.shapes import rectangle
from riesz.observe.likelihood import Gaussian
from riesz.observe.observations import observations
from riesz.penalty.gram import Gram, dual_norm
from riesz.problem.posing import inverse_problem

pytestmark = pytest.mark.slow  # quickly: the posterior as a whole


@lru_cache
def transport():
    """An unsymmetric matrix, which a transpose in the wrong place would show."""
    return inverse_problem(
        rectangle((5, 5)),
        diffusion(1.0) + advection("tau") - source(10.0),
        latents={"tau": dist.Normal(jnp.array([5.0, 2.0]), 1.0)},
        observations=observations([[0.3, 0.4], [0.7, 0.6], [0.5, 0.2]], [0.5, 0.6, 0.4]),
        likelihood=Gaussian(0.05),
        dirichlet={"left": 0.0, "right": 1.0},
    )


def dense_parts(problem, coordinates):
    """H, L and A as dense matrices on the free nodes."""
    state = jnp.zeros(problem.forward.space.num_dofs)
    matrix = jacobian(problem.forward, state, problem.z(coordinates)).to_scipy().toarray()
    sensors = problem.operator.to_scipy().toarray()[:, np.asarray(problem.forward.free)]
    return sensors, matrix, dual_norm(problem.forward).gram.to_scipy().toarray()


@pytest.mark.parametrize("gram", [Gram(), Gram(0.0, 1.0), Gram(2.0, 3.0)])
def test_the_factor_times_its_transpose_is_the_gram_matrix(gram):
    matrix = dual_norm(transport().forward, gram).gram
    factor, units = gram_factor(matrix), jnp.eye(matrix.pattern.size)
    products = jax.vmap(lambda unit: factor @ factor.transpose_product(unit))(units)
    np.testing.assert_allclose(products, matrix.to_dense(), atol=1e-12)


def test_a_gram_matrix_that_is_not_positive_is_refused():
    floating = boundary_value_problem(P1(rectangle((3, 3))), diffusion(1.0) - source(1.0))
    with pytest.raises(RieszError, match="not positive: without Dirichlet conditions"):
        gram_factor(dual_norm(floating).gram)


def test_the_effect_of_errors_at_the_sensors_is_the_formula_for_an_unsymmetric_matrix():
    problem, here = transport(), jnp.array([0.3, -0.4])
    sensors, matrix, gram = dense_parts(problem, here)
    responses = np.linalg.solve(matrix.T, sensors.T)
    factor = gram_factor(dual_norm(problem.forward).gram)
    found = linearise(problem, problem.z(here), relax_solver(problem)).discrepancy(factor)
    np.testing.assert_allclose(found, responses.T @ gram @ responses, rtol=1e-9)


def unit_of(problem):
    return float(median_unit(problem, error_grams(problem, Gram())))


@pytest.mark.slow
def test_one_unit_of_epsilon_moves_the_sensors_by_one_noise_sd_on_average():
    problem = source_problem()
    sizes = unit_of(problem) ** 2 * np.diag(discrepancy(problem))
    np.testing.assert_allclose(sizes.mean(), problem.likelihood.sd**2)


def test_a_unit_means_the_same_in_other_units_of_length_and_value():
    metric, problem = source_problem(1000.0, 0.3048), source_problem()
    relative = unit_of(metric) ** 2 * discrepancy(metric) / metric.likelihood.sd**2
    np.testing.assert_allclose(
        relative,
        unit_of(problem) ** 2 * discrepancy(problem) / problem.likelihood.sd**2,
        rtol=1e-9,
    )


@pytest.fixture(scope="module")
def relaxed_states():
    """Where the unknowns are held, an epsilon, and states drawn given both and the data."""
    problem, here, epsilon = transport(), jnp.array([0.3, -0.4]), 0.3
    factor = gram_factor(dual_norm(problem.forward).gram)
    states = RelaxedStates(jnp.array([epsilon]), jnp.zeros(1), factor)
    return here, epsilon, np.asarray(states(problem, jr.key(0), jnp.tile(here, (700, 1))))


def test_states_given_the_data_have_the_mean_and_covariance_of_gaussian_conditioning(
    relaxed_states,
):
    problem, (here, epsilon, draws) = transport(), relaxed_states
    draws = draws[:, np.asarray(problem.forward.free)]
    sensors, matrix, gram = dense_parts(problem, here)
    inverse = np.linalg.inv(matrix)
    prior = epsilon**2 * inverse @ gram @ inverse.T
    noisy = sensors @ prior @ sensors.T + 0.05**2 * np.eye(3)
    gain = np.linalg.solve(noisy, sensors @ prior).T
    state = problem.state(here)
    gap = np.asarray(problem.observed - problem.operator @ state)
    mean = np.asarray(state)[np.asarray(problem.forward.free)] + gain @ gap
    covariance = prior - gain @ sensors @ prior
    sd = np.sqrt(np.diag(covariance))
    assert np.abs((draws.mean(axis=0) - mean) / sd).max() < 4.5 / np.sqrt(len(draws))
    np.testing.assert_allclose(draws.std(axis=0), sd, rtol=4.5 / np.sqrt(2 * len(draws)))


def test_prescribed_values_stay_as_they_are(relaxed_states):
    (here, _, draws), fixed = relaxed_states, np.asarray(transport().forward.fixed)
    exact = np.asarray(transport().state(here))
    np.testing.assert_array_equal(draws[:, fixed], np.tile(exact[fixed], (len(draws), 1)))


@pytest.mark.slow  # quickly: the posterior of its model
def test_densities_for_many_epsilon_are_those_of_normal_distributions_and_so_are_their_slopes():
    """Also where eigenvalues meet, as those of sensors that errors do not reach."""
    rng, epsilon = np.random.default_rng(0), jnp.array([0.3, 2.0])
    rows = jnp.asarray(rng.normal(size=(5, 2)))  # of rank two: three eigenvalues are zero
    gap = jnp.asarray(rng.normal(size=5))

    def by_formula(gap, rows):
        covariance = jnp.eye(5)[None] + epsilon[:, None, None] ** 2 * (rows @ rows.T)[None]
        solved = jnp.linalg.solve(covariance, jnp.tile(gap, (2, 1))[..., None])[..., 0]
        return -0.5 * (solved @ gap + jnp.linalg.slogdet(covariance)[1])

    def found(gap, rows):
        return log_densities(gap, rows @ rows.T, epsilon)

    np.testing.assert_allclose(found(gap, rows), by_formula(gap, rows), rtol=1e-12)
    for argument in (0, 1):
        slope, exact = (jax.jacrev(f, argnums=argument)(gap, rows) for f in (found, by_formula))
        np.testing.assert_allclose(slope, exact, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_the_slope_of_the_log_density_is_that_of_differences_for_an_unsymmetric_matrix():
    problem, here, step = transport(), jnp.array([0.3, -0.4]), 1e-5
    factor = gram_factor(dual_norm(problem.forward).gram)
    states = RelaxedStates(jnp.array([0.1, 0.4]), jnp.log(jnp.array([0.3, 0.7])), factor)
    density = relaxed_density(problem, states)
    with_slope = jax.jit(jax.value_and_grad(lambda c: density(c)))  # noqa: PLW0108 (no function)
    differences = [
        (with_slope(here + step * one)[0] - with_slope(here - step * one)[0]) / (2 * step)
        for one in jnp.eye(2)
    ]
    np.testing.assert_allclose(with_slope(here)[1], differences, rtol=1e-6)


def test_a_learned_epsilon_is_within_a_factor_of_ten_of_its_start_nine_times_in_ten():
    values, log_weights = Learned(start=2.0).scales()
    weights = np.exp(log_weights)
    np.testing.assert_allclose(weights.sum(), 1.0)
    near = (values > 0.2) & (values < 20)
    assert abs(weights[near].sum() - 0.9) < 0.03


def test_a_number_stands_for_itself_and_a_word_for_what_is_learned():
    scales = Relaxed(epsilon_rel=0.5).scales
    np.testing.assert_array_equal(scales.values, [0.5])
    np.testing.assert_array_equal(scales.log_weights, [0.0])
    assert as_epsilon("learned") == Learned()
    assert len(Relaxed(epsilon_rel="learned").scales.values) > 1


@pytest.mark.parametrize("value", [0.0, -1.0, np.inf, np.nan])
def test_an_epsilon_that_is_not_positive_is_refused(value):
    with pytest.raises(RieszError, match="it must be positive and finite"):
        as_epsilon(value)
    with pytest.raises(RieszError, match=r"epsilon_rel of relaxed is .*: give a positive number"):
        Relaxed(epsilon_rel=value)
