"""Iterations that a preconditioner speeds up, in their flexible forms: it may be inexact."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

Vector = Float[Array, " size"]
Operator = Callable[[Vector], Vector]


MOST_KEPT = 40
"""Directions that conjugate residuals remember: two vectors each."""


class Outcome(eqx.Module):
    """Where an iteration ended."""

    solution: Vector
    iterations: Int[Array, ""]
    relative_residual: Float[Array, ""]  # as the iteration knows it


class Measures(NamedTuple):
    """Products and sizes of vectors, which several devices may hold together."""

    dot: Callable[[Vector, Vector], Float[Array, ""]] = jnp.vdot
    norm: Callable[[Vector], Float[Array, ""]] = jnp.linalg.norm


PLAIN = Measures()


def iterated(
    advance: Callable[[Any], Any],
    begin: Any,
    side: Vector,
    tolerance: float,
    max_steps: int,
    measures: Measures = PLAIN,
) -> Outcome:
    """From one state to the next until its residual is small beside the right-hand side."""
    norm = measures.norm
    size = norm(side)

    def unfinished(at: Any):
        return (norm(at.residual) > tolerance * size) & (at.step < max_steps)

    end = jax.lax.while_loop(unfinished, advance, begin)
    left = jnp.where(size > 0, norm(end.residual) / size, 0.0)
    return Outcome(end.solution, end.step, left)


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
    side: Vector,
    tolerance: float,
    max_steps: int,
    measures: Measures = PLAIN,
) -> Outcome:
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

    zeros, zero = jnp.zeros_like(side), jnp.zeros((), side.dtype)
    begin = Search(zeros, side, zeros, zeros, zero, zero + 1, jnp.zeros((), jnp.int32))
    return iterated(advance, begin, side, tolerance, max_steps, measures)


class Basis(NamedTuple):
    solution: Vector
    residual: Vector
    directions: Float[Array, "kept size"]
    images: Float[Array, "kept size"]  # orthonormal
    step: Int[Array, ""]


def conjugate_residuals(
    product: Operator,
    precondition: Operator,
    side: Vector,
    tolerance: float,
    max_steps: int,
) -> Outcome:
    """Generalised conjugate residuals (Eisenstat, Elman & Schultz 1983), for any matrix.

    As GMRES does it finds the smallest residual among all combinations of the directions; the
    oldest are dropped when there are more than `MOST_KEPT`.
    """
    num_kept = min(MOST_KEPT, max_steps)

    def advance(at: Basis) -> Basis:
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
        return Basis(
            solution=at.solution + length * direction,
            residual=at.residual - length * image,
            directions=at.directions.at[place].set(direction),
            images=at.images.at[place].set(image),
            step=at.step + 1,
        )

    zeros = jnp.zeros((num_kept, len(side)), side.dtype)
    begin = Basis(jnp.zeros_like(side), side, zeros, zeros, jnp.zeros((), jnp.int32))
    return iterated(advance, begin, side, tolerance, max_steps)
