"""From a posterior to draws of all that can be asked of it, by one compiled program."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from riesz.arrays import evenly_spaced
from riesz.errors import RieszError
from riesz.fem.fluxes import budget
from riesz.fem.terms.coefficient import Function, parts_of
from riesz.observe.effects import WithEffects
from riesz.observe.grouped import GroupedNormal
from riesz.observe.likelihood import AbstractLikelihood
from riesz.observe.sites import SiteErrors
from riesz.posterior.family import EmpiricalDraws
from riesz.posterior.posterior import AbstractStateMap, Posterior, is_field, regions_of
from riesz.prediction.contraction import contractions_of
from riesz.prediction.draws import (
    Course,
    NodalDraws,
    NumberDraws,
    Observed,
    PosteriorDraws,
    RegionDraws,
    Shifts,
    Unknown,
    exactly,
    quantise,
    select_draws,
)
from riesz.prediction.prior import field_of
from riesz.prediction.quantity import FluxAt, has_flux, node_values
from riesz.prediction.sampling import Reading, quantity_draws, reading
from riesz.prediction.sensors import AtSensors
from riesz.prediction.statistics import NUM_DRAWS
from riesz.priors.fields import FieldCoefficient, numbers_in
from riesz.priors.regions import PiecewiseConstant
from riesz.problem.priors import shape_of
from riesz.problem.problem import InverseProblem

AtNodes = Float[Array, " node"]

MOST_NUMBERS = 40_000_000
"""In the draws that are kept by default: of larger meshes there are fewer, but some."""

FEWEST_DRAWS = 50

NUM_DATES, FEWEST_DATES = 12, 2
"""Of maps, from the first to the last."""

MOST_ROWS = 100_000
"""Nodes at all dates, and places at all times: of larger meshes there are fewer dates, of longer
records fewer places."""

MOST_COURSE = 10_000_000
"""That are kept, in fewer draws where there are many rows."""

MAPS, PLACES = "maps", "places"

SAME_CLOCK = 1e-6
"""Of the time axis: how far the times of a drift may be off it, but for where it begins."""


def sensor_draw(key: PRNGKeyArray, problem: InverseProblem, state: AtNodes, z: PyTree) -> AtSensors:
    """Of one draw, for `quantity_draws` to gather."""
    predicted, likelihood = problem.predict(state, z), problem.likelihood
    return AtSensors(
        predicted=likelihood.location(predicted, z),
        noise=likelihood.noise_sd(predicted, z),
        measured=likelihood.sample(key, predicted, z),
    )


class Everything(eqx.Module):
    """All that is kept of one draw; a summary, and a state in time, need no budget and no flux.

    Maps show the state; of several experiments that of the first, in time the last one. Other dates
    and places are read by `readings`, `under` other stresses if there are some.
    """

    for_summary: bool = eqx.field(static=True)
    has_flux: bool = eqx.field(static=True)
    readings: dict[str, Reading]
    states: AbstractStateMap
    under: InverseProblem | None

    def __call__(
        self, key: PRNGKeyArray, problem: InverseProblem, state: AtNodes, z: PyTree
    ) -> dict[str, Any]:
        effects, beside = effects_of(problem.likelihood), local_name(problem.likelihood)
        read = {}
        if problem.time is None:
            at_sensors = sensor_draw(key, problem, state, z)
            state = problem.states(state)[0]
        else:
            whole = self.solve_states(key, problem, z, problem)
            at_sensors = sensor_draw(
                key, problem, problem.time.of_states(problem.forward, whole, z), z
            )
            if self.under is not None:
                whole = self.solve_states(key, problem, z, self.under)
            state = whole[-1]
            read = {name: one.of_states(whole) for name, one in self.readings.items()}
        result = {
            "state": node_values(problem, state),
            "unknowns": {name: numbers_in(z[name]) for name in draw_names(problem)},
            "sensors": at_sensors,
            "noise": {
                name: jnp.ravel(value)
                for name, value in problem.likelihood.noise.parameters(z).items()
            },
            "effects": z[effects.name] if effects and effects.design is not None else (),
            "local": numbers_in(z[beside]) if beside else (),
            "read": read,
        }
        if self.for_summary or problem.time is not None:
            return result
        lines = budget(problem.forward, state, z)
        return result | {
            "flux": FluxAt()(problem, state, z) if self.has_flux else (),
            "gains": lines.gains,
            "outflows": lines.outflows,
        }

    def solve_states(
        self, key: PRNGKeyArray, problem: InverseProblem, z: PyTree, under: InverseProblem
    ) -> Float[Array, "time dof"]:
        """Whole states at all times: what sensors record is read off them, too."""
        how = (under, lambda own: own, under.default_solver())
        return self.states.record_in_time(problem, jr.fold_in(key, 1), z, *how)


def effects_of(likelihood: AbstractLikelihood) -> WithEffects | None:
    """Of the first kind of data, which new measurements are of."""
    main = likelihood.main
    return main if isinstance(main, WithEffects) else None


def values_to_store(
    problem: InverseProblem, name: str, own: Float[np.ndarray, "draw weight"]
) -> Float[np.ndarray, "draw place"]:
    """Values at the nodes, or their logarithms; numbers as they are."""
    field = field_of(problem.latents, name)
    if field is None or isinstance(field, PiecewiseConstant):
        return own
    values = field.nodal_draws(own)
    with np.errstate(divide="ignore"):  # of what is too small for a number
        return np.log(values) if field.is_log else values


def posterior_draws(
    posterior: Posterior,
    *,
    num_draws: int | None = None,
    seed: int = 0,
    for_summary: bool = False,
) -> PosteriorDraws:
    """So many draws of everything, or of what a summary needs.

    Without a number, as many as predictions take, or fewer where the mesh is so large that files
    would be.
    """
    drawn, _ = draws_and_readings(
        posterior, {}, num_draws=num_draws, seed=seed, for_summary=for_summary
    )
    return drawn


def draws_and_readings(
    posterior: Posterior,
    readings: dict[str, Reading],
    *,
    num_draws: int | None = None,
    seed: int = 0,
    for_summary: bool = False,
    under: InverseProblem | None = None,
    progress: bool = False,
) -> tuple[PosteriorDraws, dict[str, Float[np.ndarray, "draw row"]]]:
    """The same, and what is read at other dates and places of a problem in time; `under` other
    stresses, if these are given."""
    problem = posterior.problem
    mesh = problem.forward.space.mesh
    num_nodes = mesh.num_nodes
    num_fields = 1 + sum(is_field(problem, name) for name in problem.latents.names)
    if num_draws is None:
        fitting = max(MOST_NUMBERS // (num_fields * num_nodes), FEWEST_DRAWS)
        num_draws = min(NUM_DRAWS, fitting)
    sampler = Everything(
        for_summary=for_summary,
        has_flux=not for_summary and problem.time is None and has_flux(problem),
        readings=readings,
        states=posterior.states,
        under=under,
    )
    size = problem.record.num_recorded
    most = size + num_fields * num_nodes + mesh.dim * mesh.num_cells + 4 * len(problem.observed)
    most += problem.num_coordinates
    most += 0 if problem.time is None else len(problem.time.axis.times) * num_nodes
    most += sum(one.rows.num_rows for one in readings.values())
    every = quantity_draws(
        posterior, sampler, num_draws=num_draws, seed=seed, numbers=most, progress=progress
    )
    shift, bulges = posterior.shift, None
    if shift is not None:
        share = shift.shares(len(every["state"]), seed)
        row = 0 if problem.time is None else -1  # of the first experiment, or the last time
        every["state"] = every["state"] + share * shift.at_nodes(mesh)[row]
        every["read"] = {
            name: own + share * readings[name].of_shift(shift.at(mesh, readings[name].points))
            for name, own in every["read"].items()
        }
        bulges = shift.bulges(mesh, row)
    result = finite_draws(every)
    result["unknowns"] = {
        name: values_to_store(problem, name, own) for name, own in result["unknowns"].items()
    }
    distribution, shifts = posterior.distribution, shifts_of(problem, result)
    known = posterior.mesh_shift
    drawn = PosteriorDraws(
        mesh=mesh,
        seed=seed,
        num_lost=len(every["state"]) - len(result["state"]),
        is_all=isinstance(distribution, EmpiricalDraws) and num_draws >= distribution.num_draws,
        state=NodalDraws(quantise(result["state"]), False, bulges),
        unknowns=draws_by_name(problem, result),
        observed=sensor_draws(problem, result["sensors"], shifts, seed),
        shifts=shifts,
        local_name=local_name(problem.likelihood),
        mapped=interior_fields(problem),
        flux=result["flux"].mean(axis=0) if sampler.has_flux else None,
        gains=result.get("gains", {}),
        outflows=result.get("outflows", {}),
        learned=()
        if for_summary
        else contractions_of(problem, draw_names(problem), result["unknowns"], num_draws, seed),
        mesh_error=known.worst_in_cells(mesh) if known and len(known.states) else None,
    )
    return drawn, result["read"]


def draws_and_course(
    posterior: Posterior, *, num_draws: int | None = None, progress: bool = False
) -> tuple[PosteriorDraws, Course | None]:
    """What a run keeps of a problem whose state is read at points; a steady one has no course."""
    problem, asked = posterior.problem, {"num_draws": num_draws, "progress": progress}
    if problem.time is None:
        return draws_and_readings(posterior, {}, **asked)[0], None
    axis, num_nodes = problem.time.axis, problem.forward.space.mesh.num_nodes
    num_dates = min(max(MOST_ROWS // num_nodes, FEWEST_DATES), NUM_DATES)
    shown = evenly_spaced(len(axis.times), num_dates)
    places = np.unique(problem.observations.points, axis=0)
    places = places[evenly_spaced(len(places), max(MOST_ROWS // len(axis.times), 1))]
    dates = axis.dates(axis.times)
    readings = {MAPS: reading(problem, dates[shown]), PLACES: reading(problem, dates, places)}
    drawn, read = draws_and_readings(posterior, readings, **asked)
    numbers = sum(one.shape[1] for one in read.values())
    rows = evenly_spaced(drawn.num_draws, max(MOST_COURSE // numbers, FEWEST_DRAWS))
    maps, at_places = (quantise(read[name][rows]) for name in (MAPS, PLACES))
    return drawn, Course(axis, shown, maps, places, at_places, select_draws(drawn.shifts, rows))


def finite_draws(drawn: dict[str, Any]) -> dict[str, Any]:
    """Those for which the equation has a solution; raises where that is less than half of them."""
    finite = np.isfinite(drawn["state"]).all(axis=1)
    if finite.all():
        return drawn
    if finite.mean() < 0.5:
        raise RieszError(
            f"the equation has no solution for {(~finite).sum()} of {len(finite)} draws of the "
            "posterior: look for priors that allow impossible coefficients, and give them bounds "
            "or smaller spreads."
        )
    return jax.tree.map(lambda leaf: leaf[finite], drawn)


def draw_names(problem: InverseProblem) -> tuple[str, ...]:
    """Unknowns that programs evaluate: what neighbours share has a kernel at each sensor, which
    NumPy has for all draws of shared scales at once."""
    beside = local_name(problem.likelihood)
    return tuple(name for name in problem.latents.names if name != beside)


def draws_by_name(problem: InverseProblem, drawn: dict[str, Any]) -> dict[str, Unknown]:
    unknowns = {
        name: draws_of_unknown(problem, name, drawn["unknowns"][name])
        for name in draw_names(problem)
    }
    effects, beside = effects_of(problem.likelihood), local_name(problem.likelihood)
    if beside is not None and effects is not None and effects.local is not None:
        nodes = problem.forward.space.mesh.nodes
        unknowns[beside] = NodalDraws(
            quantise(effects.local.moments_at(nodes, drawn["local"]).mean), False
        )
    return unknowns


def draws_of_unknown(
    problem: InverseProblem, name: str, values: Float[np.ndarray, "draw place"]
) -> Unknown:
    field = field_of(problem.latents, name)
    if field is None:
        return NumberDraws(values, shape_of(problem.latents.latents[name]))
    if isinstance(field, PiecewiseConstant):
        return RegionDraws(values, np.asarray(field.region), regions_of(problem, name))
    return NodalDraws(quantise(values), field.is_log)


def sensor_draws(problem: InverseProblem, drawn: AtSensors, shifts: Shifts, seed: int) -> Observed:
    """New measurements at the sensors share what they do with those that were made there."""
    new, sites, errors = np.asarray(drawn.measured), shifts.sites, shifts.errors
    if sites is not None and errors is not None:
        count = len(sites.group)
        shared = errors.at(sites.group, sites.when)
        probability = np.random.default_rng(seed).uniform(size=shared.mean.shape)
        predictor = np.asarray(drawn.predicted)[:, :count]
        new = np.hstack([shifts.new_measurements(predictor, probability, shared), new[:, count:]])
    return Observed(
        points=problem.observations.points,
        values=np.asarray(problem.observed, float),
        censored=problem.censored,
        predicted=quantise(drawn.predicted),
        noise=quantise(drawn.noise),
        measured=(exactly if problem.likelihood.is_discrete else quantise)(new),
    )


def shifts_of(problem: InverseProblem, drawn: dict[str, Any]) -> Shifts:
    likelihood = problem.likelihood
    effects, noise = effects_of(likelihood), drawn["noise"]
    local = None if effects is None else effects.local
    has_design = effects is not None and effects.design is not None
    sites, residuals, own = site_errors(problem), None, None
    if sites is not None:
        count = len(sites.group)
        predicted = drawn["sensors"].predicted[:, :count]
        residuals = quantise(np.asarray(problem.observed, float)[:count] - predicted)
        if noise["sd"].shape[1] > 1:
            own = np.asarray(noise["sd"], float)
            own = own[:1] if (own == own[0]).all() else own
    return Shifts(
        effects=drawn["effects"] if has_design else None,
        local=local,
        local_weights=None if local is None else drawn["local"],
        parameters={name: np.median(one, axis=1)[:, None] for name, one in noise.items()},
        differs=any(one.shape[1] > 1 for one in noise.values()),
        scatter=likelihood.noise.observation_distribution,
        sites=sites,
        residuals=residuals,
        sensor_sd=own,
    )


def site_errors(problem: InverseProblem) -> SiteErrors | None:
    """Of the first kind of data, where readings of one site share their errors."""
    noise = problem.likelihood.noise
    if not isinstance(noise, GroupedNormal):
        return None
    group = np.asarray(noise.group)
    points = problem.observations.points[: len(group)]
    _, first = np.unique(group, return_index=True)
    is_one = np.bincount(group, (points != points[first][group]).any(axis=1)) == 0
    places = np.where(is_one[:, None], points[first], np.nan)
    if noise.times is None:
        return SiteErrors(group, places, None, None)
    times, clock, when = np.asarray(noise.times, float), None, problem.observations.when
    if problem.time is not None and when is not None:
        axis = problem.time.axis
        ahead = axis.numbers(when[: len(group)], "times of observations") - times
        same = np.ptp(ahead) <= SAME_CLOCK * max(np.ptp(times), np.ptp(axis.times))
        clock = float(ahead.mean()) if same else None
    return SiteErrors(group, places, times, clock)


def local_name(likelihood: AbstractLikelihood) -> str | None:
    effects = effects_of(likelihood)
    return effects.local_name if effects is not None and effects.local is not None else None


def interior_fields(problem: InverseProblem) -> tuple[str, ...]:
    """Unknown fields that the equation reads inside the domain, not only on its boundary."""
    names = {
        part.name
        for term in problem.forward.form.terms
        if term.on is None
        for coefficient in term.coefficients.values()
        for part in parts_of(coefficient)
        for part in (part, *(part.fields.values() if isinstance(part, Function) else ()))
        if isinstance(part, FieldCoefficient)
    }
    return tuple(name for name in problem.latents.names if name in names)
