"""Iterations that a preconditioner speeds up, in their flexible forms: it may be inexact."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

Vector = Float[Array, " size"]
Operator = Callable[[Vector], Vector]


MOST_KEPT = 40
"""Directions that conjugate residuals remember: two vectors each."""

STEPS_BETWEEN_LOOKS = 15
"""After so many steps, each time, it is asked whether an iteration will end in time."""

FASTER = 2
"""By so many times the residual may fall faster in the steps that are left than in the last."""


class KrylovResult(eqx.Module):
    """Where an iteration ended."""

    solution: Vector
    iterations: Int[Array, ""]
    relative_residual: Float[Array, ""]  # as the iteration knows it


class Measures(NamedTuple):
    """Products and sizes of vectors, which several devices may hold together."""

    dot: Callable[[Vector, Vector], Float[Array, ""]] = jnp.vdot
    norm: Callable[[Vector], Float[Array, ""]] = jnp.linalg.norm


PLAIN = Measures()


class Progress(NamedTuple):
    """An iteration's state, and how its residual falls."""

    at: Any
    left: Float[Array, ""]  # the size of the residual
    before: Float[Array, ""]  # that at the last look
    hopeless: Bool[Array, ""]


def iterate_krylov(
    advance: Callable[[Any], Any],
    begin: Any,
    rhs: Vector,
    tolerance: float,
    max_steps: int,
    measures: Measures = PLAIN,
    *,
    gives_up: bool = False,
) -> KrylovResult:
    """From one state to the next until its residual is small beside the right-hand side.

    Where it `gives_up`, it ends as soon as `max_steps` steps will not do.
    """
    norm = measures.norm
    size = norm(rhs)

    def is_unfinished(now: Progress):
        is_short = (now.left > tolerance * size) & (now.at.step < max_steps)
        return is_short & ~now.hopeless

    def step(now: Progress) -> Progress:
        at = advance(now.at)
        left = norm(at.residual)
        if not gives_up:
            return Progress(at, left, now.before, now.hopeless)
        looks = at.step % STEPS_BETWEEN_LOOKS == 0
        ahead = FASTER / STEPS_BETWEEN_LOOKS * (max_steps - at.step).astype(left.dtype)
        hopeless = looks & (left * (left / now.before) ** ahead > tolerance * size)
        return Progress(at, left, jnp.where(looks, left, now.before), hopeless)

    begun = Progress(begin, norm(begin.residual), size, jnp.zeros((), bool))
    end = jax.lax.while_loop(is_unfinished, step, begun)
    return KrylovResult(end.at.solution, end.at.step, jnp.where(size > 0, end.left / size, 0.0))


class Search(NamedTuple):
    solution: Vector
    residual: Vector
    direction: Vector
    image: Vector  # of the direction
    length: Float[Array, ""]
    slope: Float[Array, ""]
    step: Int[Array, ""]


def conjugate_gradients(
    product: Operator,
    precondition: Operator,
    rhs: Vector,
    tolerance: float,
    max_steps: int,
    measures: Measures = PLAIN,
    *,
    gives_up: bool = False,
) -> KrylovResult:
    """Flexible conjugate gradients (Notay 2000), for symmetric positive matrices."""

    dot = measures.dot

    def advance(at: Search) -> Search:
        preconditioned = precondition(at.residual)
        # By the change of the residual, not the residual itself: what makes it flexible.
        turn = -at.length * dot(preconditioned, at.image) / at.slope
        slope = dot(at.residual, preconditioned)
        direction = preconditioned + turn * at.direction
        image = product(direction)
        length = slope / dot(direction, image)
        return Search(
            solution=at.solution + length * direction,
            residual=at.residual - length * image,
            direction=direction,
            image=image,
            length=length,
            slope=slope,
            step=at.step + 1,
        )

    zeros, zero = jnp.zeros_like(rhs), jnp.zeros((), rhs.dtype)
    begin = Search(zeros, rhs, zeros, zeros, zero, zero + 1, jnp.zeros((), jnp.int32))
    return iterate_krylov(advance, begin, rhs, tolerance, max_steps, measures, gives_up=gives_up)


class KrylovBasis(NamedTuple):
    solution: Vector
    residual: Vector
    directions: Float[Array, "kept size"]
    images: Float[Array, "kept size"]  # orthonormal
    step: Int[Array, ""]


def conjugate_residuals(
    product: Operator,
    precondition: Operator,
    rhs: Vector,
    tolerance: float,
    max_steps: int,
    *,
    gives_up: bool = False,
) -> KrylovResult:
    """Generalised conjugate residuals (Eisenstat, Elman & Schultz 1983), for any matrix.

    As GMRES does it finds the smallest residual among all combinations of the directions; the
    oldest are dropped when there are more than `MOST_KEPT`.
    """
    num_kept = min(MOST_KEPT, max_steps)

    def advance(at: KrylovBasis) -> KrylovBasis:
        direction = precondition(at.residual)
        image = product(direction)
        for _ in range(2):  # once leaves rounding errors of the size of what was cancelled
            overlaps = at.images @ image
            image = image - overlaps @ at.images
            direction = direction - overlaps @ at.directions
        norm = jnp.linalg.norm(image)
        image, direction = image / norm, direction / norm
        length = jnp.vdot(image, at.residual)
        place = at.step % num_kept
        return KrylovBasis(
            solution=at.solution + length * direction,
            residual=at.residual - length * image,
            directions=at.directions.at[place].set(direction),
            images=at.images.at[place].set(image),
            step=at.step + 1,
        )

    zeros = jnp.zeros((num_kept, len(rhs)), rhs.dtype)
    begin = KrylovBasis(jnp.zeros_like(rhs), rhs, zeros, zeros, jnp.zeros((), jnp.int32))
    return iterate_krylov(advance, begin, rhs, tolerance, max_steps, gives_up=gives_up)
