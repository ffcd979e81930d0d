"""Draws of a posterior as plain arrays: predictions are made from them without a solve.

Whoever has them needs neither the equation nor a compiler: the state and fields are known at the
nodes and interpolated between them, numbers and regions as they are.
"""

import dataclasses
from collections.abc import Mapping
from itertools import combinations
from typing import Any

import equinox as eqx
import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int
from scipy.special import ndtri

from riesz.arrays import evenly_spaced
from riesz.errors import RieszError
from riesz.fem.time.axis import TimeAxis
from riesz.mesh.location import Location
from riesz.mesh.mesh import Mesh
from riesz.mesh.tags import node_shares
from riesz.observe.distributions import AbstractObservationDistribution
from riesz.observe.sites import ErrorsGiven, Shared, SiteErrors
from riesz.prediction.contraction import Contraction
from riesz.prediction.sensors import AtSensors
from riesz.priors.correlated_residual import LocalEffect

AtPlaces = Float[np.ndarray, "draw place"]
Rows = Int[np.ndarray, " chosen"]

BITS = 14
"""Draws are kept to this many binary digits below their spread: an error of a 30,000th of it."""


PER_DRAW = {"per_draw": True}
"""Marks fields that hold something for each draw."""


def select_draws(part: Any, rows: Rows) -> Any:
    """The same of some of the draws; a single row is that of all."""
    if isinstance(part, np.ndarray):
        return part if len(part) == 1 else part[rows]
    if isinstance(part, Mapping):
        return {name: select_draws(one, rows) for name, one in part.items()}
    if part is None:
        return None
    marked = [one.name for one in dataclasses.fields(part) if "per_draw" in one.metadata]
    chosen = {name: select_draws(getattr(part, name), rows) for name in marked}
    return dataclasses.replace(part, **chosen)


class Quantised(eqx.Module):
    """Draws at places, as good as they are needed: about their median, in single precision."""

    middle: Float[np.ndarray, " place"]
    offsets: Float[np.ndarray, "draw place"] = eqx.field(metadata=PER_DRAW)

    def values(self) -> AtPlaces:
        return self.middle + self.offsets.astype(float)


def exactly(values: AtPlaces) -> Quantised:
    """Of counts and shares, which come again, no digit may be lost."""
    return Quantised(np.zeros(values.shape[1]), np.asarray(values, float))


def quantise(values: AtPlaces) -> Quantised:
    """Digits that tell nothing are zero, which is what makes files small."""
    values = np.asarray(values, float)
    # Not mean and sd: one draw far out must not cost all others their digits.
    low, middle, high = np.quantile(values, (0.16, 0.5, 0.84), axis=0)
    offsets, spread = values - middle, (high - low) / 2
    known = spread > np.finfo(np.float32).tiny
    step = np.exp2(np.floor(np.log2(np.where(known, spread, 1.0))) - BITS)
    offsets = np.where(known, np.rint(offsets / step) * step, offsets)
    return Quantised(middle, offsets.astype(np.float32))


def interpolation(mesh: Mesh, where: Location) -> sp.csr_array:
    """From values at the nodes to those at points, linear in each cell."""
    num_points, corners = where.barycentric.shape
    rows = np.repeat(np.arange(num_points), corners)
    columns = mesh.cells[where.cell].ravel()
    shape = (num_points, mesh.num_nodes)
    return sp.csr_array((where.barycentric.ravel(), (rows, columns)), shape=shape)


def bulges_at(
    mesh: Mesh, where: Location, bulges: Float[np.ndarray, "cell local_edge"]
) -> Float[np.ndarray, " place"]:
    """How far a function that is quadratic along each edge lies above linear interpolation."""
    ends = np.array(list(combinations(range(mesh.dim + 1), 2)))
    share = 4 * where.barycentric[:, ends].prod(axis=2)
    return (share * bulges[where.cell]).sum(axis=1)


class NodalDraws(eqx.Module):
    """A field at the nodes; with `is_log` its logarithm, which then is what is linear."""

    at_nodes: Quantised = eqx.field(metadata=PER_DRAW)
    is_log: bool
    # Above the line between two nodes, half-way.
    bulges: Float[np.ndarray, "cell local_edge"] | None = None

    def at(self, mesh: Mesh, where: Location | None) -> AtPlaces:
        values = self.at_nodes.values()
        if where is not None:
            values = (interpolation(mesh, where) @ values.T).T
            values += 0.0 if self.bulges is None else bulges_at(mesh, where, self.bulges)
        return np.exp(values) if self.is_log else values


class RegionDraws(eqx.Module):
    """One number a region."""

    values: Float[np.ndarray, "draw region"] = eqx.field(metadata=PER_DRAW)
    region: Int[np.ndarray, " cell"]
    names: tuple[str, ...]

    def at(self, mesh: Mesh, where: Location | None) -> AtPlaces:
        if where is None:  # between regions, the mean over the cells around a node
            return self.values @ node_shares(mesh, self.region, self.values.shape[1]).T
        return self.values[:, self.region[where.cell]]


class NumberDraws(eqx.Module):
    """A number, or a vector of them, the same everywhere."""

    values: Float[np.ndarray, "draw component"] = eqx.field(metadata=PER_DRAW)
    shape: tuple[int, ...]

    def at(
        self, mesh: Mesh, where: Location | None
    ) -> Float[np.ndarray, "draw place *components"] | Float[np.ndarray, " draw *components"]:
        values = self.values.reshape(-1, *self.shape)
        if where is None:
            return values
        return np.broadcast_to(values[:, None], (len(values), len(where.cell), *values.shape[1:]))


class Observed(eqx.Module):
    """The observations, and what each draw says of them."""

    points: Float[np.ndarray, "sensor dim"]
    values: Float[np.ndarray, " sensor"]
    censored: Bool[np.ndarray, " sensor"]  # known only to lie below the value
    predicted: Quantised = eqx.field(metadata=PER_DRAW)
    noise: Quantised = eqx.field(metadata=PER_DRAW)
    measured: Quantised = eqx.field(metadata=PER_DRAW)

    @property
    def drawn(self) -> AtSensors:
        return AtSensors(self.predicted.values(), self.noise.values(), self.measured.values())


class Shifts(eqx.Module):
    """What measurements have beside the state: effects, what neighbours share, and noise."""

    effects: Float[np.ndarray, "draw effect"] | None = eqx.field(metadata=PER_DRAW)
    local: LocalEffect | None
    local_weights: Float[np.ndarray, "draw weight"] | None = eqx.field(metadata=PER_DRAW)
    # Of noise; medians over sensors.
    parameters: Mapping[str, Float[np.ndarray, "draw 1"]] = eqx.field(metadata=PER_DRAW)
    differs: bool  # whether sensors have noise of their own
    scatter: AbstractObservationDistribution | None
    sites: SiteErrors | None = None  # where readings of one share their errors
    # Of their readings, and where each sensor has a noise of its own.
    residuals: Quantised | None = eqx.field(default=None, metadata=PER_DRAW)
    sensor_sd: Float[np.ndarray, "#draw sensor"] | None = eqx.field(default=None, metadata=PER_DRAW)

    @property
    def errors(self) -> ErrorsGiven | None:
        """What readings of one site share, given their residuals."""
        if self.sites is None or self.residuals is None:
            return None
        sd = self.parameters["sd"] if self.sensor_sd is None else self.sensor_sd
        return ErrorsGiven(self.sites, self.residuals.values(), sd, self.parameters)

    def predictor(
        self,
        states: AtPlaces,
        points: Float[np.ndarray, "place dim"],
        design: Float[np.ndarray, "place effect"] | None,
        probability: Float[np.ndarray, " draw #place"],
    ) -> AtPlaces:
        """The state with all that shifts it for new measurements at points.

        Without a design covariates are those for which effects are zero. What neighbours leave
        open at a point is as large as what is exceeded with the complement of the probability.
        """
        result = states
        if self.effects is not None and design is not None:
            result = result + self.effects @ design.T
        if self.local is not None and self.local_weights is not None:
            moments = self.local.moments_at(points, self.local_weights)
            result = result + moments.mean + moments.sd * ndtri(probability)
        return result

    def location(self, predictor: AtPlaces) -> AtPlaces:
        """What new measurements scatter about, in their unit."""
        scatter = self.scatter
        return predictor if scatter is None else scatter.location(predictor, self.parameters)

    def new_measurements(
        self,
        predictor: AtPlaces,
        probability: Float[np.ndarray, " draw #place"],
        shared: Shared | None = None,
    ) -> AtPlaces:
        """New measurements, with noise; `shared` is what they share with earlier readings."""
        if self.scatter is None:
            raise RieszError(
                "how new measurements scatter elsewhere is not known for this kind of noise: ask "
                "for the state, u."
            )
        if shared is None:
            return self.scatter.quantile(probability, predictor, self.parameters)
        sd = np.hypot(self.parameters["sd"], shared.sd)
        return predictor + shared.mean + sd * ndtri(probability)


Unknown = NodalDraws | RegionDraws | NumberDraws


class PosteriorDraws(eqx.Module):
    """Draws of all that can be asked for. `is_all` where the posterior has no others."""

    mesh: Mesh
    seed: int
    num_lost: int  # for which the equation has no solution
    is_all: bool
    state: NodalDraws = eqx.field(metadata=PER_DRAW)
    unknowns: Mapping[str, Unknown] = eqx.field(metadata=PER_DRAW)
    observed: Observed = eqx.field(metadata=PER_DRAW)
    shifts: Shifts = eqx.field(metadata=PER_DRAW)
    local_name: str | None  # of the unknown that neighbours share
    mapped: tuple[str, ...]  # fields that the equation reads inside the domain
    flux: Float[np.ndarray, "cell dim"] | None  # its mean in the middle of each cell
    gains: Mapping[str, Float[np.ndarray, " draw"]] = eqx.field(metadata=PER_DRAW)
    outflows: Mapping[str, Float[np.ndarray, " draw"]] = eqx.field(metadata=PER_DRAW)
    learned: tuple[Contraction, ...]
    mesh_error: Float[np.ndarray, " cell"] | None = None  # of the state, at most

    @property
    def num_draws(self) -> int:
        return len(self.state.at_nodes.offsets)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the unknowns."""
        return tuple(self.unknowns)

    def serve(self, num_draws: int | None, seed: int) -> bool:
        """Whether so many draws, by that seed, are among these; without a number, all will do."""
        if seed != self.seed:
            return False
        return num_draws is None or self.is_all or num_draws <= self.num_draws + self.num_lost

    def first(self, num_draws: int | None) -> "PosteriorDraws":
        """So many, from all chains and for all scales alike."""
        if num_draws is None or num_draws >= self.num_draws:
            return self
        return select_draws(self, evenly_spaced(self.num_draws, num_draws))

    def with_states(self, states: AtPlaces) -> "PosteriorDraws":
        """The same with other states at the nodes."""
        return dataclasses.replace(self, state=NodalDraws(exactly(states), False))

    def is_number(self, name: str) -> bool:
        return isinstance(self.unknowns.get(name), NumberDraws)

    def unknown_at(
        self, name: str, points: Float[np.ndarray, "place dim"], where: Location | None
    ) -> Float[np.ndarray, "draw place *components"]:
        """An unknown at points, or at the nodes; what neighbours share is told by its mean."""
        shifts = self.shifts
        if name == self.local_name and shifts.local is not None:
            assert shifts.local_weights is not None
            return shifts.local.moments_at(points, shifts.local_weights).mean
        return self.unknowns[name].at(self.mesh, where)

    def flux_at(self, where: Location) -> Float[np.ndarray, "place dim"]:
        """The mean flux in the cells that hold points."""
        assert self.flux is not None
        return self.flux[where.cell]


class Course(eqx.Module):
    """How states go in time: some of the draws, at a few dates everywhere, and at places all along.

    Fits read it off the marches that they make for their draws anyway.
    """

    axis: TimeAxis
    shown: Int[np.ndarray, " date"]  # which times maps are of
    maps: Quantised  # a place is a node at a date, date by date
    places: Float[np.ndarray, "place dim"]
    at_places: Quantised  # a place at a time, time by time
    shifts: Shifts

    @property
    def num_draws(self) -> int:
        return len(self.maps.offsets)

    def map_draws(self, draws: PosteriorDraws, date: int) -> PosteriorDraws:
        """What draws would be if the axis ended at one of the dates."""
        states = self.map_states()[:, date]
        return dataclasses.replace(draws.with_states(states), shifts=self.shifts)

    def map_states(self) -> Float[np.ndarray, "draw date node"]:
        return self.maps.values().reshape(self.num_draws, len(self.shown), -1)

    def states(self) -> Float[np.ndarray, "draw time place"]:
        """At the places."""
        return self.at_places.values().reshape(self.num_draws, len(self.axis.times), -1)
