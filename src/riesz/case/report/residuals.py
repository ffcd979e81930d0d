"""The map of residuals: a dot for each place, in the colour of how far its observations are off."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from jaxtyping import Float

from riesz.case.report.charts import MapFrame, Ring, colour_codes, svg
from riesz.diagnose.criticism.findings import OBSERVATION, REGION, TAILS, Misfit

REACH = 4.0
"""Residuals in sd at which colours end."""

RINGED = (OBSERVATION, REGION, TAILS)
"""Findings that are about single places."""

HANGS = 0.7
"""k-hat above which the fit hangs on an observation."""

SIZES = ((60, 7.0), (250, 5.0), (np.inf, 3.5))
"""Of dots, by how many there are at most."""


@dataclass(frozen=True)
class Dot:
    """A place: the mean of its residuals, whether a finding is about it, and its words."""

    x: float
    y: float
    residual: float
    is_ringed: bool
    words: str


def dots_of(misfit: Misfit | None, points: Float[np.ndarray, "sensor 2"]) -> tuple[Dot, ...]:
    """None where there are no residuals."""
    if misfit is None or len(misfit.residuals) != len(points):
        return ()
    known = np.isfinite(points).all(axis=1) & np.isfinite(misfit.residuals)
    rows = np.flatnonzero(known)
    if not len(rows):
        return ()
    ringed = {i for one in misfit.findings if one.kind in RINGED for i in one.places}
    places, place = np.unique(points[rows], axis=0, return_inverse=True)
    result = []
    for number, (x, y) in enumerate(places.tolist()):
        own = rows[place.ravel() == number]
        name = "" if misfit.labels is None else misfit.labels[int(own[0])]
        result.append(
            Dot(
                x=x,
                y=y,
                residual=float(misfit.residuals[own].mean()),
                is_ringed=not ringed.isdisjoint(own.tolist()),
                words=dot_words(name, (x, y), misfit.residuals[own], misfit.k_hat[own]),
            )
        )
    return tuple(result)


def dot_words(
    name: str,
    place: tuple[float, float],
    residuals: Float[np.ndarray, " reading"],
    k_hat: Float[np.ndarray, " reading"],
) -> str:
    where = f"({place[0]:.7g}, {place[1]:.7g})"
    head = f"{name} at {where}" if name else where
    if len(residuals) == 1:
        text = f"{format_signed(residuals[0])} sd from what the others predict"
    else:
        farthest = residuals[int(np.argmax(np.abs(residuals)))]
        text = (
            f"{len(residuals)} readings, {format_signed(residuals.mean())} sd from what the others "
            f"predict on average, {format_signed(farthest)} at most"
        )
    tail = float(np.nanmax(k_hat)) if np.isfinite(k_hat).any() else np.nan
    if np.isnan(tail):
        return f"{head}: {text}"
    hangs = ", the fit hangs on it" if tail > HANGS else ""
    return f"{head}: {text}; k-hat {tail:.2f}{hangs}".replace("-", "\N{MINUS SIGN}").replace(
        "k\N{MINUS SIGN}hat", "k-hat"
    )


def format_signed(value: float) -> str:
    return f"{value:+.1f}"


def residual_map(dots: Sequence[Dot], outline: Sequence[Ring]) -> str:
    """Readable without a script; what a dot says stands in its title, too."""
    if not dots:
        return ""
    frame = MapFrame(outline)
    parts = list(frame.outline)
    radius = next(size for most, size in SIZES if len(dots) <= most)
    # Those that are far off lie on top of others.
    for one in sorted(dots, key=lambda dot: (dot.is_ringed, abs(dot.residual))):
        ((x, y),) = frame((one.x, one.y))
        kind = "dot ringed" if one.is_ringed else "dot"
        parts.append(
            f'<g class="{kind}" data-words="{escape(one.words)}"><circle cx="{x:.1f}" '
            f'cy="{y:.1f}" r="{radius:.1f}" fill="{colour(one.residual)}"/>'
            f"<title>{escape(one.words)}</title></g>"
        )
    number = sum(one.is_ringed for one in dots)
    about = f"Map of residuals at {len(dots)} places, {number} of them ringed"
    return (
        '<h3 id="residuals-title">Map of residuals</h3>'
        "<p>How far each observation lies from what all others predict for it, in standard "
        "deviations: red above, blue below. If the model is right, colours are strewn at random "
        "and few are strong. Rings mark what the words above are about.</p>"
        f'<figure id="residuals">{svg(parts, about, frame.size, "chart residuals")}'
        f'<p id="residual-words" role="status">Point at a dot to read it.</p>{legend()}</figure>'
    )


def colour(residual: float) -> str:
    return colour_codes("RdBu_r", np.array([(residual / REACH + 1) / 2]))[0]


def legend() -> str:
    stops = ",".join(colour(one) for one in np.linspace(-REACH, REACH, 9))
    marks = "".join(
        f"<span>{format_signed(one) if one else '0'}</span>".replace("-", "\N{MINUS SIGN}").replace(
            ".0", ""
        )
        for one in np.linspace(-REACH, REACH, 5)
    )
    return (
        '<figcaption><div class="residual-bar" '
        f'style="background:linear-gradient(to right,{stops})"></div>'
        f'<div class="residual-marks">{marks}</div>sd below or above what the others predict'
        "</figcaption>"
    )
