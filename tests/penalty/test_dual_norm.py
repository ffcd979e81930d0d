"""The exact dual norm against dense algebra, sines and energy norms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.fft

from riesz.errors import RieszError
from riesz.fem.assembly import jacobian, residual
from riesz.fem.elements.space import P1
from riesz.fem.problem import boundary_value_problem
from riesz.fem.terms.coefficient import per_cell
from riesz.fem.terms.weakform import advection, diffusion, reaction, source
from riesz.mesh.shapes import disc, rectangle
from riesz.penalty.gram import Gram, dual_norm
from riesz.penalty.penalty import exact_penalty

EQUATION = diffusion(1.0) + advection([1.0, -2.0]) - source(1.0)


@pytest.fixture(scope="module")
def problem():
    return boundary_value_problem(P1(disc(6)), EQUATION, {"outer": 0.0})


def draw(problem, seed):
    return jnp.asarray(np.random.default_rng(seed).standard_normal(problem.num_free))


def test_the_norm_is_that_of_a_dense_solve_and_its_gradient_twice_the_representer(problem):
    norm, r = dual_norm(problem), draw(problem, 0)
    dense = np.asarray(norm.gram.to_dense())
    np.testing.assert_allclose(norm.squared(r), r @ np.linalg.solve(dense, r), rtol=1e-10)
    np.testing.assert_allclose(jax.grad(norm.squared)(r), 2 * norm.riesz(r), rtol=1e-10)


def test_the_dual_norm_of_a_poisson_residual_is_the_energy_norm_of_the_error(problem):
    norm, error = dual_norm(problem), draw(problem, 1)
    np.testing.assert_allclose(
        norm.squared(norm.gram @ error), error @ (norm.gram @ error), rtol=1e-10
    )


def test_on_a_square_it_is_the_value_of_the_sine_transform():
    cells = 12
    problem = boundary_value_problem(P1(rectangle((cells, cells))), EQUATION, {"boundary": 0.0})
    r = draw(problem, 2)
    # The P1 matrix of a uniform square is the five-point stencil, which sines diagonalise.
    waves = 2 - 2 * np.cos(np.pi * np.arange(1, cells) / cells)
    eigenvalues = waves[:, None] + waves[None, :]
    spectrum = scipy.fft.dstn(np.asarray(r).reshape(cells - 1, cells - 1), type=1, norm="ortho")
    np.testing.assert_allclose(
        dual_norm(problem).squared(r), np.sum(spectrum**2 / eigenvalues), rtol=1e-10
    )


@pytest.mark.slow
def test_batches_and_other_gram_forms(problem):
    rs = jnp.stack([draw(problem, seed) for seed in range(3)])
    for gram in (None, Gram(3.0, 2.0), Gram(0.0, 1.0)):
        norm = dual_norm(problem, gram)
        one_by_one = jnp.stack([norm.squared(r) for r in rs])
        np.testing.assert_allclose(jax.vmap(norm.squared)(rs), one_by_one, rtol=1e-12)
    state = jnp.zeros(problem.space.num_dofs)
    mass = jacobian(boundary_value_problem(problem.space, reaction(1.0), {"outer": 0.0}), state)
    np.testing.assert_allclose(dual_norm(problem, Gram(0.0, 1.0)).gram.values, mass.values)


def test_the_gram_matrix_is_that_of_its_form(problem):
    state, jumps = jnp.zeros(problem.space.num_dofs), 1.0 + np.arange(problem.space.mesh.num_cells)
    form = diffusion(per_cell(jumps)) + reaction(2.0)
    matrix = jacobian(boundary_value_problem(problem.space, form, {"outer": 0.0}), state)
    np.testing.assert_array_equal(dual_norm(problem, Gram(jumps, 2.0)).gram.values, matrix.values)


def test_a_gram_form_that_is_no_norm_is_refused(problem):
    for gram in (Gram(0.0), Gram(-1.0, 1.0), Gram(reaction=-1.0), Gram(np.nan)):
        with pytest.raises(RieszError, match="a norm needs a positive"):
            dual_norm(problem, gram)
    with pytest.raises(RieszError, match="one value a cell"):
        dual_norm(problem, Gram(np.ones(3)))


def test_it_vanishes_at_the_solution_only(problem):
    from riesz.fem.solve import solve

    norm, u = dual_norm(problem), solve(problem)
    at_zero = norm.squared(residual(problem, 0 * u)[problem.free])
    assert norm.squared(residual(problem, u)[problem.free]) < 1e-20 * at_zero


def test_without_prescribed_values_the_plain_exact_penalty_is_refused():
    free = boundary_value_problem(P1(rectangle((3, 3))), EQUATION)
    with pytest.raises(RieszError, match="Gram matrix is singular"):
        exact_penalty(free)
    with pytest.raises(RieszError, match="Gram matrix is singular"):
        exact_penalty(free, Gram(3.0))
    assert dual_norm(free, Gram(reaction=1.0)).squared(draw(free, 3)) > 0
