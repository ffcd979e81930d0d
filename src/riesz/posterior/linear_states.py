"""Exact states of linear equations at many draws, assembled by a program and solved outside.

A program that calls the host back for each solve takes long to compile and cannot be kept for the
next run; this one does neither, and where no unknown changes the matrix, one factorisation serves
all draws.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jaxtyping import Array, Float, PyTree

from riesz.fem.assembly import dirichlet_values, jacobian, residual
from riesz.fem.linear.host_lu import lu_solve
from riesz.fem.newton import ROUNDING_UNITS
from riesz.fem.problem import Newton
from riesz.priors.latent import ManyZ
from riesz.problem.linearity import by_equation
from riesz.problem.problem import InverseProblem
from riesz.problem.unknowns import STATE

NodeDraws = Float[np.ndarray, "draw node"]


def linear_states(problem: InverseProblem, z: ManyZ) -> NodeDraws | None:
    """The solution for each draw, NaN where there is none; None where the equation is not linear.

    Of several experiments, or steps in time, each would have a matrix of its own: they are left to
    others, too.
    """
    result = by_equation(problem)
    if problem.num_solves > 1 or not result.is_affine_in([STATE]):
        return None
    is_fixed = not any(STATE in pair for pair in result.meets)
    forward = problem.forward
    values, sides, prescribed = map(np.asarray, linear_systems(problem, z, is_fixed=is_fixed))
    states = np.empty((len(sides), forward.space.num_dofs), forward.dtype)
    states[:, np.asarray(forward.fixed)] = prescribed
    pattern = forward.pattern
    places = np.asarray(pattern.columns), np.asarray(pattern.row_starts)
    states[:, np.asarray(forward.free)] = refine_solutions(values, places, sides)
    return states


@eqx.filter_jit
def linear_systems(
    problem: InverseProblem, z: ManyZ, *, is_fixed: bool
) -> tuple[
    Float[Array, "draw_or_one entry"], Float[Array, "draw free"], Float[Array, "draw fixed"]
]:
    """Matrices, one for all where it is the same, right-hand sides and prescribed values."""
    forward = problem.forward
    zeros = jnp.zeros(forward.space.num_dofs, forward.dtype)

    def one(z: PyTree[Array]):
        prescribed = dirichlet_values(forward, z)
        known = zeros.at[forward.fixed].set(prescribed)
        matrix = () if is_fixed else jacobian(forward, known, z).values
        return matrix, -residual(forward, known, z)[forward.free], prescribed

    matrices, sides, prescribed = jax.lax.map(one, z)
    if is_fixed:
        matrices = jacobian(forward, zeros, jax.tree.map(lambda leaf: leaf[0], z)).values[None]
    return matrices, sides, prescribed


def refine_solutions(
    values: Float[np.ndarray, "draw_or_one entry"],
    places: tuple[np.ndarray, np.ndarray],
    sides: Float[np.ndarray, "draw free"],
) -> Float[np.ndarray, "draw free"]:
    """Solutions whose residuals are as small as those of Newton's iteration, or NaN."""
    result = lu_solve(values, *places, sides, transposed=False)
    left, rounding = residuals_and_rounding(values, places, result, sides)
    goal = Newton().tolerance * np.linalg.norm(sides, axis=1)
    if (np.linalg.norm(left, axis=1) > goal).any():
        # An ill-conditioned matrix wants a second step.
        result = result + lu_solve(values, *places, left, transposed=False)
        left, rounding = residuals_and_rounding(values, places, result, sides)
    good = np.linalg.norm(left, axis=1) <= np.maximum(goal, rounding)
    return np.where(good[:, None], result, np.nan)


def residuals_and_rounding(
    values: Float[np.ndarray, "draw_or_one entry"],
    places: tuple[np.ndarray, np.ndarray],
    states: Float[np.ndarray, "draw free"],
    sides: Float[np.ndarray, "draw free"],
) -> tuple[Float[np.ndarray, "draw free"], Float[np.ndarray, " draw"]]:
    """Residuals, and how large they may be by rounding alone."""
    size = sides.shape[1]
    units = ROUNDING_UNITS * np.finfo(sides.dtype).eps
    if len(values) == 1:
        matrix = sp.csr_array((values[0], *places), shape=(size, size))
        rounding = np.linalg.norm(abs(matrix) @ abs(states.T), axis=0)
        return sides - (matrix @ states.T).T, units * rounding
    left, rounding = np.empty_like(sides), np.empty(len(sides))
    for number, (own, solution) in enumerate(zip(values, states, strict=True)):
        matrix = sp.csr_array((own, *places), shape=(size, size))
        left[number] = sides[number] - matrix @ solution
        rounding[number] = units * np.linalg.norm(abs(matrix) @ abs(solution))
    return left, rounding
