r"""New readings at sites that were read: what their errors share with those of earlier readings.

A reading of a site has the error $e + l + d(t)$, with the level $l$ and the drift $d$ of its site
(`riesz.observe.grouped`). Given a draw of all unknowns, the residuals of earlier readings are such
errors, and $l + d(t)$ at another time is normal given them: the kriging of residuals. For the
drift a filter and a smoother do it (Rauch, Tung & Striebel 1965), for all draws and sites at once
and in time linear in the readings; between two readings an Ornstein-Uhlenbeck process depends on
these alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from scipy.spatial import KDTree

from riesz.observe.factors import Columns

LEVEL, DRIFT, MEMORY = "level_sd", "drift_sd", "correlation_time"

SAME_PLACE = 1e-6
"""Of the extent of all sites: coordinates that differ by less are of one place."""

UNREAD = -1
"""The number of a site that has no readings."""

ByDraw = Float[np.ndarray, "draw 1"]
AtReadings = Float[np.ndarray, "draw sensor"]
AtPlaces = Float[np.ndarray, "draw place"]
Laid = Float[np.ndarray, "step lane draw"]


class Lanes(eqx.Module):
    """Readings in the order of time, group after group, in lanes side by side.

    No lane is longer than the largest group, and short groups share one: a filter takes as many
    steps as that group has readings, and few of them for nothing.
    """

    reading: Int[Any, "step lane"]  # its number; that of no reading where a lane has ended
    gap: Float[Any, "step lane"]  # since the reading before it in its group
    is_first: Bool[Any, "step lane"]  # of its group
    slot: Int[Any, " sensor"]  # where a reading stands, step after step

    def lay_out(self, values: Columns, nothing: float) -> Float[Array, "step lane *column"]:
        return jnp.take(values, self.reading, axis=0, mode="fill", fill_value=nothing)

    def back(self, laid: Float[Array, "step lane *column"]) -> Columns:
        return laid.reshape(-1, *laid.shape[2:])[self.slot]


def lanes_of(group: Int[np.ndarray, " sensor"], times: Float[np.ndarray, " sensor"]) -> Lanes:
    """Long groups first, each behind the last one where there is room."""
    order = np.lexsort((times, group))
    sizes = np.bincount(group)
    starts = np.cumsum(sizes) - sizes
    most, lane, filled = int(sizes.max()), 0, 0
    place = np.zeros((len(group), 2), int)
    for one in np.argsort(-sizes, kind="stable").tolist():
        size = int(sizes[one])
        lane, filled = (lane + 1, 0) if filled + size > most else (lane, filled)
        own = order[starts[one] : starts[one] + size]
        place[own] = np.stack([filled + np.arange(size), np.full(size, lane)], axis=1)
        filled += size
    step, lane_of = place.T
    shape = (most, lane + 1)
    reading, gap, is_first = np.full(shape, len(group)), np.zeros(shape), np.ones(shape, bool)
    reading[step, lane_of] = np.arange(len(group))
    follows = order[1:][group[order[1:]] == group[order[:-1]]]
    before = order[:-1][group[order[1:]] == group[order[:-1]]]
    is_first[step[follows], lane_of[follows]] = False
    gap[step[follows], lane_of[follows]] = times[follows] - times[before]
    return Lanes(reading, gap, is_first, step * shape[1] + lane_of)


class Shared(NamedTuple):
    """Of what new readings share with earlier ones at their sites: normal, one row a draw."""

    mean: AtPlaces
    sd: AtPlaces


class SiteErrors(eqx.Module):
    """Which readings are of one site, where that is, and when they were made."""

    group: Int[np.ndarray, " sensor"]  # the number of the site
    places: Float[np.ndarray, "site dim"]  # NaN where its readings are of several
    times: Float[np.ndarray, " sensor"] | None  # where errors drift
    clock: float | None  # what the problem's time is when that of drifts is zero

    @property
    def when(self) -> Float[np.ndarray, " sensor"] | None:
        """The times of the readings, in those of the problem."""
        return None if self.times is None or self.clock is None else self.times + self.clock

    def numbers_at(self, points: Float[np.ndarray, "place dim"]) -> Int[np.ndarray, " place"]:
        """The site of each place; none where nothing was read, or several sites were."""
        (known,) = np.nonzero(np.isfinite(self.places).all(axis=1))
        if not len(known) or not len(points):
            return np.full(len(points), UNREAD)
        places = self.places[known]
        extent = float(np.ptp(places, axis=0).max())
        reach = SAME_PLACE * (extent or float(np.abs(places).max()) or 1.0)
        near, number = KDTree(places).query(points, k=min(2, len(places)))
        near, number = near.reshape(len(points), -1), number.reshape(len(points), -1)
        return np.where((near <= reach).sum(axis=1) == 1, known[number[:, 0]], UNREAD)


def sum_by_site(
    values: AtReadings, group: Int[np.ndarray, " sensor"], count: int
) -> Float[np.ndarray, "draw site"]:
    order = np.argsort(group, kind="stable")
    return np.add.reduceat(values[:, order], np.searchsorted(group[order], range(count)), axis=1)


class Smoothed(NamedTuple):
    """Of the drift at readings, given all of them: as if they were residuals, or ones.

    What levels explain is taken off residuals: the mean is linear in them.
    """

    residuals: AtReadings
    ones: AtReadings
    variance: AtReadings


def smooth_drift(
    lanes: Lanes,
    columns: tuple[AtReadings, AtReadings],
    sd: AtReadings,
    drift_sd: Float[np.ndarray, " draw"],
    memory: Float[np.ndarray, " draw"],
) -> tuple[Smoothed, tuple[AtReadings, AtReadings]]:
    """The drift given both columns, and these made independent, each of sd one.

    A reading whose sd is infinite tells nothing, and is told of.
    """
    num_steps, num_lanes = lanes.reading.shape
    num_draws = len(drift_sd)

    def lay_out(values: AtReadings, nothing: float) -> Laid:
        padded = np.column_stack([values, np.full(num_draws, nothing)])
        return np.moveaxis(padded[:, lanes.reading], 0, -1)

    def back(values: Laid) -> AtReadings:
        return values.reshape(-1, num_draws)[lanes.slot].T

    own, given = lay_out(sd**2, 1.0), np.stack([lay_out(one, 0.0) for one in columns], axis=1)
    exponent = lanes.gap[:, :, None] / memory
    is_first = lanes.is_first[:, :, None]
    decay = np.where(is_first, 0.0, np.exp(-exponent))
    fresh = np.where(is_first, 1.0, -np.expm1(-2 * exponent)) * drift_sd**2
    expected, mean, white = (np.empty_like(given) for _ in range(3))
    before, variance = (np.zeros_like(own) for _ in range(2))
    last, left = np.zeros_like(given[0]), np.zeros((num_lanes, num_draws))
    for k in range(num_steps):
        before[k] = decay[k] ** 2 * left + fresh[k]
        total = before[k] + own[k]
        expected[k] = decay[k] * last
        new = given[k] - expected[k]
        white[k] = new / np.sqrt(total)
        mean[k] = last = expected[k] + before[k] / total * new
        variance[k] = left = before[k] / (1 + before[k] / own[k])
    for k in range(num_steps - 2, -1, -1):
        gain = decay[k + 1] * variance[k] / before[k + 1]
        mean[k] += gain * (mean[k + 1] - expected[k + 1])
        variance[k] += gain**2 * (variance[k + 1] - before[k + 1])
    result = Smoothed(back(mean[:, 0]), back(mean[:, 1]), back(np.maximum(variance, 0)))
    return result, (back(white[:, 0]), back(white[:, 1]))


@dataclass(frozen=True, eq=False)
class ErrorsGiven:
    """Levels and drifts of sites, given the residuals of their readings in each draw."""

    sites: SiteErrors
    residuals: AtReadings
    sd: Float[np.ndarray, "#draw #sensor"]  # of what readings do not share
    parameters: Mapping[str, ByDraw]

    def at(
        self,
        site: Int[np.ndarray, " place"],
        when: Float[np.ndarray, " place"] | None = None,
    ) -> Shared:
        """Of a new reading at each place; without its time, at one that drifts do not reach.

        Of sites without readings nothing is known but how levels and drifts spread.
        """
        sites, is_read, ones = self.sites, site != UNREAD, np.ones_like(self.residuals)
        zero = np.zeros((len(ones), len(site)))
        level_sd, drift_sd = (self.parameters.get(name, zero[:, :1]) for name in (LEVEL, DRIFT))
        spread = level_sd**2 + drift_sd**2 + zero
        if not is_read.any():
            return Shared(zero, np.sqrt(spread))
        of_drift, by_ones, left = zero.copy(), zero.copy(), drift_sd**2 + zero
        sd = np.broadcast_to(self.sd, ones.shape)
        white = self.residuals / sd, ones / sd
        if sites.times is not None:
            # As readings that tell nothing, beside the others of their sites.
            reached, times = np.zeros(0, int), np.zeros(0)
            if when is not None and sites.clock is not None:
                reached = np.flatnonzero(is_read)
                times = when[reached] - sites.clock
            room = (0, 0), (0, len(reached))
            smoothed, white = smooth_drift(
                lanes_of(np.append(sites.group, site[reached]), np.append(sites.times, times)),
                (np.pad(self.residuals, room), np.pad(ones, room)),
                np.pad(sd, room, constant_values=np.inf),
                drift_sd[:, 0],
                self.parameters[MEMORY][:, 0],
            )
            white = tuple(one[:, : ones.shape[1]] for one in white)
            for result, own in zip((of_drift, by_ones, left), smoothed, strict=True):
                result[:, reached] = own[:, ones.shape[1] :]
        squares, along = (
            sum_by_site(white[1] * one, sites.group, len(sites.places)) for one in white[::-1]
        )
        variance = level_sd**2 / (1 + level_sd**2 * squares)
        mean = (variance * along)[:, site] * (1 - by_ones) + of_drift
        total = left + (1 - by_ones) ** 2 * variance[:, site]
        return Shared(
            np.where(is_read, mean, 0.0), np.sqrt(np.where(is_read, np.maximum(total, 0), spread))
        )
