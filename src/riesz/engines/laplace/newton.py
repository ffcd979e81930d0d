r"""The mode of a posterior by Newton's method, each step solved for by conjugate gradients.

The prior's part of the Hessian is the identity, so that conjugate gradients need about as many
iterations as there are directions that the data tell of, on any mesh. This is truncated Newton-CG:
the inner loop stops where the curvature is not positive (Steihaug 1983, with a line search instead
of his trust region) or the forcing term of Eisenstat & Walker (1996) is reached.

How the log-posterior bends: actions of its Hessian by one tangent and one adjoint solve.

With the state $u$ of the unknowns $\xi$, the adjoint $p$ and the Lagrangian
$\mathcal L(u, \xi) = -\log p(y \mid u, \xi) + p \cdot r(u, \xi)$, a direction $\dot\xi$ moves the
state by $\dot u = -J^{-1} r_\xi \dot\xi$ and the adjoint by
$\dot p = -J^{-\top}(\mathcal L_{uu} \dot u + \mathcal L_{u\xi} \dot\xi)$. The data's part of the
Hessian is then $\mathcal L_{\xi u} \dot u + \mathcal L_{\xi\xi} \dot\xi + r_\xi^\top \dot p$, the
prior's the identity: few eigenvalues differ from one, whatever the number of unknowns.
"""

from collections.abc import Callable
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from riesz.engines.base import (
    NO_CHECKPOINT,
    AbstractCheckpoint,
    Count,
    CountOrZero,
    Settings,
    Share,
)
from riesz.errors import RieszError
from riesz.fem.assembly import free_residual, jacobian, with_dirichlet
from riesz.fem.linear.linear_solve import AbstractLinearSolver
from riesz.fem.linear.sparse import SparseMatrix
from riesz.fem.problem import BoundaryValueProblem
from riesz.problem.problem import Coordinates, InverseProblem

OVERSAMPLING = 10
"""Directions beyond those that are wanted, for the random start to hold all of them."""

Directions = Float[Array, "direction coordinate"]
FreeValues = Float[Array, " free"]

SUFFICIENT = 1e-4
"""The part of the decrease that the slope promises which a step must reach (Armijo)."""

STAGE = "mode"
"""Its name in checkpoints."""

MAX_ITERATIONS = 200
"""Of conjugate gradients in a step."""


class Place(eqx.Module):
    """Coordinates, and all about them that actions of the Hessian meet again."""

    coordinates: Coordinates
    free_values: FreeValues
    adjoint: FreeValues
    matrices: tuple[SparseMatrix, ...]  # J, block by block
    cost: Float[Array, ""]  # minus the log-posterior, up to a constant
    slope: Coordinates


def misfit(
    problem: InverseProblem, free_values: FreeValues, coordinates: Coordinates
) -> Float[Array, ""]:
    """Minus the log-likelihood of a state."""
    z = problem.z(coordinates)
    states = [with_dirichlet(*one, z) for one in blocks(problem, free_values)]
    return -problem.log_likelihood(coordinates, jnp.concatenate(states))


def equations(
    problem: InverseProblem, free_values: FreeValues, coordinates: Coordinates
) -> FreeValues:
    """The residual, which vanishes at the solution."""
    z = problem.z(coordinates)
    each = blocks(problem, free_values)
    return jnp.concatenate(
        [free_residual(one, with_dirichlet(one, own, z), z) for one, own in each]
    )


def blocks(
    problem: InverseProblem, values: Float[Array, " every"]
) -> list[tuple[BoundaryValueProblem, FreeValues]]:
    """The equation of each experiment, and its part of the free values of all."""
    ends = np.cumsum([one.num_free for one in problem.forwards])[:-1].tolist()
    return list(zip(problem.forwards, jnp.split(values, ends), strict=True))


def block_solve(
    problem: InverseProblem,
    matrices: tuple[SparseMatrix, ...],
    side: FreeValues,
    solver: AbstractLinearSolver,
    *,
    transposed: bool,
) -> FreeValues:
    """Experiments know nothing of each other: their unknowns are solved for one by one."""
    each = zip(matrices, blocks(problem, side), strict=True)
    return jnp.concatenate(
        [solver.raw_solve(matrix, own, transposed=transposed) for matrix, (_, own) in each]
    )


@eqx.filter_jit
def place_at(
    problem: InverseProblem, coordinates: Coordinates, solver: AbstractLinearSolver
) -> Place:
    """The solution there, its adjoint, and the slope; a NaN cost where there is no solution."""
    z, forwards = problem.z(coordinates), problem.forwards
    states = problem.states(problem.solved(coordinates, solver))
    each = list(zip(forwards, states, strict=True))
    values = jnp.concatenate([state[forward.free] for forward, state in each])
    matrices = tuple(jacobian(forward, state, z) for forward, state in each)
    cost, (by_state, by_coordinates) = jax.value_and_grad(misfit, argnums=(1, 2))(
        problem, values, coordinates
    )
    adjoint = -block_solve(problem, matrices, by_state, solver, transposed=True)
    _, pull_back = jax.vjp(lambda c: equations(problem, values, c), coordinates)
    slope = coordinates + by_coordinates + pull_back(adjoint)[0]
    cost = cost + 0.5 * coordinates @ coordinates
    return Place(coordinates, values, adjoint, matrices, cost, slope)


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
    change = -block_solve(problem, place.matrices, push, solver, transposed=False)
    _, (by_state, by_coordinates) = jax.jvp(
        jax.grad(lagrangian, argnums=(0, 1)), at, (change, direction)
    )
    adjoint_change = -block_solve(problem, place.matrices, by_state, solver, transposed=True)
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


class SearchSettings(Settings):
    """When to stop, and when second derivatives of the state begin to count."""

    max_steps: Count = 50
    gauss_newton_steps: CountOrZero = 5
    tolerance: Share = 1e-6  # of the gradient, relative to the first one
    max_halvings: Count = 20


@dataclass(frozen=True)
class Mode:
    """Where the search ended, and how it went."""

    place: Place
    converged: bool
    history: dict[str, Float[np.ndarray, " step"]]


class Iterate(eqx.Module):
    """Where conjugate gradients stand."""

    solution: Coordinates
    residual: Coordinates
    direction: Coordinates
    square: Float[Array, ""]  # of the residual
    number: Int[Array, ""]
    bent: Bool[Array, ""]  # upwards: no minimum along this direction


def most_likely(
    problem: InverseProblem,
    solver: AbstractLinearSolver,
    settings: SearchSettings,
    start: Coordinates,
    told: Callable[[dict[str, float]], None],
    checkpoint: AbstractCheckpoint = NO_CHECKPOINT,
) -> Mode:
    """The mode near `start`."""
    place, curves = place_at(problem, start, solver), []
    if not bool(jnp.isfinite(place.cost)):
        problem.state(start)  # says what is wrong where it is the solve
        raise RieszError(
            "the log-density is not finite where the search starts: look for noise of zero or "
            "observations far outside their likelihood, or pass start=..."
        )
    first = size = float(jnp.linalg.norm(place.slope))
    kept = checkpoint.stored(STAGE)
    if kept is not None:
        place, curves = place_at(problem, kept["coordinates"], solver), kept["curves"]
        size = float(jnp.linalg.norm(place.slope))
    for number in range(len(curves), settings.max_steps):
        if size <= settings.tolerance * first:
            break
        # Eisenstat and Walker's rule: far from the mode, exact steps are a waste.
        forcing = jnp.asarray(min(0.5, np.sqrt(size / first)))
        second = jnp.asarray(float(number >= settings.gauss_newton_steps))
        direction, iterations = newton_direction(problem, place, solver, forcing, second)
        moved = line_search(problem, solver, place, direction, settings.max_halvings)
        if moved is None:
            break
        place = moved
        size = float(jnp.linalg.norm(place.slope))
        curves.append({"cost": float(place.cost), "slope": size, "iterations": float(iterations)})
        checkpoint.keep(STAGE, {"coordinates": place.coordinates, "curves": list(curves)})
        told(curves[-1])
    names = ("cost", "slope", "iterations")
    history = {name: np.array([one[name] for one in curves]) for name in names}
    return Mode(place, size <= settings.tolerance * first, history)


def line_search(
    problem: InverseProblem,
    solver: AbstractLinearSolver,
    place: Place,
    direction: Coordinates,
    max_halvings: int,
) -> Place | None:
    """The longest of the steps 1, 1/2, 1/4, ... that lowers the cost enough; None if none does."""
    promised = float(place.slope @ direction)
    for halvings in range(max_halvings + 1):
        length = 0.5**halvings
        trial = place_at(problem, place.coordinates + length * direction, solver)
        # False where the cost is NaN.
        if float(trial.cost) <= float(place.cost) + SUFFICIENT * length * promised:
            return trial
    return None


@eqx.filter_jit
def newton_direction(
    problem: InverseProblem,
    place: Place,
    solver: AbstractLinearSolver,
    forcing: Float[Array, ""],
    second: Float[Array, ""],
) -> tuple[Coordinates, Int[Array, ""]]:
    """A direction of descent that solves Newton's equation to a relative accuracy `forcing`."""
    slope = place.slope
    goal = (forcing * jnp.linalg.norm(slope)) ** 2

    def unfinished(it: Iterate):
        return (it.square > goal) & (it.number < MAX_ITERATIONS) & ~it.bent

    def advance(it: Iterate) -> Iterate:
        image = it.direction + data_action(problem, place, solver, second, it.direction)
        curvature = it.direction @ image
        length = it.square / curvature
        residual = it.residual - length * image
        square = residual @ residual
        moved = Iterate(
            solution=it.solution + length * it.direction,
            residual=residual,
            direction=residual + square / it.square * it.direction,
            square=square,
            number=it.number + 1,
            bent=jnp.zeros((), bool),
        )
        bent = ~(curvature > 0)
        stopped = eqx.tree_at(lambda i: i.bent, it, jnp.ones((), bool))
        return jax.tree.map(lambda a, b: jnp.where(bent, a, b), stopped, moved)

    begin = Iterate(
        solution=jnp.zeros_like(slope),
        residual=-slope,
        direction=-slope,
        square=slope @ slope,
        number=jnp.zeros((), jnp.int32),
        bent=jnp.zeros((), bool),
    )
    end = jax.lax.while_loop(unfinished, advance, begin)
    # Bent upwards at once: the slope itself still leads down.
    return jnp.where(end.number == 0, -slope, end.solution), end.number
