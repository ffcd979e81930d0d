r"""How the log-posterior bends: actions of its Hessian by one tangent and one adjoint solve.

With the state $u$ of the unknowns $\xi$, the adjoint $p$ and the Lagrangian
$\mathcal L(u, \xi) = -\log p(y \mid u, \xi) + p \cdot r(u, \xi)$, a direction $\dot\xi$ moves the
state by $\dot u = -J^{-1} r_\xi \dot\xi$ and the adjoint by
$\dot p = -J^{-\top}(\mathcal L_{uu} \dot u + \mathcal L_{u\xi} \dot\xi)$. The data's part of the
Hessian is then $\mathcal L_{\xi u} \dot u + \mathcal L_{\xi\xi} \dot\xi + r_\xi^\top \dot p$, the
prior's the identity: few eigenvalues differ from one, whatever the number of unknowns.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from riesz.fem.assembly import free_residual, jacobian, with_dirichlet
from riesz.fem.linear.linear_solve import AbstractLinearSolver
from riesz.fem.linear.sparse import SparseMatrix
from riesz.problem.problem import Coordinates, InverseProblem

OVERSAMPLING = 10
"""Directions beyond those that are wanted, for the random start to hold all of them."""

Directions = Float[Array, "direction coordinate"]
FreeValues = Float[Array, " free"]


class Place(eqx.Module):
    """Coordinates, and all about them that actions of the Hessian meet again."""

    coordinates: Coordinates
    free_values: FreeValues
    adjoint: FreeValues
    matrix: SparseMatrix  # J
    cost: Float[Array, ""]  # minus the log-posterior, up to a constant
    slope: Coordinates


def misfit(
    problem: InverseProblem, free_values: FreeValues, coordinates: Coordinates
) -> Float[Array, ""]:
    """Minus the log-likelihood of a state."""
    state = with_dirichlet(problem.forward, free_values, problem.z(coordinates))
    return -problem.log_likelihood(coordinates, state)


def equations(
    problem: InverseProblem, free_values: FreeValues, coordinates: Coordinates
) -> FreeValues:
    """The residual, which vanishes at the solution."""
    z = problem.z(coordinates)
    return free_residual(problem.forward, with_dirichlet(problem.forward, free_values, z), z)


@eqx.filter_jit
def place_at(
    problem: InverseProblem, coordinates: Coordinates, solver: AbstractLinearSolver
) -> Place:
    """The solution there, its adjoint, and the slope; a NaN cost where there is no solution."""
    state = problem.solved(coordinates, solver)
    values = state[problem.forward.free]
    matrix = jacobian(problem.forward, state, problem.z(coordinates))
    cost, (by_state, by_coordinates) = jax.value_and_grad(misfit, argnums=(1, 2))(
        problem, values, coordinates
    )
    adjoint = -solver.raw_solve(matrix, by_state, transposed=True)
    _, pull_back = jax.vjp(lambda c: equations(problem, values, c), coordinates)
    slope = coordinates + by_coordinates + pull_back(adjoint)[0]
    cost = cost + 0.5 * coordinates @ coordinates
    return Place(coordinates, values, adjoint, matrix, cost, slope)


def data_action(
    problem: InverseProblem,
    place: Place,
    solver: AbstractLinearSolver,
    second: Float[Array, ""],
    direction: Coordinates,
) -> Coordinates:
    """The data's part of the Hessian times a direction.

    `second` is one; zero leaves second derivatives of the equation out, as Gauss and Newton did,
    which is never negative where noise is normal and known.
    """

    def lagrangian(values: FreeValues, coordinates: Coordinates) -> Float[Array, ""]:
        held = second * place.adjoint @ equations(problem, values, coordinates)
        return misfit(problem, values, coordinates) + held

    def residual(coordinates: Coordinates) -> FreeValues:
        return equations(problem, place.free_values, coordinates)

    at = (place.free_values, place.coordinates)
    _, push = jax.jvp(residual, (place.coordinates,), (direction,))
    change = -solver.raw_solve(place.matrix, push, transposed=False)
    _, (by_state, by_coordinates) = jax.jvp(
        jax.grad(lagrangian, argnums=(0, 1)), at, (change, direction)
    )
    adjoint_change = -solver.raw_solve(place.matrix, by_state, transposed=True)
    _, pull_back = jax.vjp(residual, place.coordinates)
    return by_coordinates + pull_back(adjoint_change)[0]


@eqx.filter_jit
def data_actions(
    problem: InverseProblem, place: Place, solver: AbstractLinearSolver, directions: Directions
) -> Directions:
    """The data's part of the Hessian, all of it, times several directions."""
    one = jnp.ones((), directions.dtype)
    return jax.lax.map(lambda d: data_action(problem, place, solver, one, d), directions)


def leading_eigenpairs(
    action: Callable[[Directions], Directions],
    size: int,
    count: int,
    key: PRNGKeyArray,
    *,
    passes: int = 2,
) -> tuple[Float[Array, " rank"], Float[Array, "coordinate rank"]]:
    """The eigenvalues of largest size of a symmetric operator, by random subspace iteration.

    Halko, Martinsson & Tropp (2011). `action` takes several directions at once.
    """
    rank = min(count + OVERSAMPLING, size)
    basis = jnp.linalg.qr(jr.normal(key, (size, rank)))[0]
    for _ in range(passes):
        basis = jnp.linalg.qr(action(basis.T).T)[0]
    image = action(basis.T).T
    values, rotation = jnp.linalg.eigh((basis.T @ image + image.T @ basis) / 2)
    kept = jnp.argsort(-jnp.abs(values))[: min(count, rank)]
    return values[kept], basis @ rotation[:, kept]
