"""Where chains and searches start, and which mass chains move with."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from riesz.engines.base import AbstractEngine
from riesz.errors import RieszError
from riesz.posterior.family import EmpiricalDraws
from riesz.posterior.posterior import Posterior
from riesz.problem.problem import Coordinates, InverseProblem

InverseMass = Float[Array, "coordinate coordinate"] | Float[Array, " coordinate"]
"""All of a matrix, or its diagonal."""


def started(problem: InverseProblem, start: Any, *, seed: int, progress: bool) -> Any:
    """Coordinates or a posterior: where an engine was given, its posterior."""
    if not isinstance(start, AbstractEngine):
        return start
    start.check(problem)
    return start.run(problem, seed=seed, progress=progress)


def origin_of(problem: InverseProblem, start: Any, *, seed: int, progress: bool) -> Coordinates:
    """Where a search starts."""
    found = started(problem, start, seed=seed, progress=progress)
    return beginning(problem, found, dense=False)[0]


def beginning(
    problem: InverseProblem, start: ArrayLike | Posterior | None, *, dense: bool
) -> tuple[Coordinates, InverseMass | None]:
    """Where chains start, and their inverse mass where it is known."""
    if not isinstance(start, Posterior):
        origin = jnp.zeros(problem.num_coordinates) if start is None else jnp.asarray(start)
        check_shape(problem, origin)
        return origin, None
    origin, covariance = start.coordinate_mean(), start.coordinate_covariance()
    check_shape(problem, origin)
    if not dense:
        return origin, jnp.diagonal(covariance)
    if isinstance(start.distribution, EmpiricalDraws):
        covariance = steadied(covariance, start.distribution.num_draws)
    return origin, covariance


def steadied(covariance: Float[Array, "n n"], num_draws: int) -> Float[Array, "n n"]:
    """A covariance of few draws with its correlations made smaller.

    By the share that the unknowns have in unknowns and draws: of few draws most of them are chance,
    and directions in which none of the draws went would get no variance at all.
    """
    share = len(covariance) / (len(covariance) + num_draws)
    return (1 - share) * covariance + share * jnp.diag(jnp.diagonal(covariance))


def check_shape(problem: InverseProblem, start: Float[Array, "..."]) -> None:
    if start.shape != (problem.num_coordinates,):
        raise RieszError(
            f"start has shape {start.shape}, but the problem has {problem.num_coordinates} "
            "coordinates."
        )
