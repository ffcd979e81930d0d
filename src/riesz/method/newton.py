r"""The maximum a posteriori (MAP) point by Newton's method, with conjugate gradients for each step.

The prior's part of the Hessian is the identity, so that conjugate gradients need about as many
iterations as there are directions that the data tell of, on any mesh. This is truncated Newton-CG:
the inner loop stops where the curvature is not positive (Steihaug 1983, with a line search instead
of his trust region) or what is left is small beside what was gained.

Distances are counted in posterior standard deviations. With gradient $g$ and Hessian $H$ the mode
is about $\lambda = (g^\top H^{-1} g)^{1/2}$ of them away, Newton's decrement. Conjugate gradients
add up $\lambda^2$ step by step, and since no eigenvalue of $H$ is below one where data tell
something, the square of their residual bounds what is missing in it.

The modes of a posterior are the ends of searches from several places. Two ends are two modes where
the way between them leads through a valley; ends on one ridge are one.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from riesz.errors import OutOfTimeError, RieszError
from riesz.method.base import TargetDensity, Work, mean_of, resolve_start
from riesz.method.settings import Count, CountOrZero, Settings, Share
from riesz.posterior.density import AbstractDensity, Linearization, linearize_at
from riesz.problem.problem import Coordinates
from riesz.progress import format_levels, progress_bar

SUFFICIENT = 1e-4
"""The part of the decrease that the gradient promises which a step must reach (Armijo)."""

ROUNDING = 10
"""Units of rounding error by which a cost may rise: close to the mode it hardly changes."""

FLAT = 10.0
"""Times the tolerance, the gradient at a mode if rounding allows: times how states bend, it is the
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
class MapSearch:
    """Where the search ended, and how it went: a row for each place whose surroundings it saw."""

    end: Linearization
    converged: bool
    history: dict[str, Float[np.ndarray, " step"]]
    is_cut: bool = False  # by the clock


class ConjugateGradientState(eqx.Module):
    """Where conjugate gradients stand."""

    solution: Coordinates
    residual: Coordinates
    direction: Coordinates
    square: Float[Array, ""]  # of the residual
    gained: Float[Array, ""]  # of the squared decrement
    number: Int[Array, ""]
    negative_curvature: Bool[Array, ""]  # no minimum along this direction


class NewtonStep(eqx.Module):
    """A direction of descent, and how far away the mode is, in posterior standard deviations."""

    direction: Coordinates
    decrement: Float[Array, ""]
    iterations: Int[Array, ""]


def search_origin(target: TargetDensity, start: Any, work: Work) -> Coordinates:
    """Where a search begins: as given, or in the middle of the prior.

    Where the log-density is not finite there, as where the equation has no solution, at the first
    draw of the prior with one. Most may lie in a tail: some are drawn wider.
    """
    density, begin = target.density, resolve_start(target, start, work)
    if begin is not None:  # of a distribution only the mean matters
        return mean_of(begin)
    origin = jnp.zeros(target.size)
    if bool(jnp.isfinite(linearize_at(density, origin).cost)):
        return origin
    count = int(np.clip(SECONDS_OF_DRAWS / density.seconds(), FEWEST_DRAWS, MOST_DRAWS))
    normals = jr.normal(jr.fold_in(jr.key(work.seed), count), (count, len(origin)), origin.dtype)
    for number, normal in enumerate(normals):
        drawn = WIDER[number % len(WIDER)] * normal
        if bool(jnp.isfinite(linearize_at(density, drawn).cost)):
            return drawn
    return origin  # the search says what is wrong there


def find_map(
    density: AbstractDensity,
    settings: SearchSettings,
    start: Coordinates,
    work: Work = Work(),  # noqa: B008 (immutable)
) -> MapSearch:
    """The mode near `start`, or how far the search has come by the deadline."""
    stored = work.checkpoint.restore(STAGE)
    begin, curves = (start, []) if stored is None else (stored["coordinates"], stored["curves"])
    converged, is_cut = False, False
    watched = partial(work.deadline.enforce, "in the search for the mode")
    with watched():
        at = jax.block_until_ready(linearize_at(density, begin))
    if not bool(jnp.isfinite(at.cost)):
        density.explain(start, "the search starts")
    with progress_bar(work.progress) as shown:
        task = shown.add_task("mode", total=settings.max_steps, terms="")
        for number in range(len(curves), settings.max_steps + 1):
            # Far from the mode exact steps are a waste, and within a standard deviation they pay.
            forcing = min(LOOSEST, np.sqrt(curves[-1]["decrement"])) if curves else LOOSEST
            with_second = number >= settings.gauss_newton_steps
            # Arrays of one type: for plain numbers another program would be compiled.
            numbers = jnp.asarray([forcing, settings.tolerance, with_second], at.gradient.dtype)
            try:
                with watched():
                    step = newton_step(density, at, *numbers)
                    row = {
                        "cost": float(at.cost),
                        "slope": float(jnp.linalg.norm(at.gradient)),
                        "decrement": float(step.decrement),
                        "iterations": float(step.iterations),
                    }
                    curves.append(row)
                    converged = row["decrement"] <= settings.tolerance
                    stuck = len(curves) > 1 and row["decrement"] > curves[-2]["decrement"] / 2
                    flat = stuck or row["slope"] <= FLAT * settings.tolerance
                    if (converged and flat) or number == settings.max_steps:
                        break
                    trial = line_search(density, at, step.direction, settings.max_halvings)
            except OutOfTimeError:
                if not curves:
                    raise
                is_cut = True
                break
            if trial is None:
                break
            at = trial
            work.checkpoint.keep(STAGE, {"coordinates": at.coordinates, "curves": list(curves)})
            shown.update(task, advance=1, terms=format_levels(row))
    history = {name: np.array([row[name] for row in curves]) for name in curves[0]}
    return MapSearch(at, converged, history, is_cut)


def line_search(
    density: AbstractDensity, at: Linearization, direction: Coordinates, max_halvings: int
) -> Linearization | None:
    """The longest of the steps 1, 1/2, 1/4, ... that lowers the cost enough; None if none does."""
    promised, here = float(at.gradient @ direction), float(at.cost)
    rounding = ROUNDING * np.finfo(float).eps * abs(here)
    for halvings in range(max_halvings + 1):
        length = 0.5**halvings
        trial = linearize_at(density, at.coordinates + length * direction)
        # False where the cost is NaN.
        if float(trial.cost) <= here + SUFFICIENT * length * promised + rounding:
            return trial
    return None


@eqx.filter_jit
def newton_step(
    density: AbstractDensity,
    at: Linearization,
    forcing: Float[Array, ""],
    tolerance: Float[Array, ""],
    second: Float[Array, ""],
) -> NewtonStep:
    """Solve Newton's equation until what is missing is a part `forcing` of what was gained.

    Or of `tolerance`, where nothing more is to be gained.
    """
    gradient = at.gradient
    product = density.hessian_vector_product(at, second)

    def is_running(it: ConjugateGradientState):
        goal = forcing**2 * jnp.maximum(it.gained, tolerance**2)
        return (it.square > goal) & (it.number < MAX_ITERATIONS) & ~it.negative_curvature

    def advance(it: ConjugateGradientState) -> ConjugateGradientState:
        image = it.direction + product(it.direction)
        curvature = it.direction @ image
        length = it.square / curvature
        residual = it.residual - length * image
        square = residual @ residual
        trial = ConjugateGradientState(
            solution=it.solution + length * it.direction,
            residual=residual,
            direction=residual + square / it.square * it.direction,
            square=square,
            gained=it.gained + length * it.square,
            number=it.number + 1,
            negative_curvature=jnp.zeros((), bool),
        )
        is_negative = ~(curvature > 0)
        stopped = eqx.tree_at(lambda i: i.negative_curvature, it, jnp.ones((), bool))
        return jax.tree.map(lambda a, b: jnp.where(is_negative, a, b), stopped, trial)

    begin = ConjugateGradientState(
        solution=jnp.zeros_like(gradient),
        residual=-gradient,
        direction=-gradient,
        square=gradient @ gradient,
        gained=jnp.zeros((), gradient.dtype),
        number=jnp.zeros((), jnp.int32),
        negative_curvature=jnp.zeros((), bool),
    )
    end = jax.lax.while_loop(is_running, advance, begin)
    # Negative curvature at once: the gradient itself still leads down.
    direction = jnp.where(end.number == 0, -gradient, end.solution)
    return NewtonStep(direction, jnp.sqrt(end.gained + end.square), end.number)


NUM_SEARCHES, MANY_SEARCHES, FEW = 6, 16, 32
"""Places that are searched from, and how many where there are up to 32 unknowns: with few, modes
may be so narrow that one search of twelve ends there, and a search costs little beside chains."""

SEARCH = SearchSettings(max_steps=30, tolerance=0.05)
"""Chains start around the ends: a twentieth of a standard deviation more or less is nothing."""

VALLEY = 3.0
"""How far the log-density falls between two modes, below the lower one."""

NUM_BETWEEN = 9
"""Places between two ends that are looked at."""

NEGLIGIBLE = 9.0
"""Modes with a smaller weight than the largest, by logarithms, are left out."""


def search_all(density: AbstractDensity, starts: list[Coordinates]) -> list[Linearization]:
    """Where searches end, the most likely first; a start without a density is passed over."""
    ends, refused = [], None
    for start in starts:
        try:
            ends.append(find_map(density, SEARCH, start).end)
        except RieszError as error:
            refused = error
    if not ends:
        assert refused is not None
        raise refused
    return sorted(ends, key=lambda end: float(end.cost))


def default_searches(num_coordinates: int) -> int:
    return MANY_SEARCHES if num_coordinates <= FEW else NUM_SEARCHES


def search_starts(origin: Coordinates, count: int, key: PRNGKeyArray) -> list[Coordinates]:
    """The middle, and draws of the prior in pairs of opposite sign: both sides are looked at."""
    half = jr.normal(key, ((count + 1) // 2, len(origin)))
    pairs = jnp.stack([half, -half], axis=1).reshape(-1, len(origin))
    return [origin, *pairs[: count - 1]]


def separate(density: AbstractDensity, ends: list[Linearization]) -> list[Linearization]:
    """One end for each mode."""
    modes: list[Linearization] = []
    for end in ends:
        if all(are_separated(density, mode, end) for mode in modes):
            modes.append(end)
    return modes


def are_separated(density: AbstractDensity, one: Linearization, other: Linearization) -> bool:
    """Whether the log-density falls between two ends."""
    highest = max(float(one.cost), float(other.cost)) + VALLEY
    for share in np.arange(1, NUM_BETWEEN + 1) / (NUM_BETWEEN + 1):
        between = (1 - share) * one.coordinates + share * other.coordinates
        cost = float(linearize_at(density, between).cost)
        if not cost <= highest:
            return True
    return False


def find_modes(
    density: AbstractDensity,
    origin: Coordinates,
    num_searches: int,
    key: PRNGKeyArray,
) -> list[Linearization]:
    """Where searches end, one place for each mode, the most likely first."""
    starts = search_starts(origin, num_searches, key)
    return separate(density, search_all(density, starts))
