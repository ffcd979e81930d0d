"""Charts as SVG, drawn by hand: small, sharp on any screen, and readable without a script."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from matplotlib import colormaps
from matplotlib.ticker import LogLocator, MaxNLocator

WIDTH, HEIGHT = 420.0, 320.0
LEFT, RIGHT, TOP, BOTTOM = 62.0, 12.0, 12.0, 46.0
COLOURS = ("#1f5fa8", "#b5541c", "#2c7a4b", "#7a4fa3", "#8a6d1d", "#555555")
MOST_POINTS = 300
"""Of a curve: more would not be seen."""


@dataclass(frozen=True)
class Scale:
    """From values to pixels, linear or logarithmic."""

    low: float
    high: float
    first: float
    last: float
    logarithmic: bool = False

    def __call__(self, value: float) -> float:
        low, high, at = self.low, self.high, value
        if self.logarithmic:
            low, high, at = math.log(low), math.log(high), math.log(max(value, 1e-300))
        share = (at - low) / (high - low)
        return self.first + min(max(share, -0.1), 1.1) * (self.last - self.first)

    def ticks(self, count: int = 5, *, whole: bool = False) -> list[float]:
        if self.logarithmic and self.high / self.low >= 10:
            # Powers of ten alone would be one or two marks.
            within = (1.0, 2.0, 5.0) if self.high / self.low < 100 else (1.0,)
            marks = LogLocator(subs=within, numticks=count + 1).tick_values(self.low, self.high)
        else:
            marks = MaxNLocator(count, integer=whole).tick_values(self.low, self.high)
        slack = 1e-9 * (self.high - self.low)
        return [float(m) for m in marks if self.low - slack <= m <= self.high + slack]


def spanning(values: Sequence[float], first: float, last: float, *, log: bool = False) -> Scale:
    """A scale with all values and a little room; one value alone gets some, too."""
    low, high = min(values), max(values)
    if log:
        room = (high / low) ** 0.04 if high > low else 2.0
        return Scale(low / room, high * room, first, last, logarithmic=True)
    room = 0.04 * (high - low) or 0.5 * (abs(high) or 1.0)
    return Scale(low - room, high + room, first, last)


def digits(value: float) -> str:
    """Four digits, with a real minus."""
    text = f"{value:.4g}"
    if "e" in text:
        mantissa, exponent = text.split("e")
        text = f"{mantissa}e{int(exponent)}"
    return text.replace("-", "\N{MINUS SIGN}")


def frame(x: Scale, y: Scale, x_label: str, y_label: str, *, whole: bool = False) -> list[str]:
    """Axes with ticks and names; names come from users and are escaped."""
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts = [
        f'<path class="axis" d="M{LEFT} {TOP}V{bottom}H{right}"/>',
        text((LEFT + right) / 2, HEIGHT - 8, x_label, "middle"),
        f'<text transform="translate(13 {(TOP + bottom) / 2:.1f}) rotate(-90)" '
        f'text-anchor="middle">{escape(y_label)}</text>',
    ]
    for value in x.ticks(whole=whole):
        at = x(value)
        parts.append(f'<path class="grid" d="M{at:.1f} {TOP}V{bottom}"/>')
        parts.append(text(at, bottom + 16, digits(value), "middle"))
    for value in y.ticks():
        at = y(value)
        parts.append(f'<path class="grid" d="M{LEFT} {at:.1f}H{right}"/>')
        parts.append(text(LEFT - 5, at + 4, digits(value), "end"))
    return parts


def text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def svg(
    parts: Sequence[str],
    description: str,
    size: Sequence[float] = (WIDTH, HEIGHT),
    kind: str = "chart",
) -> str:
    return (
        f'<svg class="{kind}" viewBox="0 0 {size[0]:.0f} {size[1]:.0f}" role="img" '
        f'aria-label="{escape(description)}">{"".join(parts)}</svg>'
    )


def rgb(name: str, shares: Any) -> list[list[int]]:
    """Rows of a colour map."""
    return np.rint(255 * colormaps[name](np.clip(shares, 0, 1))[:, :3]).astype(int).tolist()


def colour_codes(name: str, shares: Any) -> list[str]:
    return [f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue in rgb(name, shares)]


Ring = Float[np.ndarray, "corner 2"]


class MapFrame:
    """From places to pixels of a map, and the outline there; a narrow domain is not higher than a
    square one, or it would fill a screen."""

    width, margin = 560.0, 14.0

    def __init__(self, outline: Sequence[Ring]):
        corners = np.concatenate(list(outline))
        self.low, extent = corners.min(axis=0), np.ptp(corners, axis=0)
        self.scale = (self.width - 2 * self.margin) / float(extent.max())
        self.size = (self.scale * extent + 2 * self.margin).tolist()
        self.outline = [
            f'<polygon class="axis" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in self(ring))}">'
            "</polygon>"
            for ring in outline
        ]

    def __call__(self, points: Any) -> Float[np.ndarray, "point 2"]:
        x, y = ((np.asarray(points, float).reshape(-1, 2) - self.low) * self.scale).T
        return np.column_stack([x + self.margin, self.size[1] - self.margin - y])


def data_fit(
    measured: Float[np.ndarray, " sensor"],
    predicted: Float[np.ndarray, " sensor"],
    low: Float[np.ndarray, " sensor"],
    high: Float[np.ndarray, " sensor"],
    label: str,
    censored: Bool[np.ndarray, " sensor"] | None = None,
    *,
    logarithmic: bool = False,
) -> str:
    """Predictions with their intervals against measurements, and the line of equality.

    Measurements that are only known to lie below a limit are triangles at the limit, which point
    to where the value is; they miss where the whole interval lies above.
    """
    limits = np.zeros(len(measured), dtype=bool) if censored is None else censored
    both = [*measured.tolist(), *predicted.tolist()]
    x = spanning(both, LEFT, WIDTH - RIGHT, log=logarithmic)
    y = spanning([*both, *low.tolist(), *high.tolist()], HEIGHT - BOTTOM, TOP, log=logarithmic)
    ends = (x.low, x.high)
    label = f"{label}, logarithmic" if logarithmic else label
    parts = frame(x, y, f"measured {label}", f"predicted {label}")
    parts.append(
        f'<path class="equal" d="M{x(ends[0]):.1f} {y(ends[0]):.1f}'
        f'L{x(ends[1]):.1f} {y(ends[1]):.1f}"/>'
    )
    num_outside = num_above = 0
    for value, middle, below, above, limit in zip(
        measured, predicted, low, high, limits, strict=True
    ):
        outside = value < below or (value > above and not limit)
        num_outside += outside and not limit
        num_above += outside and limit
        kind = ("outside" if outside else "inside") + (" limit" if limit else "")
        dot = f'<circle cx="{x(value):.1f}" cy="{y(middle):.1f}" r="2.6"/>'
        mark = triangle(x(value), y(middle)) if limit else dot
        parts.append(
            f'<g class="{kind}"><path d="M{x(value):.1f} {y(below):.1f}V{y(above):.1f}"/>{mark}</g>'
        )
    description = (
        f"{(~limits).sum()} measurements against predictions; {num_outside} lie outside their 95 % "
        "interval"
    )
    if limits.any():
        description += (
            f"; {limits.sum()} more are limits, {num_above} of them below the whole interval"
        )
    return svg(parts, description)


def triangle(x: float, y: float) -> str:
    """Points to smaller values."""
    return f'<path class="mark" d="M{x - 7:.1f} {y:.1f}l7 -4v8z"/>'


def curve(name: str, lines: Float[np.ndarray, "line step"]) -> str:
    """A curve over the steps of a training, or one line a chain; thinned where it is long."""
    finite = lines[np.isfinite(lines)]
    if not finite.size:
        return ""
    log = bool(finite.min() > 0 and finite.max() > 20 * finite.min())
    y = spanning([float(finite.min()), float(finite.max())], HEIGHT - BOTTOM, TOP, log=log)
    x = Scale(0.0, float(lines.shape[1] - 1), LEFT, WIDTH - RIGHT)
    chosen = np.unique(np.linspace(0, lines.shape[1] - 1, MOST_POINTS).astype(int))
    parts = frame(x, y, "step", name, whole=True)
    for i, line in enumerate(lines):
        points = " ".join(
            f"{x(float(step)):.1f},{y(float(line[step])):.1f}"
            for step in chosen
            if np.isfinite(line[step])
        )
        colour = COLOURS[i % len(COLOURS)]
        parts.append(f'<polyline class="line" stroke="{colour}" points="{points}"/>')
    return svg(
        parts, f"{name} over {lines.shape[1]} steps, ending at {digits(float(lines[0, -1]))}"
    )


def interval_bar(prior: tuple[float, float, float], posterior: tuple[float, float, float]) -> str:
    """Intervals before (grey) and after the data (blue) on one scale, with their medians."""
    ends = [*prior, *posterior]
    log = min(ends) > 0 and max(ends) > 20 * min(ends)
    x = spanning(ends, 4.0, 196.0, log=log)
    parts = []
    for kind, y, (low, middle, high) in (("prior", 9, prior), ("posterior", 21, posterior)):
        width = max(x(high) - x(low), 1.0)
        parts.append(
            f'<rect class="{kind}" x="{x(low):.1f}" y="{y - 4}" width="{width:.1f}" height="8"/>'
            f'<path class="median" d="M{x(middle):.1f} {y - 5}v10"/>'
        )
    description = f"prior {format_interval(prior)}, posterior {format_interval(posterior)}"
    return svg(parts, description, (200.0, 30.0), "bar")


def format_interval(ends: tuple[float, float, float]) -> str:
    return f"{digits(ends[1])} ({digits(ends[0])} to {digits(ends[2])})"
