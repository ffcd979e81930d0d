"""The mode of a posterior by Newton's method, each step solved for by conjugate gradients.

The prior's part of the Hessian is the identity, so that conjugate gradients need about as many
iterations as there are directions that the data tell of, on any mesh. This is truncated Newton-CG:
the inner loop stops where the curvature is not positive (Steihaug 1983, with a line search instead
of his trust region) or the forcing term of Eisenstat & Walker (1996) is reached.
"""

from collections.abc import Callable
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from riesz.engines.base import NO_CHECKPOINT, AbstractCheckpoint
from riesz.engines.laplace.hessian import Place, data_action, place_at
from riesz.errors import RieszError
from riesz.fem.linear.linear_solve import AbstractLinearSolver
from riesz.problem.problem import Coordinates, InverseProblem

SUFFICIENT = 1e-4
"""The part of the decrease that the slope promises which a step must reach (Armijo)."""

STAGE = "mode"
"""Its name in checkpoints."""

MAX_ITERATIONS = 200
"""Of conjugate gradients in a step."""


@dataclass(frozen=True)
class Search:
    """When to stop, and when second derivatives of the state begin to count."""

    max_steps: int
    gauss_newton_steps: int
    tolerance: float  # of the gradient, relative to the first one
    max_halvings: int


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
    settings: Search,
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
