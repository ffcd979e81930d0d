r"""Unknowns whose posterior lies where their prior had next to nothing.

In coordinates that are standard normal before the data, the posterior mean of data that the model
made is normal with covariance $I - V$, with that of the posterior, $V$ (exact where all is linear
and normal; Evans & Moshonov 2006 on the check). Numbers are looked at one by one, fields by the
length of what was learned of them.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import chdtrc, erfc

from riesz.arrays import on_device
from riesz.diagnose.contradiction.findings import LEVELS, PRIOR, Finding
from riesz.latent.latent import LatentSpace, Parametric
from riesz.latent.regions import RegionValues

LEARNED = 0.1
"""Share of the prior's variance that data must have taken away: of the rest the prior is all."""

DRAWS_EACH = 4
"""Draws for each coordinate from which a covariance is known."""

ENDS = (-1.96, 0.0, 1.96)

Draws = Float[np.ndarray, "draw coordinate"]


class Conflict(NamedTuple):
    """How improbable the posterior of one thing is before the data, and where it lies."""

    name: str  # of the unknown
    label: str
    column: int | None  # of its coordinate; none: of a field
    p: float
    size: float  # in sd of the prior; of a field, of all that was learned over what is usual


def prior_conflicts(latents: LatentSpace, coordinates: Draws) -> list[Finding]:
    """By draws of the posterior's coordinates."""
    found = list(conflicts(latents, coordinates))
    count = max(len(found), 1)
    told = [one for one in found if one.p * count <= LEVELS[PRIOR]]
    order = sorted(told, key=lambda one: one.p)
    return [in_words(one, latents, coordinates, min(one.p * count, 1.0)) for one in order]


def conflicts(latents: LatentSpace, coordinates: Draws) -> Iterator[Conflict]:
    labels = latents.coordinate_names()
    for name, part in latents.slices().items():
        latent = latents.latents[name]
        is_number = isinstance(latent, Parametric | RegionValues)
        singles = range(part.start, part.stop if is_number else part.start + latent.num_scales)
        for column in singles:
            own = coordinates[:, column]
            share = 1 - own.var(ddof=1)
            if share > LEARNED:
                size = float(own.mean() / np.sqrt(share))
                p = float(erfc(abs(size) / np.sqrt(2)))
                yield Conflict(name, labels[column], column, p, float(own.mean()))
        if not is_number and part.stop > singles.stop:
            found = of_field(coordinates[:, singles.stop : part.stop])
            if found is not None:
                yield Conflict(name, name, None, *found)


def of_field(own: Draws) -> tuple[float, float] | None:
    """The probability of a larger length of what was learned, and this over the usual one."""
    mean, num_draws = own.mean(axis=0), len(own)
    if num_draws >= DRAWS_EACH * own.shape[1]:
        shares, along = np.linalg.eigh(np.eye(own.shape[1]) - np.cov(own, rowvar=False))
        kept = shares > LEARNED
        if not kept.any():
            return None
        square, size = float(np.sum((along.T @ mean)[kept] ** 2 / shares[kept])), int(kept.sum())
    else:
        # Too few draws for directions. Shares are one at most: no sum of them scatters more.
        spread = own.var(axis=0, ddof=1)
        size = float(np.sum(1 - spread))
        square = float(np.sum(mean**2) - spread.sum() / num_draws)
        if size < 1:
            return None
    return float(chdtrc(size, max(square, 0.0))), float(np.sqrt(max(square, 0.0) / size))


def in_words(one: Conflict, latents: LatentSpace, coordinates: Draws, p: float) -> Finding:
    if one.column is None:
        words = (
            f"The data pull the field {one.label} to where its prior had next to nothing: what was "
            f"learned of it is {one.size:.1f} times as far from its mean as the prior expects. Its "
            "mean or sd may be off, its length scale too long, or it makes up for something that "
            "the equation misses."
        )
        return Finding(PRIOR, words, (one.name,), (), p)
    side = "above" if one.size > 0 else "below"
    words = (
        f"The data pull {one.label} to where its prior had next to nothing: its posterior mean "
        f"lies {abs(one.size):.1f} prior sd {side} the prior's median"
        f"{values(one, latents, coordinates)}. State the prior anew, or look for what the equation "
        "misses that it makes up for."
    )
    return Finding(PRIOR, words, (one.name,), (), p)


def values(one: Conflict, latents: LatentSpace, coordinates: Draws) -> str:
    """The posterior's mean and the prior's interval in their unit, of numbers that have one."""
    latent, part = latents.latents[one.name], latents.slices()[one.name]
    if not isinstance(latent, Parametric | RegionValues) or one.column is None:
        return ""
    rows = np.repeat(coordinates.mean(axis=0)[None], 4, axis=0)
    rows[1:, one.column] = ENDS
    own = LatentSpace({one.name: latent}, (one.name,))
    found = own.of_draws(on_device(rows[:, part]))[one.name]
    now, low, middle, high = np.asarray(found).reshape(4, -1)[:, one.column - part.start]
    return f" ({now:.4g}; prior {middle:.4g}, 95 % within {low:.4g} to {high:.4g})"
