r"""The linearization of a posterior at a point: state, adjoint, gradient, Hessian-vector products.

A Hessian-vector product takes one tangent and one adjoint solve. With the state $u$, what the
equation reads $z(\xi)$, the adjoint $p$ and the Lagrangian
$\mathcal L(u, z) = -\log p(y \mid u, z) + p \cdot r(u, z)$, a direction $\dot\xi$ moves $z$ by
$\dot z = z_\xi \dot\xi$, the state by $\dot u = -J^{-1} r_z \dot z$ and the adjoint by
$\dot p = -J^{-\top}(\mathcal L_{uu} \dot u + \mathcal L_{uz} \dot z)$. The data's part of the
Hessian is then $z_\xi^\top (\mathcal L_{zu} \dot u + \mathcal L_{zz} \dot z + r_z^\top \dot p)
+ \mathcal L_z z_{\xi\xi} \dot\xi$, the prior's the identity: few eigenvalues differ from one,
whatever the number of unknowns. All but $\dot\xi$ is the same for all directions at a point, and is
computed once.
"""

from collections.abc import Callable
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from riesz.fem.assembly import free_residual, with_dirichlet
from riesz.fem.default_solver import map_in_parts
from riesz.fem.linear.linear_solve import AbstractLinearSolver
from riesz.fem.newton import PreparedJacobian, prepare_jacobian
from riesz.fem.problem import BoundaryValueProblem
from riesz.fem.root import implicit_root, newton_guess
from riesz.priors.latent import Z
from riesz.problem.problem import Coordinates, InverseProblem

OVERSAMPLING = 10
"""Directions beyond those that are wanted, for the random start to hold all of them."""

Directions = Float[Array, "direction coordinate"]
FreeValues = Float[Array, " free"]
HessianVectorProduct = Callable[[Coordinates], Coordinates]


class Linearization(eqx.Module):
    """Coordinates, and all about them that actions of the Hessian meet again.

    Of an equation in time these are too many: there is nothing but coordinates, cost and gradient.
    """

    coordinates: Coordinates
    z: Z
    free_values: FreeValues
    adjoint: FreeValues
    jacobians: tuple[PreparedJacobian, ...]  # block by block
    cost: Float[Array, ""]  # minus the log-posterior, up to a constant
    gradient: Coordinates


def data_misfit(problem: InverseProblem, free_values: FreeValues, z: Z) -> Float[Array, ""]:
    """Minus the log-likelihood of a state."""
    states = [with_dirichlet(*one, z) for one in split_by_experiment(problem, free_values)]
    predicted = problem.predict(jnp.concatenate(states), z)
    return -problem.likelihood.log_prob(problem.observed, predicted, z)


def equation_residual(problem: InverseProblem, free_values: FreeValues, z: Z) -> FreeValues:
    """The residual, which vanishes at the solution."""
    each = split_by_experiment(problem, free_values)
    return jnp.concatenate(
        [free_residual(one, with_dirichlet(one, own, z), z) for one, own in each]
    )


def split_by_experiment(
    problem: InverseProblem, values: Float[Array, " every"]
) -> list[tuple[BoundaryValueProblem, FreeValues]]:
    """The equation of each experiment, and its part of the free values of all."""
    ends = np.cumsum([one.num_free for one in problem.forwards])[:-1].tolist()
    return list(zip(problem.forwards, jnp.split(values, ends), strict=True))


def solve_by_experiment(
    problem: InverseProblem,
    jacobians: tuple[PreparedJacobian, ...],
    side: FreeValues,
    solver: AbstractLinearSolver,
    *,
    transposed: bool,
) -> FreeValues:
    """Experiments know nothing of each other: their unknowns are solved for one by one."""
    each = zip(jacobians, split_by_experiment(problem, side), strict=True)
    return jnp.concatenate(
        [
            solver.raw_solve(matrix, own, transposed=transposed, prepared=prepared)
            for (matrix, prepared), (_, own) in each
        ]
    )


def solve_with_jacobian(
    forward: BoundaryValueProblem, z: Z, solver: AbstractLinearSolver
) -> tuple[FreeValues, PreparedJacobian]:
    """The solution, NaN where there is none, and the matrix there."""
    root = implicit_root((forward, z), solver, forward.newton, newton_guess(forward))
    values = jnp.where(root.solution.converged, root.solution.free_values, jnp.nan)
    return values, root.jacobian or prepare_jacobian(forward, z, values, solver)


@eqx.filter_jit
def linearize_at(
    problem: InverseProblem, coordinates: Coordinates, solver: AbstractLinearSolver
) -> Linearization:
    """The solution there, its adjoint, and the gradient; a NaN cost where there is no solution."""
    if problem.time is not None:
        misfit_of = partial(data_misfit_in_time, problem, solver=solver)
        cost, gradient = jax.value_and_grad(misfit_of)(coordinates)
        cost, nothing = cost + 0.5 * coordinates @ coordinates, jnp.zeros(0, gradient.dtype)
        return Linearization(coordinates, {}, nothing, nothing, (), cost, coordinates + gradient)
    z, pull_back = jax.vjp(problem.z, coordinates)
    each = [solve_with_jacobian(forward, z, solver) for forward in problem.forwards]
    values = jnp.concatenate([own for own, _ in each])
    jacobians = tuple(matrix for _, matrix in each)
    cost, (by_state, by_z) = jax.value_and_grad(data_misfit, argnums=(1, 2))(problem, values, z)
    adjoint = -solve_by_experiment(problem, jacobians, by_state, solver, transposed=True)
    _, through_state = jax.vjp(lambda own: equation_residual(problem, values, own), z)
    (gradient,) = pull_back(jax.tree.map(jnp.add, by_z, through_state(adjoint)[0]))
    cost = cost + 0.5 * coordinates @ coordinates
    return Linearization(coordinates, z, values, adjoint, jacobians, cost, coordinates + gradient)


def hessian_vector_product(
    problem: InverseProblem,
    at: Linearization,
    solver: AbstractLinearSolver,
    second: Float[Array, ""],
) -> HessianVectorProduct:
    """The data's part of the Hessian, as a function of directions.

    `second` is one; zero leaves second derivatives of the equation out, as Gauss and Newton did,
    which is never negative where noise is normal and known.
    """

    if problem.time is not None:
        return hessian_vector_product_in_time(problem, at.coordinates, solver, second)

    def lagrangian(values: FreeValues, z: Z) -> Float[Array, ""]:
        held = second * at.adjoint @ equation_residual(problem, values, z)
        return data_misfit(problem, values, z) + held

    _, moved = jax.linearize(problem.z, at.coordinates)
    moved_back = jax.linear_transpose(moved, at.coordinates)
    _, pushed = jax.linearize(lambda z: equation_residual(problem, at.free_values, z), at.z)
    pushed_back = jax.linear_transpose(pushed, at.z)
    (_, by_z), turned = jax.linearize(jax.grad(lagrangian, argnums=(0, 1)), at.free_values, at.z)
    # Vanishes where the unknowns are linear in their coordinates, and is then not computed.
    _, bent = jax.linearize(lambda own: jax.vjp(problem.z, own)[1](by_z)[0], at.coordinates)

    def product(direction: Coordinates) -> Coordinates:
        z = moved(direction)
        side = pushed(z)
        change = -solve_by_experiment(problem, at.jacobians, side, solver, transposed=False)
        by_state, by_z = turned(change, z)
        adjoint = -solve_by_experiment(problem, at.jacobians, by_state, solver, transposed=True)
        (through_state,) = pushed_back(adjoint)
        (back,) = moved_back(jax.tree.map(jnp.add, by_z, through_state))
        return back + bent(direction)

    return product


def data_misfit_in_time(
    problem: InverseProblem, coordinates: Coordinates, solver: AbstractLinearSolver
) -> Float[Array, ""]:
    """NaN where there is no solution."""
    return -problem.log_likelihood(coordinates, problem.solve(coordinates, solver))


def hessian_vector_product_in_time(
    problem: InverseProblem,
    coordinates: Coordinates,
    solver: AbstractLinearSolver,
    second: Float[Array, ""],
) -> HessianVectorProduct:
    """As `hessian_vector_product`, by derivatives through the time stepping.

    A direction goes forwards along the time axis, and what it changes in the data backwards. The
    state at all times, as one vector with one matrix, would be too large to be treated like a
    steady one; what stands in for it is the record that sensors make.
    """
    record, tangent = jax.linearize(lambda point: problem.solve(point, solver), coordinates)
    adjoint = jax.linear_transpose(tangent, coordinates)
    gradients = jax.grad(
        lambda point, record: -problem.log_likelihood(point, record), argnums=(0, 1)
    )
    _, gradient_tangents = jax.linearize(gradients, coordinates, record)

    def full(direction: Coordinates) -> Coordinates:
        # Forwards within, backwards outside: a loop that was turned around once has forgotten
        # what the derivatives of its steps are.
        misfit_of = partial(data_misfit_in_time, problem, solver=solver)

        def directional_derivative(point: Coordinates) -> Float[Array, ""]:
            return jax.jvp(misfit_of, (point,), (direction,))[1]

        return jax.grad(directional_derivative)(coordinates)

    def gauss_newton(direction: Coordinates) -> Coordinates:
        by_unknowns, by_record = gradient_tangents(direction, tangent(direction))
        return by_unknowns + adjoint(by_record)[0]

    def product(direction: Coordinates) -> Coordinates:
        return jax.lax.cond(jnp.all(second > 0), full, gauss_newton, direction)

    return product


@eqx.filter_jit
def hessian_vector_products(
    problem: InverseProblem,
    at: Linearization,
    solver: AbstractLinearSolver,
    directions: Directions,
    second: Float[Array, ""] | None = None,
) -> Directions:
    """The data's part of the Hessian times several directions: all of it, but for `second`."""
    second = jnp.ones((), directions.dtype) if second is None else second
    return map_in_parts(
        hessian_vector_product(problem, at, solver, second), directions, directions.shape[1]
    )


def leading_eigenpairs(
    action: Callable[[Directions], Directions], size: int, count: int, key: PRNGKeyArray
) -> tuple[Float[Array, " rank"], Float[Array, "coordinate rank"]]:
    """The eigenvalues of largest size of a symmetric operator, by a randomised double pass.

    Halko, Martinsson & Tropp (2011). `action` takes several directions at once.
    """
    rank = min(count + OVERSAMPLING, size)
    # Where directions are all there are, there is no subspace to be found.
    random = rank < size
    basis = orthonormal(action(jr.normal(key, (rank, size)))) if random else jnp.eye(size)
    return eigenpairs_within(basis, action(basis), min(count, rank))


@eqx.filter_jit
def orthonormal(directions: Directions) -> Directions:
    return jnp.linalg.qr(directions.T)[0].T


@eqx.filter_jit
def eigenpairs_within(
    basis: Directions, images: Directions, count: int
) -> tuple[Float[Array, " rank"], Float[Array, "coordinate rank"]]:
    """Of a symmetric operator in the span of an orthonormal basis, whose images are known."""
    inner = basis @ images.T
    values, rotation = jnp.linalg.eigh((inner + inner.T) / 2)
    leading = jnp.argsort(-jnp.abs(values))[:count]
    return values[leading], basis.T @ rotation[:, leading]
