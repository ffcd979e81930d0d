"""What a problem computes, in a few numbers by which two problems can be told apart.

Formulas have no name to compare: an equation may hold any function. So its parts are evaluated for
fixed coordinates and a fixed state, and of each result its norm and two products with fixed vectors
are kept. They are compared with a tolerance, since another machine rounds otherwise.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from riesz.arrays import on_device
from riesz.fem.assembly import dirichlet_values, residual
from riesz.fem.time.problem import at_time, initial_values, with_history
from riesz.fem.time.scheme import stage_times
from riesz.observe.observables import AtPoints
from riesz.prediction.quantity import UnknownAt
from riesz.problem.problem import Coordinates, InverseProblem

Numbers = list[list[float | None]]
"""A norm and two products for each result; nothing where it is not finite."""

TOLERANCE = {"float64": 1e-6, "float32": 1e-3}
"""Relative to the norm, by the precision of the problem; the looser where two differ."""

EQUATION, BOUNDARY, NOISE = "the equation", "the boundary values", "the noise"
OBSERVED, AXIS = "what is observed", "the time axis and the initial state"


def probe(problem: InverseProblem) -> dict[str, Numbers]:
    """The numbers of every part, each named as an error names it."""
    # The centre of the prior, and a place about one standard deviation from it in each coordinate.
    size = problem.num_coordinates
    state, dtype = smooth_state(problem.forward.space.points), problem.forward.dtype
    places = (np.zeros(size), 1.4 * fixed_vector(size, 0))
    result = [evaluate(problem, on_device(state, dtype), on_device(one, dtype)) for one in places]
    # In the order of the unknowns, which compiled functions do not keep.
    names = (*map(prior_of, problem.latents.names), EQUATION, BOUNDARY, NOISE, OBSERVED, AXIS)
    parts = [name for name in names if name in result[0]]
    return {part: [digest(flatten(r)) for one in result for r in one[part]] for part in parts}


def differing_parts(saved: Any, given: dict[str, Numbers], tolerance: float) -> list[str]:
    """Which parts do not agree.

    Where unknowns differ, so does all that is computed from them: then only they are named.
    """
    known = saved if isinstance(saved, dict) else {}
    differing = [p for p, numbers in given.items() if not agree(known.get(p), numbers, tolerance)]
    rest = (EQUATION, BOUNDARY, NOISE, OBSERVED, AXIS)
    return [part for part in differing if part not in rest] or differing


def probe_tolerance(*precisions: Any) -> float:
    """For problems in these precisions, by their names."""
    return max(TOLERANCE.get(str(one), TOLERANCE["float32"]) for one in precisions)


def prior_of(name: str) -> str:
    return f"the prior of {name!r}"


@eqx.filter_jit
def evaluate(
    problem: InverseProblem, state: Float[Array, " node"], coordinates: Coordinates
) -> dict[str, list[Float[Array, "..."]]]:
    """Unknowns, prescribed values, noise and residuals for these coordinates.

    In one program: one by one, each operation would be compiled by itself.
    """
    z, space = problem.z(coordinates), problem.forward.space
    prescribed, residuals, forwards, time = [], [], problem.forwards, problem.time
    if time is not None:  # at the end of the first step, after a state that is half as large
        first, then = jnp.asarray(time.axis.times[:2], state.dtype)
        z, rate = at_time(z, then), 1 / (then - first)
        forwards = (with_history(problem.forward, rate, rate * state / 2),)
    for forward in forwards:
        nowhere = jnp.zeros(space.num_dofs, state.dtype)
        prescribed += [
            nowhere.at[forward.fixed].set(1.0),
            nowhere.at[forward.fixed].set(dirichlet_values(forward, z)),
        ]
        # At zero is nothing but the sources, which are small beside the rest on a fine mesh.
        residuals += [residual(forward, u, z) for u in (jnp.zeros_like(state), state)]
    unknowns = {
        prior_of(name): [UnknownAt(name)(problem, state, z)] for name in problem.latents.names
    }
    whole = jnp.tile(state, len(problem.forwards))
    if time is not None:
        whole = jnp.asarray(fixed_vector(time.num_recorded, 0), state.dtype)
    return unknowns | {
        EQUATION: residuals,
        BOUNDARY: prescribed,
        NOISE: noise_numbers(problem, whole, z),
        **sensor_numbers(problem, whole, z),
    }


def sensor_numbers(
    problem: InverseProblem, state: Float[Array, " node"], z: dict[str, Any]
) -> dict[str, list[Float[Array, "..."]]]:
    """What sensors see of a fixed state; of values at points, the points are compared.

    In time, of a fixed record, with the axis and the state to begin with.
    """
    time = problem.time
    if time is not None:
        initial = [] if time.initial is None else [initial_values(time.initial, z)]
        axis = stage_times(jnp.asarray(time.axis.times, state.dtype), time.scheme)
        return {OBSERVED: [problem.predict(state, z)], AXIS: [axis, *initial]}
    if isinstance(problem.observations.what, AtPoints):
        return {}
    return {OBSERVED: [problem.predict(state, z)]}


def noise_numbers(
    problem: InverseProblem, state: Float[Array, " node"], z: dict[str, Any]
) -> list[Float[Array, "..."]]:
    """Its scale, and its density some scales off, which shows its shape.

    Where what is observed is no linear function of the state, or no sum with noise, it is that of
    a fixed state, which shows what is observed too.
    """
    if problem.linear is None or not problem.likelihood.is_additive:
        predicted = problem.predict(state, z)
        sd = problem.likelihood.noise_sd(predicted, z)
    else:
        sd = problem.noise_sd(z)
        offsets = jnp.asarray(2 * fixed_vector(len(problem.observed), 0), state.dtype)
        predicted = problem.observed + sd * offsets
    density = problem.likelihood.distribution(predicted, z).log_prob(problem.observed)
    return [sd, jnp.asarray(density)]


def flatten(values: Float[Array, "..."]) -> Float[np.ndarray, " _"]:
    return np.asarray(values, float).ravel()


def fixed_vector(size: int, which: int) -> Float[np.ndarray, " size"]:
    """The same on every machine: waves of growing frequency."""
    place = np.arange(1.0, size + 1)
    return np.cos((0.6180339887 + 0.1 * which) * place * np.sqrt(place))


def smooth_state(points: Float[np.ndarray, "dof dim"]) -> Float[np.ndarray, " dof"]:
    """Waves across the domain, positive everywhere, since some coefficients ask for it.

    Among neighbours that differ wildly, diffusion would drown all other terms on a fine mesh.
    """
    low, extent = points.min(axis=0), np.ptp(points, axis=0)
    across = (points - low) / extent
    return 1.5 + np.mean(np.sin(across * (2.0 + np.arange(points.shape[1]))), axis=1)


def digest(result: Float[np.ndarray, " _"]) -> list[float | None]:
    """A norm and two products, all of the size of one entry."""
    if not np.isfinite(result).all():
        return [None, None, None]
    root = np.sqrt(len(result))
    products = [result @ fixed_vector(len(result), which) for which in (0, 1)]
    return [float(number / root) for number in (np.linalg.norm(result), *products)]


def agree(saved: Any, given: Numbers, tolerance: float) -> bool:
    """Whether two lists of numbers are the same but for rounding."""
    wanted = digest_rows(given)
    try:
        result = digest_rows(saved)
    except (TypeError, ValueError, OverflowError):
        return False
    if result.shape != wanted.shape or not np.array_equal(np.isnan(result), np.isnan(wanted)):
        return False
    result, wanted = np.nan_to_num(result), np.nan_to_num(wanted)
    # What cancels to nearly nothing is compared with the largest result of the part.
    norms = wanted[:, :1] + 1e-6 * wanted[:, 0].max()
    return bool((np.abs(result - wanted) <= tolerance * norms).all())


def digest_rows(numbers: Any) -> Float[np.ndarray, "result 3"]:
    return np.array(numbers, dtype=float).reshape(-1, 3)
