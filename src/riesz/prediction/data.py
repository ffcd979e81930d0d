"""What new measurements would read, and predictions in time, also under other stresses."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike

from riesz.errors import RieszError
from riesz.mesh.grids import Grid
from riesz.mesh.location import locate
from riesz.observe.effects import design_elsewhere
from riesz.observe.grouped import GroupedNormal
from riesz.posterior.posterior import Posterior, check_levels
from riesz.prediction.drawing import draws_and_readings, posterior_draws
from riesz.prediction.in_time import TransientDraw, point_rows, reading
from riesz.prediction.new_points import NewPoints, new_points
from riesz.prediction.predict import draw_chunks, new_measurements, summarise
from riesz.prediction.statistics import (
    LEVELS,
    NUM_DRAWS,
    Prediction,
    check_thresholds,
    collect,
    over_places,
)
from riesz.problem.problem import InverseProblem

MEASURED = "measured"
"""What is read for new measurements."""


def predict_data(
    posterior: Posterior,
    at: ArrayLike | Grid | None = None,
    *,
    num_draws: int = NUM_DRAWS,
    seed: int = 0,
    quantiles: Sequence[float] = (0.025, 0.5, 0.975),
    exceed: Sequence[float] = (),
    tolerance: float | None = None,
    design: ArrayLike | None = None,
    keep_draws: bool = False,
) -> Prediction:
    """Posterior-predictive statistics of new measurements, noise included; at the sensors if not
    told where.

    `design` holds covariates there, as `WithEffects` has them at the sensors. Where sensors have
    noise of their own, that of a new measurement elsewhere is their median. Where readings of one
    site share errors (`GroupedNormal`), a new one at its place shares them, too; at other places
    the level of the site is not known, and how levels spread is part of the noise, as on a grid.
    """
    problem = posterior.problem
    shares = isinstance(problem.likelihood.noise, GroupedNormal)
    if at is None and shares:
        check_levels(quantiles)
        check_thresholds(exceed)
        drawn = posterior_draws(posterior, num_draws=num_draws, seed=seed, for_summary=True)
        values = [drawn.observed.measured.values()]
        return collect(values, drawn.num_draws, quantiles, exceed, keep_draws=keep_draws)
    if at is None or problem.likelihood.noise.observation_distribution is None:
        sampler = new_measurements(problem, at, design, tolerance)
        settings = (num_draws, seed, quantiles, exceed)
        return summarise(posterior, sampler, at, *settings, keep_draws=keep_draws)
    check_levels(quantiles)
    check_thresholds(exceed)
    words = {"num_draws": num_draws, "seed": seed, "together": True}
    there = new_places(posterior, at, design, tolerance, **words)
    count, num_draws = len(there.points), there.draws.num_draws
    settings = (count, num_draws, quantiles, exceed)
    told = over_places(there.measured, *settings, keep_draws=keep_draws)
    return told.on_grid(at) if isinstance(at, Grid) else told


def new_places(
    posterior: Posterior,
    at: ArrayLike | Grid,
    design: ArrayLike | None,
    tolerance: float | None,
    *,
    num_draws: int,
    seed: int,
    together: bool,
) -> NewPoints:
    problem = posterior.problem
    points = at.points if isinstance(at, Grid) else np.atleast_2d(np.asarray(at, float))
    result = design_elsewhere(problem.likelihood, design, len(points))
    where = locate(problem.forward.space.mesh, points, tolerance=tolerance, outside="raise")
    draws = posterior_draws(posterior, num_draws=num_draws, seed=seed, for_summary=True)
    sites, axis = draws.shifts.sites, None if problem.time is None else problem.time.axis
    return new_points(
        draws,
        points,
        where,
        result,
        seed=seed,
        together=together,
        site=None if sites is None or isinstance(at, Grid) else sites.numbers_at(points),
        when=None if axis is None else axis.times[-1:],
    )


def predict_in_time(
    posterior: Posterior,
    times: Any,
    at: ArrayLike | None = None,
    *,
    measured: bool = False,
    under: InverseProblem | None = None,
    num_draws: int = NUM_DRAWS,
    seed: int = 0,
    quantiles: Sequence[float] = LEVELS,
    exceed: Sequence[float] = (),
    tolerance: float | None = None,
    keep_draws: bool = False,
) -> Prediction:
    """Statistics of the state at times, a row each, at points or else at all nodes.

    `times` are numbers or dates on the axis, which may reach beyond the data: a forecast. With
    `measured` they are of new measurements there: as `predict_data` has it, one at a place that was
    read shares what its readings share. `under` is a problem with the same unknowns and other
    stresses, wells or prescribed values: a scenario under this posterior.
    """
    check_levels(quantiles)
    check_thresholds(exceed)
    posed = posterior.problem if under is None else under
    result = reading(posed, times, at, tolerance=tolerance)
    assert posed.time is not None  # or there is nothing to read
    if under is not None:
        check_same_unknowns(posterior.problem, under)
    if not measured or posterior.problem.likelihood.noise.observation_distribution is None:
        parts = (posed, posterior.states, result, posed.default_solver(), measured)
        chunks = draw_chunks(posterior, TransientDraw(*parts), num_draws, seed)
        return collect(chunks, num_draws, quantiles, exceed, keep_draws=keep_draws)
    settings = {"num_draws": num_draws, "seed": seed, "for_summary": True, "under": under}
    draws, read = draws_and_readings(posterior, {MEASURED: result}, **settings)
    points = posed.forward.space.mesh.nodes if at is None else point_rows(at)
    when, sites = np.atleast_1d(posed.time.axis.numbers(times)), draws.shifts.sites
    every = np.tile(points, (len(when), 1))
    there = new_points(
        draws,
        every,
        None,
        given=read[MEASURED],
        seed=seed,
        site=None if sites is None or at is None else sites.numbers_at(every),
        when=np.repeat(when, len(points)),
    )
    sizes = (len(every), draws.num_draws)
    told = over_places(there.measured, *sizes, quantiles, exceed, keep_draws=keep_draws)
    kept = None if told.draws is None else told.draws.reshape(-1, len(when), len(points))
    told = dataclasses.replace(told, draws=None)
    told = jax.tree.map(lambda own: own.reshape(len(when), -1), told)
    return dataclasses.replace(told, draws=kept)


def check_same_unknowns(known: InverseProblem, other: InverseProblem) -> None:
    ours, theirs = (
        {name: one.num_coordinates for name, one in problem.latents.latents.items()}
        for problem in (known, other)
    )
    if ours != theirs:
        raise RieszError(
            f"a scenario has the unknowns {theirs or 'nothing'}, and the posterior {ours} (names "
            "and numbers of coordinates): they must be the same."
        )
