r"""Unknowns whose posterior lies where their prior had next to nothing.

In coordinates that are standard normal before the data, the posterior mean of data that the model
made is normal with covariance $I - V$, with that of the posterior, $V$ (exact where all is linear
and normal; Evans & Moshonov 2006 on the check). Numbers are looked at one by one, fields by the
length of what was learned of them, and by their level: a mean that is off by the same everywhere
is one direction of many, and the length of all of them hardly tells it.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import chdtrc, erfc

from riesz.arrays import on_device
from riesz.diagnose.criticism.findings import LEVELS, PRIOR, TOLD, Finding
from riesz.notes import Note
from riesz.priors.latent import LatentSpace, Parametric
from riesz.priors.regions import RegionValues

LEARNED = 0.1
"""Share of the prior's variance that data must have taken away: of the rest the prior is all."""

DRAWS_EACH = 4
"""Draws for each coordinate from which a covariance is known."""

EXPLAINED = 0.99
"""Share of a level's variance that must be linear in the coordinates to be a direction of them."""

ENDS = (-1.96, 0.0, 1.96)

Draws = Float[np.ndarray, "draw coordinate"]
Each = Float[np.ndarray, " draw"]

NUMBER, FIELD, LEVEL = "number", "field", "level"


class Conflict(NamedTuple):
    """How improbable the posterior of one thing is before the data, and where it lies."""

    name: str  # of the unknown
    kind: str
    column: int  # of its first coordinate
    p: float
    size: float  # in sd of the prior; of a field, of all that was learned over what is usual


def prior_conflicts(
    latents: LatentSpace, coordinates: Draws, levels: Mapping[str, Each]
) -> list[Finding]:
    """By draws of the posterior's coordinates, and of the means over the map that fields have (of
    their logarithms, where these are what is normal)."""
    result = list(conflicts(latents, coordinates, levels))
    count = max(len(result), 1)
    told: dict[tuple[str, int], Conflict] = {}
    for one in sorted(result, key=lambda one: one.p):
        # Of many dimensions, what is next to nothing can be sure.
        if one.p * count <= LEVELS[PRIOR] and (one.kind != FIELD or one.size >= 1 + TOLD):
            told.setdefault((one.name, one.column), one)  # of a field what is surer
    return [
        Finding(PRIOR, note_of(one, latents, coordinates), (one.name,), (), min(one.p * count, 1.0))
        for one in told.values()
    ]


def conflicts(
    latents: LatentSpace, coordinates: Draws, levels: Mapping[str, Each]
) -> Iterator[Conflict]:
    for name, part in latents.slices().items():
        latent = latents.latents[name]
        is_number = isinstance(latent, Parametric | RegionValues)
        singles = range(part.start, part.stop if is_number else part.start + latent.num_scales)
        results = [(NUMBER, column, of_number(coordinates[:, column])) for column in singles]
        if not is_number and part.stop > singles.stop:
            own = coordinates[:, singles.stop : part.stop]
            results.append((FIELD, singles.stop, of_field(own)))
            if name in levels:
                results.append((LEVEL, singles.stop, of_level(own, levels[name])))
        for kind, column, result in results:
            if result is not None:
                yield Conflict(name, kind, column, *result)


def of_number(own: Each) -> tuple[float, float] | None:
    """The probability of a place farther out, and the place, in sd of the prior."""
    share = 1 - own.var(ddof=1)
    if share <= LEARNED:
        return None
    size = own.mean() / np.sqrt(share)
    return float(erfc(abs(size) / np.sqrt(2))), float(own.mean())


def of_level(own: Draws, level: Each) -> tuple[float, float] | None:
    """The same of the direction in which the level moves."""
    if len(own) < DRAWS_EACH * own.shape[1]:
        return None
    about, moved = own - own.mean(axis=0), level - level.mean()
    slopes, *_ = np.linalg.lstsq(about, moved, rcond=None)
    size = np.linalg.norm(slopes)
    if not size > 0 or np.sum((moved - about @ slopes) ** 2) > (1 - EXPLAINED) * np.sum(moved**2):
        return None
    return of_number(own @ slopes / size)


def of_field(own: Draws) -> tuple[float, float] | None:
    """The probability of a larger length of what was learned, and this over the usual one."""
    mean, num_draws = own.mean(axis=0), len(own)
    if num_draws >= DRAWS_EACH * own.shape[1]:
        shares, along = np.linalg.eigh(np.eye(own.shape[1]) - np.cov(own, rowvar=False))
        informed = shares > LEARNED
        if not informed.any():
            return None
        square, size = (
            float(np.sum((along.T @ mean)[informed] ** 2 / shares[informed])),
            int(informed.sum()),
        )
    else:
        # Too few draws for directions. Shares are one at most: no sum of them scatters more.
        spread = own.var(axis=0, ddof=1)
        size = float(np.sum(1 - spread))
        square = float(np.sum(mean**2) - spread.sum() / num_draws)
        if size < 1:
            return None
    return float(chdtrc(size, max(square, 0.0))), float(np.sqrt(max(square, 0.0) / size))


def note_of(one: Conflict, latents: LatentSpace, coordinates: Draws) -> Note:
    if one.kind != NUMBER:
        return Note(
            "prior_field" if one.kind == FIELD else "prior_level", field=one.name, size=one.size
        )
    unknown = latents.coordinate_names()[one.column]
    return Note(
        "prior_number", unknown=unknown, size=one.size, **in_units(one, latents, coordinates)
    )


def in_units(one: Conflict, latents: LatentSpace, coordinates: Draws) -> dict[str, float]:
    """The posterior's mean and the prior's interval in their unit, of numbers that have one."""
    latent, part = latents.latents[one.name], latents.slices()[one.name]
    if not isinstance(latent, Parametric | RegionValues):
        return {}
    rows = np.repeat(coordinates.mean(axis=0)[None], 4, axis=0)
    rows[1:, one.column] = ENDS
    own = LatentSpace({one.name: latent}, (one.name,))
    result = own.of_draws(on_device(rows[:, part]))[one.name]
    numbers = np.asarray(result).reshape(4, -1)[:, one.column - part.start].tolist()
    return dict(zip(("mean", "low", "median", "high"), numbers, strict=True))
