"""Predictions: statistics of any quantity under the posterior, also under other stresses."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from riesz.errors import RieszError
from riesz.fem.evaluate import evaluation_points
from riesz.mesh.grids import Grid
from riesz.mesh.location import locate
from riesz.observe.effects import design_elsewhere
from riesz.observe.grouped import GroupedNormal
from riesz.posterior.posterior import Posterior, check_levels
from riesz.prediction import sampling, statistics
from riesz.prediction.drawing import draws_and_readings, posterior_draws
from riesz.prediction.new_points import NewPoints, new_points
from riesz.prediction.quantity import Quantity, quantity_named
from riesz.prediction.sampling import TransientDraw, point_rows, reading
from riesz.problem.problem import InverseProblem
from riesz.problem.unknowns import MEASUREMENT, STATE


def predict(
    posterior: Posterior,
    quantity: str | Quantity,
    at: ArrayLike | Grid | None = None,
    *,
    times: Any = None,
    under: InverseProblem | None = None,
    design: ArrayLike | None = None,
    experiment: int | None = None,
    tolerance: float | None = None,
    num_draws: int = statistics.NUM_DRAWS,
    seed: int = 0,
    quantiles: Sequence[float] = statistics.LEVELS,
    exceed: Sequence[float] = (),
    keep_draws: bool = False,
) -> statistics.Prediction:
    """Statistics of a quantity: "u", an unknown's name, "flux" or a function (problem, state, z);
    or of a new "measurement", noise included.

    `at` holds points, one a row, or a grid; without it the state and fields are given at the mesh
    nodes, fluxes on the cells, measurements at the sensors, and numbers as they are. Points may lie
    outside the domain by `tolerance`, a length. Of several experiments, `experiment` says whose
    state it is, counted from 0. `exceed` lists values whose probability of being exceeded is
    wanted. With `keep_draws` the draws themselves are in `Prediction.draws`.

    In time, "u" and "measurement" are predicted at `times`, a row each, numbers or dates on the
    axis, which may reach beyond the data: a forecast; both are at all nodes if not told where.
    `under` is a problem with the same unknowns and other stresses, wells or prescribed values: a
    scenario under this posterior.

    Of new measurements `design` holds covariates, as `WithEffects` has them at the sensors. Where
    sensors have noise of their own, that of a new measurement elsewhere is their median. Where
    readings of one site share errors (`GroupedNormal`), a new one at its place shares them, too; at
    other places the level of the site is not known, and how levels spread is part of the noise, as
    on a grid.
    """
    check_levels(quantiles)
    statistics.check_thresholds(exceed)
    check_quantity_asked(posterior, quantity, times, under, design)
    likelihood, is_measured = posterior.problem.likelihood, quantity == MEASUREMENT
    where = {"times": times, "under": under, "tolerance": tolerance}
    drawn: dict[str, Any] = {"num_draws": num_draws, "seed": seed}
    keep = {"keep_draws": keep_draws}
    at_sensors = is_measured and at is None and times is None
    if at_sensors and isinstance(likelihood.noise, GroupedNormal):
        draws = posterior_draws(posterior, **drawn, for_summary=True)
        values = draws.observed.measured.values()
        return statistics.collect([values], draws.num_draws, quantiles, exceed, **keep)
    if is_measured and not at_sensors and likelihood.noise.observation_distribution is not None:
        there = new_places(posterior, at, design, **where, **drawn)
        sizes = (len(there.points), there.draws.num_draws)
        result = statistics.over_places(there.new_measurements, *sizes, quantiles, exceed, **keep)
    else:
        if at_sensors:
            sampler = sampling.measure_at_sensors
        elif is_measured:
            state = sampler_of(posterior, STATE, at, 0, **where)
            sampler = sampling.NewMeasurement(
                state, covariates_at(posterior.problem, at, design, times)
            )
        else:
            sampler = sampler_of(posterior, quantity, at, experiment, **where)
        chunks = sampling.draw_chunks(posterior, sampler, **drawn)
        result = statistics.collect(chunks, num_draws, quantiles, exceed, **keep)
    fill = at.fill if isinstance(at, Grid) else np.asarray
    if times is not None:
        return result.reshape(lambda own: np.stack([*map(fill, own.reshape(np.size(times), -1))]))
    return result.reshape(fill) if isinstance(at, Grid) else result


def check_quantity_asked(
    posterior: Posterior,
    quantity: str | Quantity,
    times: Any,
    under: InverseProblem | None,
    design: ArrayLike | None,
) -> None:
    """Raise where something is given that the quantity does not depend on."""
    for name, given, kinds in (
        ("times=...", times, (STATE, MEASUREMENT)),
        ("covariates design=...", design, (MEASUREMENT,)),
    ):
        if given is not None and quantity not in kinds:
            raise RieszError(
                f"{name} were given for {quantity!r}, on which they have no bearing: leave them "
                f"out, or ask for {' or '.join(map(repr, kinds))}."
            )
    if under is not None and times is None:
        raise RieszError("a scenario is predicted at times: give times=..., of the time axis.")
    if under is not None:
        check_same_unknowns(posterior.problem, under)


def sampler_of(
    posterior: Posterior,
    quantity: str | Quantity,
    at: ArrayLike | Grid | None,
    experiment: int | None,
    *,
    times: Any,
    under: InverseProblem | None,
    tolerance: float | None,
) -> sampling.Sampler:
    """What is computed of each draw of the unknowns and its state."""
    problem, shift = posterior.problem, posterior.shift if quantity == STATE else None
    mesh, points = problem.forward.space.mesh, at.points if isinstance(at, Grid) else at
    if times is not None:
        posed = problem if under is None else under
        result = reading(posed, times, at, tolerance=tolerance)
        state = TransientDraw(posed, posterior.states, result, posed.default_solver())
        if shift is None:
            return state
        added = result.of_shift(shift.at(mesh, result.points, tolerance))
        return sampling.Corrected(state, added, shift.unknown)
    if isinstance(quantity, str):
        where = None
        if points is not None:
            where = evaluation_points(problem.forward, points, tolerance=tolerance)
        quantity = quantity_named(problem, quantity, where, experiment)
    elif at is not None:
        raise RieszError("a function of (problem, state, z) knows its places: leave `at` out.")
    result = eqx.Partial(sampling.without_key, quantity)
    if shift is None:
        return result
    added = shift.at(mesh, points, tolerance)[experiment or 0]
    return sampling.Corrected(result, added, shift.unknown)


def covariates_at(
    problem: InverseProblem, at: ArrayLike | Grid | None, design: ArrayLike | None, times: Any
) -> Float[np.ndarray, "row effect"] | None:
    """Covariates of new measurements, the same at all times."""
    mesh = problem.forward.space.mesh
    count = mesh.num_nodes if at is None else len(point_rows(at, mesh.dim))
    result = design_elsewhere(problem.likelihood, design, count)
    return result if result is None or times is None else np.tile(result, (np.size(times), 1))


def new_places(
    posterior: Posterior,
    at: ArrayLike | Grid | None,
    design: ArrayLike | None = None,
    *,
    times: Any = None,
    under: InverseProblem | None = None,
    tolerance: float | None = None,
    num_draws: int,
    seed: int,
    together: bool = True,
) -> NewPoints:
    """Where new measurements are made: at places, or at each of them at each of the times."""
    posed = posterior.problem if under is None else under
    mesh, axis = posed.forward.space.mesh, None if posed.time is None else posed.time.axis
    points = mesh.nodes if at is None else point_rows(at, mesh.dim)
    where, readings = None, {}
    if times is None:
        where = locate(mesh, points, tolerance=tolerance, outside="raise")
    else:
        readings = {MEASUREMENT: reading(posed, times, at, tolerance=tolerance)}
    settings = {"num_draws": num_draws, "seed": seed, "for_summary": True, "under": under}
    draws, states = draws_and_readings(posterior, readings, **settings)
    is_map, sites, when = at is None or isinstance(at, Grid), draws.shifts.sites, None
    if axis is not None:
        dates = axis.times[-1:] if times is None else np.atleast_1d(axis.numbers(times))
        when, points = np.repeat(dates, len(points)), np.tile(points, (len(dates), 1))
    return new_points(
        draws,
        points,
        where,
        covariates_at(posterior.problem, at, design, times),
        given=states.get(MEASUREMENT),
        seed=seed,
        together=together,
        site=None if sites is None or is_map else sites.numbers_at(points),
        when=when,
    )


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
