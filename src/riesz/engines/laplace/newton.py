r"""The maximum a posteriori (MAP) point by Newton's method, with conjugate gradients for each step.

The prior's part of the Hessian is the identity, so that conjugate gradients need about as many
iterations as there are directions that the data tell of, on any mesh. This is truncated Newton-CG:
the inner loop stops where the curvature is not positive (Steihaug 1983, with a line search instead
of his trust region) or what is left is small beside what was gained.

Distances are counted in posterior standard deviations. With gradient $g$ and Hessian $H$ the mode
is about $\lambda = (g^\top H^{-1} g)^{1/2}$ of them away, Newton's decrement. Conjugate gradients
add up $\lambda^2$ step by step, and since no eigenvalue of $H$ is below one where data tell
something, the square of their residual bounds what is missing in it.
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
from jaxtyping import Array, Bool, Float, Int

from riesz.deadline import Deadline
from riesz.engines.base import Count, CountOrZero, Settings, Share, Work, origin_of
from riesz.engines.checkpoint import NO_CHECKPOINT, AbstractCheckpoint
from riesz.engines.laplace.hessian import Place, data_action, place_at
from riesz.errors import OutOfTimeError
from riesz.fem.choice import expected_seconds
from riesz.fem.linear.linear_solve import AbstractLinearSolver
from riesz.problem.problem import Coordinates, InverseProblem

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
