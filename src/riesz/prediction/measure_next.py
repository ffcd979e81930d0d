"""Where to measure next under a posterior: `rz.measure_next`."""

import dataclasses

import numpy as np
from numpy.typing import ArrayLike

from riesz.arrays import on_device
from riesz.mesh.grids import Grid
from riesz.mesh.location import locate
from riesz.observe.effects import design_elsewhere
from riesz.posterior.family import AbstractGaussian, EmpiricalDraws
from riesz.posterior.posterior import ExactStates, Posterior
from riesz.prediction.drawing import posterior_draws
from riesz.prediction.next_draws import STATE, candidates_at, rank_places, target
from riesz.prediction.next_places import NextPlaces
from riesz.prediction.statistics import NUM_DRAWS
from riesz.problem.linearity import affine_beside_the_equation, affine_coordinates, by_equation


def measure_next(
    posterior: Posterior,
    quantity: str = STATE,
    candidates: ArrayLike | Grid | None = None,
    *,
    count: int = 1,
    noise: float | None = None,
    design: ArrayLike | None = None,
    num_draws: int = NUM_DRAWS,
    seed: int = 0,
) -> NextPlaces:
    """What one further measurement would tell of a quantity, at each candidate, and the best.

    The quantity is "u", an unknown's name, "budget:TERM" or "exceed:VALUE"; candidates are points,
    one a row, a grid, or the nodes of the mesh. A measurement is of the kind that was fitted, or
    has normal `noise` of this sd. With a larger `count` places are chosen one after the other, each
    given those before it.

    No refit is made: where the posterior is normal and the state linear in the unknowns, formulas
    are exact; else they are those of linear regression, over draws.
    """
    problem = posterior.problem
    mesh = problem.forward.space.mesh
    given = candidates.points if isinstance(candidates, Grid) else candidates
    points = mesh.nodes if given is None else np.atleast_2d(np.asarray(given, float))
    where = None if given is None else locate(mesh, points, outside="raise")
    exact = is_normal(posterior, quantity, num_draws)
    draws = posterior_draws(
        with_moments(posterior) if exact else posterior,
        num_draws=2 * problem.num_coordinates if exact else num_draws,
        seed=seed,
        for_summary=not quantity.startswith("budget"),
    )
    result = design_elsewhere(problem.likelihood, design, len(points))
    there = candidates_at(draws, points, where, design=result, noise_sd=noise)
    return rank_places(target(draws, quantity), there, count, exact=exact)


def is_normal(posterior: Posterior, quantity: str, num_draws: int) -> bool:
    """Whether the quantity and all states are normal, and few draws have their very moments."""
    problem = posterior.problem
    size = problem.num_coordinates
    is_few = isinstance(posterior.distribution, AbstractGaussian) and 2 * size <= num_draws
    if not is_few or problem.time is not None or not isinstance(posterior.states, ExactStates):
        return False
    # What the equation does not read might be any function of its coordinates.
    known = quantity == STATE or quantity in by_equation(problem).reads
    result = (affine_coordinates(problem), affine_beside_the_equation(problem)) if known else ()
    return known and all(len(one) == size for one in result)


def with_moments(posterior: Posterior) -> Posterior:
    """A draw to each side along each axis of the covariance: the same mean and covariance (the
    points of Julier & Uhlmann 1997)."""
    distribution = posterior.distribution
    assert isinstance(distribution, AbstractGaussian)
    size = distribution.num_coordinates
    normals = on_device(np.sqrt(size) * np.eye(size), distribution.dtype)
    axes = np.asarray(distribution.deviations(normals))
    points = np.asarray(distribution.mean) + np.concatenate([axes, -axes])
    return dataclasses.replace(posterior, distribution=EmpiricalDraws(on_device(points[None])))
