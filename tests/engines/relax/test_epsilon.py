"""What errors of the equation do to the data, and how large the data say they are."""

from functools import lru_cache

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import pytest
from tests.source_strengths import discrepancy, most_likely, source_problem

from riesz.engines.relax.discrepancy import gram_factor, linearise, log_densities, relax_solver
from riesz.engines.relax.error_scale import (
    maximum_likelihood_epsilon,
    median_units,
    patch_variances,
)
from riesz.engines.relax.schedule import Annealed, Fixed, Learned, as_schedule
from riesz.engines.relax.states import RelaxedStates
from riesz.errors import RieszError
from riesz.fem.assembly import jacobian
from riesz.fem.elements.space import P1
from riesz.fem.problem import boundary_value_problem
from riesz.fem.terms.weakform import advection, diffusion, source
from riesz.mesh.shapes import rectangle
from riesz.observe.likelihood import Gaussian
from riesz.observe.observations import observations
from riesz.penalty.gram import Gram, dual_norm
from riesz.penalty.penalty import exact_penalty
from riesz.penalty.schwarz import schwarz_norm
from riesz.problem.posing import inverse_problem

pytestmark = pytest.mark.slow  # quickly: tests of relax as a whole


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
    found = linearise(problem, here, relax_solver(problem)).discrepancy(factor)
    np.testing.assert_allclose(found, responses.T @ gram @ responses, rtol=1e-9)


def units_of(problem, penalty=None):
    penalty = exact_penalty(problem.forward) if penalty is None else penalty
    matrix = dual_norm(problem.forward).gram
    return [float(unit) for unit in median_units(problem, penalty, matrix, gram_factor(matrix))]


@pytest.mark.slow
def test_one_unit_of_epsilon_moves_the_sensors_by_one_noise_sd_on_average():
    problem = source_problem()
    unit, _ = units_of(problem)
    sizes = unit**2 * np.diag(discrepancy(problem))
    np.testing.assert_allclose(sizes.mean(), problem.likelihood.sd**2)


def test_a_unit_means_the_same_in_other_units_of_length_and_value():
    metric, (unit, _) = source_problem(1000.0, 0.3048), units_of(source_problem(1000.0, 0.3048))
    relative = unit**2 * discrepancy(metric) / metric.likelihood.sd**2
    (unit, _), problem = units_of(source_problem()), source_problem()
    np.testing.assert_allclose(
        relative, unit**2 * discrepancy(problem) / problem.likelihood.sd**2, rtol=1e-9
    )


@pytest.mark.slow  # quickly, in the exact norm
def test_the_effect_of_errors_in_a_norm_by_patches_is_that_of_its_inverse():
    problem = source_problem()
    norm = schwarz_norm(problem.forward, problem.hierarchy, patch_nodes=16, coarse_patch_nodes=9)
    free, size = problem.forward.free, problem.forward.space.num_dofs
    slope = jax.jit(
        jax.vmap(jax.grad(norm.squared))
    )  # of a quadratic: its matrix, column by column
    columns = slope(jnp.eye(size)[free])
    gamma = np.asarray(columns)[:, free] / 2
    here = linearise(problem, jnp.zeros(2), relax_solver(problem))
    responses = np.asarray(here.responses)
    found = patch_variances(norm, dual_norm(problem.forward).gram, here, free)
    exact = np.sum(responses.T * np.linalg.solve(gamma, responses.T), axis=0)
    np.testing.assert_allclose(found, exact, rtol=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_learned_epsilon_is_where_the_exact_marginal_likelihood_has_its_maximum(seed):
    problem = source_problem(model_error=3.0, seed=seed)
    factor, (unit, _) = gram_factor(dual_norm(problem.forward).gram), units_of(problem)
    for place in ([0.0, 0.0], [1.0, -2.0]):  # it does not matter where a linear equation is seen
        found = maximum_likelihood_epsilon(problem, factor, unit, jnp.array(place))
        assert abs(found / most_likely(problem) - 1) < 0.05


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
    with_slope = jax.jit(jax.value_and_grad(lambda c: states.ready(problem).log_prob(problem, c)))
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


def test_annealing_goes_from_the_start_to_the_end_value_and_rests_there():
    path = Annealed(0.01).path(90)
    assert path[0] == 1.0
    np.testing.assert_allclose(path[30], 0.1)  # half way to the rest, on the scale of logarithms
    np.testing.assert_allclose(path[60:], 0.01)


def test_every_cycle_starts_anew():
    path = Annealed(0.1, start=2.0, cycles=3).path(90)
    np.testing.assert_allclose(path[[0, 30, 60]], 2.0)
    np.testing.assert_allclose(path[[29, 59, 89]], 0.1)


def test_a_number_is_a_schedule():
    assert as_schedule(0.5) == Fixed(0.5)
    np.testing.assert_array_equal(as_schedule(0.5).path(3), [0.5, 0.5, 0.5])


@pytest.mark.parametrize("value", [0.0, -1.0, np.inf, np.nan])
def test_an_epsilon_that_is_not_positive_is_refused(value):
    with pytest.raises(RieszError, match="it must be positive and finite"):
        as_schedule(value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"epsilon_rel": 2.0}, "would loosen"), ({"epsilon_rel": 0.1, "cycles": 0}, "at least once")],
)
def test_annealing_that_makes_no_sense_is_refused(settings, message):
    with pytest.raises(RieszError, match=message):
        Annealed(**settings)
