r"""Normal noise that readings of one group share, such as those of one well.

A reading of group $g$ at time $t$ has the error $e + l_g + d_g(t)$: its own, of sd $\sigma$; the
group's level, of sd $\lambda$; and a drift of sd $\delta$ whose correlation over a time $s$ is
$\exp(-|s|/\tau)$, the process of Ornstein and Uhlenbeck, an AR(1) where times are equally spaced.
Neither level nor drift is an unknown: both are integrated out, at a cost that is linear in the
readings.

The drift is a Markov process, so that a filter (Kalman 1960) foretells each reading from those
before it in its group; what it leaves, over its sd, is independent, $w = F^{-1} e$. The level adds
a vector a group to that: with the ones of the group filtered, $a = F^{-1} 1$, the covariance is
$I + \lambda^2 a a^\top$, whose roots are a multiple of $a a^\top$ off the unit matrix.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, DTypeLike, Float, Int, PyTree

from riesz.arrays import beside
from riesz.errors import RieszError
from riesz.observe.distributions import AbstractObservationDistribution, NormalSumDistribution
from riesz.observe.factors import AbstractFactor, Columns, Independent
from riesz.observe.given import as_numbers
from riesz.observe.likelihood import AbstractSharedNoise, Scale, as_scale, scale_at, scale_text
from riesz.observe.sites import DRIFT, LEVEL, MEMORY, Lanes, lanes_of

SECONDS = 86_400.0
"""Of a day."""


class DriftFilter(AbstractFactor):
    """Readings with errors of their own about a drift: each predicted from those before it."""

    lanes: Lanes
    decay: Float[Array, "step lane"]  # of the drift, since the reading before
    gain: Float[Array, "step lane"]  # the share of what was not predicted that is drift
    spread: Float[Array, "step lane"]  # the sd of what is not predicted

    def white(self, columns: Columns) -> Columns:
        def step(drift, given):
            value, decay, gain, spread = given
            predicted = decay[:, None] * drift
            new = value - predicted
            return predicted + gain[:, None] * new, new / spread[:, None]

        return self.along(step, columns)

    def colour(self, columns: Columns) -> Columns:
        def step(drift, given):
            white, decay, gain, spread = given
            predicted = decay[:, None] * drift
            new = spread[:, None] * white
            return predicted + gain[:, None] * new, predicted + new

        return self.along(step, columns)

    def along(self, step: Any, columns: Columns) -> Columns:
        flat = self.lanes.lay_out(columns.reshape(len(columns), -1), 0.0)
        begin = jnp.zeros(flat.shape[1:], flat.dtype)
        _, result = jax.lax.scan(step, begin, (flat, self.decay, self.gain, self.spread))
        return self.lanes.back(result).reshape(columns.shape)

    def log_volume(self) -> Float[Array, ""]:
        return jnp.sum(jnp.log(self.lanes.back(self.spread)))


def drift_filter(
    lanes: Lanes,
    sd: Float[Array, " sensor"],
    drift_sd: Float[Array, ""],
    correlation_time: Float[Array, ""],
) -> DriftFilter:
    # Not by an infinite gap before a group: its slope by the time would be none.
    exponent = lanes.gap.astype(sd.dtype) / correlation_time
    decay = jnp.where(lanes.is_first, 0.0, jnp.exp(-exponent))
    fresh = jnp.where(lanes.is_first, 1.0, -jnp.expm1(-2 * exponent))

    def step(left, given):
        own, decay, fresh = given
        drift = decay**2 * left + drift_sd**2 * fresh
        total = drift + own
        return drift * own / total, (drift / total, jnp.sqrt(total))

    own = lanes.lay_out(sd**2, 1.0)
    _, (gain, spread) = jax.lax.scan(step, jnp.zeros_like(own[0]), (own, decay, fresh))
    return DriftFilter(lanes, decay, gain, spread)


class WithLevels(AbstractFactor):
    """A level for each group beside what else readings have."""

    apart: AbstractFactor
    level_sd: Float[Array, ""]
    group: Int[Array, " sensor"]
    ones: Float[Array, " sensor"]  # whitened apart
    growth: Float[Array, " group"]  # of the variance along the ones of a group

    def white(self, columns: Columns) -> Columns:
        root = jnp.sqrt(1 + self.growth)
        return self.apply_group_updates(self.apart.white(columns), -1 / (root * (1 + root)))

    def colour(self, columns: Columns) -> Columns:
        root = jnp.sqrt(1 + self.growth)
        return self.apart.colour(self.apply_group_updates(columns, 1 / (1 + root)))

    def apply_group_updates(self, columns: Columns, shares: Float[Array, " group"]) -> Columns:
        r"""$I + s \lambda^2 a a^\top$ times columns, with a share $s$ for each group."""
        ones = beside(self.ones, columns)
        sums = jax.ops.segment_sum(ones * columns, self.group, len(self.growth))
        moved = beside(shares * self.level_sd**2, sums) * sums
        return columns + ones * moved[self.group]

    def log_volume(self) -> Float[Array, ""]:
        return self.apart.log_volume() + 0.5 * jnp.sum(jnp.log1p(self.growth))


class GroupedNormal(AbstractSharedNoise):
    """Normal noise that readings of one group share, such as those of one well.

    `groups` names the group of each reading. Beside an error of its own, of `sd`, a reading has the
    error of its group: a level, of `level_sd`, the same for all its readings; or a drift, of
    `drift_sd`, which forgets itself over `correlation_time`, in the unit of `times`, days where
    these are dates; or both. Each of the four is a number, the name of an unknown that is to be
    learned, or a function of the unknowns; `sd` may also be one for each reading. Levels and drifts
    are integrated out. Several readings at one time are told apart by `sd` alone.
    """

    sd: Scale
    level_sd: Scale | None
    drift_sd: Scale | None
    correlation_time: Scale | None
    group: Int[Array, " sensor"]
    times: Float[Array, " sensor"] | None  # where errors drift
    lanes: Lanes | None
    num_groups: int = eqx.field(static=True)

    def __init__(
        self,
        sd: Any,
        groups: Any,
        *,
        level_sd: Any = None,
        drift_sd: Any = None,
        correlation_time: Any = None,
        times: Any = None,
    ):
        drifts = {"drift_sd": drift_sd, "correlation_time": correlation_time, "times": times}
        missing = [name for name, value in drifts.items() if value is None]
        if level_sd is None and len(missing) == len(drifts):
            raise RieszError(
                "readings of a group share nothing: give level_sd=..., or drift_sd=... with "
                "correlation_time=... and times=..., or use rz.Gaussian."
            )
        if 0 < len(missing) < len(drifts):
            raise RieszError(
                f"a drift needs drift_sd=..., correlation_time=... and times=...: {missing[0]} is "
                "missing."
            )
        group = group_numbers(groups)
        self.sd, self.num_groups = as_scale(sd), int(group.max()) + 1
        self.level_sd = None if level_sd is None else as_scale(level_sd, "noise level_sd")
        self.drift_sd = None if drift_sd is None else as_scale(drift_sd, "noise drift_sd")
        self.correlation_time = (
            None if missing else as_scale(correlation_time, "noise correlation_time")
        )
        self.group = jnp.asarray(group)
        when = None if missing else as_reading_times(times, len(group))
        self.times = None if when is None else jnp.asarray(when)
        self.lanes = None if when is None else jax.tree.map(jnp.asarray, lanes_of(group, when))

    def __check_init__(self):
        for name, scale in self.scales().items():
            if name != "sd" and isinstance(scale, jax.Array):
                raise RieszError(f"the noise {name} is one number for all groups.")

    def scales(self) -> dict[str, Scale]:
        shared = {
            LEVEL: self.level_sd,
            DRIFT: self.drift_sd,
            MEMORY: self.correlation_time,
        }
        return {"sd": self.sd} | {name: one for name, one in shared.items() if one is not None}

    def check_values(self, values: Float[np.ndarray, " sensor"]) -> None:
        if len(values) != len(self.group):
            raise RieszError(
                f"there are {len(values)} observations, but the noise has groups for "
                f"{len(self.group)}: give one for each observation."
            )

    def shared(self, z: PyTree, dtype: DTypeLike) -> dict[str, Float[Array, ""]]:
        """What readings of a group have in common, by name: numbers, at values of the unknowns."""
        result = {name: scale_at(one, z) for name, one in self.scales().items() if name != "sd"}
        for name, value in result.items():
            if value.ndim:
                raise RieszError(
                    f"the noise {name} has shape {value.shape}: it is one number for all groups."
                )
        return {name: value.astype(dtype) for name, value in result.items()}

    def noise_sd(self, predicted: Float[Array, " sensor"], z: PyTree) -> Float[Array, " sensor"]:
        """Of a reading by itself, whatever others of its group say."""
        own, shared = super().noise_sd(predicted, z) ** 2, self.shared(z, predicted.dtype)
        for name in (LEVEL, DRIFT):
            if name in shared:
                own = own + shared[name] ** 2
        return jnp.sqrt(own)

    def factor(self, predicted: Float[Array, " sensor"], z: PyTree) -> AbstractFactor:
        own, shared = super().noise_sd(predicted, z), self.shared(z, predicted.dtype)
        result: AbstractFactor = Independent(own)
        if self.lanes is not None:
            result = drift_filter(self.lanes, own, shared[DRIFT], shared[MEMORY])
        if LEVEL not in shared:
            return result
        ones = result.white(jnp.ones(self.group.shape, own.dtype))
        sums = jax.ops.segment_sum(ones**2, self.group, self.num_groups)
        return WithLevels(result, shared[LEVEL], self.group, ones, shared[LEVEL] ** 2 * sums)

    @property
    def observation_distribution(self) -> AbstractObservationDistribution:
        return NormalSumDistribution(tuple(name for name in self.scales() if name != MEMORY))

    def describe(self) -> str:
        parts = [] if self.level_sd is None else [f"a level ({scale_text(self.level_sd)})"]
        if self.drift_sd is not None and self.correlation_time is not None:
            memory = scale_text(self.correlation_time, "correlation time")
            parts += [f"a drift ({scale_text(self.drift_sd)}, {memory})"]
        return (
            f"normal, {scale_text(self.sd)}; readings of each of {self.num_groups} groups share "
            f"{' and '.join(parts)}"
        )


def group_numbers(groups: Any) -> Int[np.ndarray, " sensor"]:
    """Groups by number, in the order of their names."""
    names = np.asarray(groups)
    if names.ndim != 1 or not len(names):
        raise RieszError(f"groups has shape {names.shape}: give the group of each reading.")
    missing = np.array([one is None or one != one or one == "" for one in names.tolist()])  # noqa: PLR0124
    if missing.any():
        raise RieszError(
            f"reading {int(np.argmax(missing))} has no group ({int(missing.sum())} of "
            f"{len(names)} are like that): name the group of each reading."
        )
    names = names.astype(str) if names.dtype.kind == "O" else names
    return np.unique(names, return_inverse=True)[1].reshape(-1)


def as_reading_times(times: Any, count: int) -> Float[np.ndarray, " sensor"]:
    """Numbers; of dates, days since the first."""
    result = np.asarray(times)
    if result.dtype.kind == "M":
        seconds = result.astype("datetime64[s]").astype(float)
        result = np.where(np.isnat(result), np.nan, (seconds - seconds.min()) / SECONDS)
    result = as_numbers(result, "times")
    if result.shape != (count,):
        raise RieszError(
            f"the times have shape {result.shape}, but there are {count} groups: give one of each "
            "for each reading."
        )
    bad = ~np.isfinite(result)
    if bad.any():
        raise RieszError(
            f"the time of reading {int(np.argmax(bad))} is {result[bad][0]}: it must be finite."
        )
    return result
