r"""The mode of a posterior by Newton's method, each step solved for by conjugate gradients.

The prior's part of the Hessian is the identity, so that conjugate gradients need about as many
iterations as there are directions that the data tell of, on any mesh. This is truncated Newton-CG:
the inner loop stops where the curvature is not positive (Steihaug 1983, with a line search instead
of his trust region) or what is left is small beside what was gained.

Distances are counted in posterior standard deviations. With slope $g$ and Hessian $H$ the mode is
about $\lambda = (g^\top H^{-1} g)^{1/2}$ of them away, Newton's decrement. Conjugate gradients add
up $\lambda^2$ step by step, and since no eigenvalue of $H$ is below one where data tell something,
the square of their residual bounds what is missing in it.

How the log-posterior bends: actions of its Hessian by one tangent and one adjoint solve.

With the state $u$, what the equation reads $z(\xi)$, the adjoint $p$ and the Lagrangian
$\mathcal L(u, z) = -\log p(y \mid u, z) + p \cdot r(u, z)$, a direction $\dot\xi$ moves $z$ by
$\dot z = z_\xi \dot\xi$, the state by $\dot u = -J^{-1} r_z \dot z$ and the adjoint by
$\dot p = -J^{-\top}(\mathcal L_{uu} \dot u + \mathcal L_{uz} \dot z)$. The data's part of the
Hessian is then $z_\xi^\top (\mathcal L_{zu} \dot u + \mathcal L_{zz} \dot z + r_z^\top \dot p)
+ \mathcal L_z z_{\xi\xi} \dot\xi$, the prior's the identity: few eigenvalues differ from one,
whatever the number of unknowns. All but $\dot\xi$ is the same for all directions at a place, and is
computed once.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from riesz.deadline import Deadline
from riesz.engines.base import Count, CountOrZero, Settings, Share, Work, origin_of
from riesz.engines.checkpoint import NO_CHECKPOINT, AbstractCheckpoint
from riesz.engines.laplace.in_time import action_in_time, cost_and_slope
from riesz.errors import OutOfTimeError
from riesz.fem.assembly import free_residual, with_dirichlet
from riesz.fem.default_solver import expected_seconds, mapped
from riesz.fem.linear.linear_solve import AbstractLinearSolver
from riesz.fem.newton import PreparedJacobian, prepared_jacobian
from riesz.fem.problem import BoundaryValueProblem
from riesz.fem.solve import first_guess, implicit_root
from riesz.latent.latent import Z
from riesz.problem.problem import Coordinates, InverseProblem

OVERSAMPLING = 10
"""Directions beyond those that are wanted, for the random start to hold all of them."""

Directions = Float[Array, "direction coordinate"]
FreeValues = Float[Array, " free"]
Action = Callable[[Coordinates], Coordinates]

SUFFICIENT = 1e-4
"""The part of the decrease that the slope promises which a step must reach (Armijo)."""

ROUNDING = 10
"""Units of rounding error by which a cost may rise: close to the mode it hardly changes."""

FLAT = 10.0
"""Times the tolerance, the slope at a mode if rounding allows: times how states bend, it is the
error of the Hessian, and large within a small part of a standard deviation if data are accurate."""

LOOSEST = 0.5
"""Newton's equation is solved at least so well."""

STAGE = "mode"
"""Its name in checkpoints."""

MAX_ITERATIONS = 200
"""Of conjugate gradients in a step."""

FEWEST_DRAWS, MOST_DRAWS, SECONDS_OF_DRAWS = 16, 256, 60.0
"""Of the prior, where a search might begin: how many, and how long they may take, roughly."""

WIDER = (1.0, 2.0, 3.0)
"""Times the prior's width, in turn."""


class Place(eqx.Module):
    """Coordinates, and all about them that actions of the Hessian meet again.

    Of an equation in time these are too many: there is nothing but coordinates, cost and slope.
    """

    coordinates: Coordinates
    z: Z
    free_values: FreeValues
    adjoint: FreeValues
    jacobians: tuple[PreparedJacobian, ...]  # block by block
    cost: Float[Array, ""]  # minus the log-posterior, up to a constant
    slope: Coordinates


def misfit(problem: InverseProblem, free_values: FreeValues, z: Z) -> Float[Array, ""]:
    """Minus the log-likelihood of a state."""
    states = [with_dirichlet(*one, z) for one in blocks(problem, free_values)]
    predicted = problem.predicted(jnp.concatenate(states), z)
    return -problem.likelihood.log_prob(problem.observed, predicted, z)


def equations(problem: InverseProblem, free_values: FreeValues, z: Z) -> FreeValues:
    """The residual, which vanishes at the solution."""
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
    jacobians: tuple[PreparedJacobian, ...],
    side: FreeValues,
    solver: AbstractLinearSolver,
    *,
    transposed: bool,
) -> FreeValues:
    """Experiments know nothing of each other: their unknowns are solved for one by one."""
    each = zip(jacobians, blocks(problem, side), strict=True)
    return jnp.concatenate(
        [
            solver.raw_solve(matrix, own, transposed=transposed, prepared=prepared)
            for (matrix, prepared), (_, own) in each
        ]
    )


def solved(
    forward: BoundaryValueProblem, z: Z, solver: AbstractLinearSolver
) -> tuple[FreeValues, PreparedJacobian]:
    """The solution, NaN where there is none, and the matrix there."""
    root = implicit_root((forward, z), solver, forward.newton, first_guess(forward))
    values = jnp.where(root.solution.converged, root.solution.free_values, jnp.nan)
    return values, root.jacobian or prepared_jacobian(forward, z, values, solver)


@eqx.filter_jit
def place_at(
    problem: InverseProblem, coordinates: Coordinates, solver: AbstractLinearSolver
) -> Place:
    """The solution there, its adjoint, and the slope; a NaN cost where there is no solution."""
    if problem.time is not None:
        cost, slope = cost_and_slope(problem, coordinates, solver)
        cost, nothing = cost + 0.5 * coordinates @ coordinates, jnp.zeros(0, slope.dtype)
        return Place(coordinates, {}, nothing, nothing, (), cost, coordinates + slope)
    z, pull_back = jax.vjp(problem.z, coordinates)
    each = [solved(forward, z, solver) for forward in problem.forwards]
    values = jnp.concatenate([own for own, _ in each])
    jacobians = tuple(matrix for _, matrix in each)
    cost, (by_state, by_z) = jax.value_and_grad(misfit, argnums=(1, 2))(problem, values, z)
    adjoint = -block_solve(problem, jacobians, by_state, solver, transposed=True)
    _, through_state = jax.vjp(lambda own: equations(problem, values, own), z)
    (slope,) = pull_back(jax.tree.map(jnp.add, by_z, through_state(adjoint)[0]))
    cost = cost + 0.5 * coordinates @ coordinates
    return Place(coordinates, z, values, adjoint, jacobians, cost, coordinates + slope)


def data_action(
    problem: InverseProblem, place: Place, solver: AbstractLinearSolver, second: Float[Array, ""]
) -> Action:
    """The data's part of the Hessian, as a function of directions.

    `second` is one; zero leaves second derivatives of the equation out, as Gauss and Newton did,
    which is never negative where noise is normal and known.
    """

    if problem.time is not None:
        return action_in_time(problem, place.coordinates, solver, second)

    def lagrangian(values: FreeValues, z: Z) -> Float[Array, ""]:
        held = second * place.adjoint @ equations(problem, values, z)
        return misfit(problem, values, z) + held

    _, moved = jax.linearize(problem.z, place.coordinates)
    moved_back = jax.linear_transpose(moved, place.coordinates)
    _, pushed = jax.linearize(lambda z: equations(problem, place.free_values, z), place.z)
    pushed_back = jax.linear_transpose(pushed, place.z)
    (_, by_z), turned = jax.linearize(
        jax.grad(lagrangian, argnums=(0, 1)), place.free_values, place.z
    )
    # Vanishes where the unknowns are linear in their coordinates, and is then not computed.
    _, bent = jax.linearize(lambda own: jax.vjp(problem.z, own)[1](by_z)[0], place.coordinates)

    def action(direction: Coordinates) -> Coordinates:
        z = moved(direction)
        side = pushed(z)
        change = -block_solve(problem, place.jacobians, side, solver, transposed=False)
        by_state, by_z = turned(change, z)
        adjoint = -block_solve(problem, place.jacobians, by_state, solver, transposed=True)
        (through_state,) = pushed_back(adjoint)
        (back,) = moved_back(jax.tree.map(jnp.add, by_z, through_state))
        return back + bent(direction)

    return action


@eqx.filter_jit
def data_actions(
    problem: InverseProblem,
    place: Place,
    solver: AbstractLinearSolver,
    directions: Directions,
    second: Float[Array, ""] | None = None,
) -> Directions:
    """The data's part of the Hessian times several directions: all of it, but for `second`."""
    second = jnp.ones((), directions.dtype) if second is None else second
    return mapped(data_action(problem, place, solver, second), directions, directions.shape[1])


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
    kept = jnp.argsort(-jnp.abs(values))[:count]
    return values[kept], basis.T @ rotation[:, kept]


class SearchSettings(Settings):
    """When to stop, and when second derivatives of the state begin to count."""

    max_steps: Count = 50
    gauss_newton_steps: CountOrZero = 5
    tolerance: Share = 1e-3  # posterior standard deviations from the mode
    max_halvings: Count = 20


@dataclass(frozen=True)
class Mode:
    """Where the search ended, and how it went: a row for each place whose surroundings it saw."""

    place: Place
    converged: bool
    history: dict[str, Float[np.ndarray, " step"]]
    is_cut: bool = False  # by the clock


class Iterate(eqx.Module):
    """Where conjugate gradients stand."""

    solution: Coordinates
    residual: Coordinates
    direction: Coordinates
    square: Float[Array, ""]  # of the residual
    gained: Float[Array, ""]  # of the squared decrement
    number: Int[Array, ""]
    bent: Bool[Array, ""]  # upwards: no minimum along this direction


class Step(eqx.Module):
    """A direction of descent, and how far away the mode is, in posterior standard deviations."""

    direction: Coordinates
    decrement: Float[Array, ""]
    iterations: Int[Array, ""]


def search_origin(
    problem: InverseProblem, solver: AbstractLinearSolver, start: Any, work: Work
) -> Coordinates:
    """Where a search begins: as given, or in the middle of the prior.

    Where the log-density is not finite there, as where the equation has no solution, at the first
    draw of the prior with one. Most may lie in a tail: some are drawn wider.
    """
    origin = origin_of(problem, start, work)
    if start is not None or bool(jnp.isfinite(place_at(problem, origin, solver).cost)):
        return origin
    solve = problem.num_solves * expected_seconds(problem.forward, solver)
    count = int(np.clip(SECONDS_OF_DRAWS / solve, FEWEST_DRAWS, MOST_DRAWS))
    normals = jr.normal(jr.fold_in(jr.key(work.seed), count), (count, len(origin)), origin.dtype)
    for number, normal in enumerate(normals):
        drawn = WIDER[number % len(WIDER)] * normal
        if bool(jnp.isfinite(place_at(problem, drawn, solver).cost)):
            return drawn
    return origin  # the search says what is wrong there


def most_likely(
    problem: InverseProblem,
    solver: AbstractLinearSolver,
    settings: SearchSettings,
    start: Coordinates,
    told: Callable[[dict[str, float]], None],
    checkpoint: AbstractCheckpoint = NO_CHECKPOINT,
    deadline: Deadline = Deadline(),  # noqa: B008 (immutable)
) -> Mode:
    """The mode near `start`, or how far the search has come by the deadline."""
    kept = checkpoint.stored(STAGE)
    begin, curves = (start, []) if kept is None else (kept["coordinates"], kept["curves"])
    converged, is_cut, watched = False, False, partial(deadline.kept, "in the search for the mode")
    with watched():
        place = jax.block_until_ready(place_at(problem, begin, solver))
    if not bool(jnp.isfinite(place.cost)):
        problem.explain(start, "the search starts")
    for number in range(len(curves), settings.max_steps + 1):
        # Far from the mode exact steps are a waste, and within a standard deviation they pay.
        forcing = min(LOOSEST, np.sqrt(curves[-1]["decrement"])) if curves else LOOSEST
        with_second = number >= settings.gauss_newton_steps
        # Arrays of one type: for plain numbers another program would be compiled.
        numbers = jnp.asarray([forcing, settings.tolerance, with_second], place.slope.dtype)
        try:
            with watched():
                step = newton_step(problem, place, solver, *numbers)
                row = {
                    "cost": float(place.cost),
                    "slope": float(jnp.linalg.norm(place.slope)),
                    "decrement": float(step.decrement),
                    "iterations": float(step.iterations),
                }
                curves.append(row)
                converged = row["decrement"] <= settings.tolerance
                stuck = len(curves) > 1 and row["decrement"] > curves[-2]["decrement"] / 2
                flat = stuck or row["slope"] <= FLAT * settings.tolerance
                if (converged and flat) or number == settings.max_steps:
                    break
                moved = line_search(problem, solver, place, step.direction, settings.max_halvings)
        except OutOfTimeError:
            if not curves:
                raise
            is_cut = True
            break
        if moved is None:
            break
        place = moved
        checkpoint.keep(STAGE, {"coordinates": place.coordinates, "curves": list(curves)})
        told(row)
    history = {name: np.array([one[name] for one in curves]) for name in curves[0]}
    return Mode(place, converged, history, is_cut)


def line_search(
    problem: InverseProblem,
    solver: AbstractLinearSolver,
    place: Place,
    direction: Coordinates,
    max_halvings: int,
) -> Place | None:
    """The longest of the steps 1, 1/2, 1/4, ... that lowers the cost enough; None if none does."""
    promised, here = float(place.slope @ direction), float(place.cost)
    rounding = ROUNDING * np.finfo(float).eps * abs(here)
    for halvings in range(max_halvings + 1):
        length = 0.5**halvings
        trial = place_at(problem, place.coordinates + length * direction, solver)
        # False where the cost is NaN.
        if float(trial.cost) <= here + SUFFICIENT * length * promised + rounding:
            return trial
    return None


@eqx.filter_jit
def newton_step(
    problem: InverseProblem,
    place: Place,
    solver: AbstractLinearSolver,
    forcing: Float[Array, ""],
    tolerance: Float[Array, ""],
    second: Float[Array, ""],
) -> Step:
    """Solve Newton's equation until what is missing is a part `forcing` of what was gained.

    Or of `tolerance`, where nothing more is to be gained.
    """
    slope = place.slope
    action = data_action(problem, place, solver, second)

    def unfinished(it: Iterate):
        goal = forcing**2 * jnp.maximum(it.gained, tolerance**2)
        return (it.square > goal) & (it.number < MAX_ITERATIONS) & ~it.bent

    def advance(it: Iterate) -> Iterate:
        image = it.direction + action(it.direction)
        curvature = it.direction @ image
        length = it.square / curvature
        residual = it.residual - length * image
        square = residual @ residual
        moved = Iterate(
            solution=it.solution + length * it.direction,
            residual=residual,
            direction=residual + square / it.square * it.direction,
            square=square,
            gained=it.gained + length * it.square,
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
        gained=jnp.zeros((), slope.dtype),
        number=jnp.zeros((), jnp.int32),
        bent=jnp.zeros((), bool),
    )
    end = jax.lax.while_loop(unfinished, advance, begin)
    # Bent upwards at once: the slope itself still leads down.
    direction = jnp.where(end.number == 0, -slope, end.solution)
    return Step(direction, jnp.sqrt(end.gained + end.square), end.number)
