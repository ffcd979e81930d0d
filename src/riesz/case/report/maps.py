"""Maps small enough for a page: a quantity's distribution at each pixel in a few bytes.

Mean and standard deviation take two bytes each, quantiles one each, as they stand in units of the
standard deviation about the mean. From them the probability of exceeding *any* value is computed
in the browser while a slider moves: between the quantiles the distribution is interpolated on the
scale of normal scores, which is exact where it is normal.
"""

import base64
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.stats import norm

from riesz.mesh.facets import boundary_facets
from riesz.mesh.grids import Grid, grid
from riesz.mesh.mesh import Mesh

LEVELS = (0.025, 0.1, 0.25, 0.5, 0.75, 0.9, 0.975)

LONGER_SIDE = 150
"""Pixels of a map."""

REACH = 5.0
"""Quantiles are kept up to so many standard deviations from the mean."""

DECADES = 30.0
"""Ratio of largest to smallest mean beyond which colours go by the logarithm."""


@dataclass(frozen=True, eq=False)
class FieldMap:
    """Statistics of one quantity at the pixels inside the domain."""

    name: str
    title: str
    unit: str | None
    mean: Float[np.ndarray, " pixel"]
    sd: Float[np.ndarray, " pixel"]
    quantiles: Float[np.ndarray, "level pixel"]


def map_grid(mesh: Mesh) -> Grid:
    """Square pixels over the mesh's box."""
    return grid(mesh, cell=float(np.ptp(mesh.nodes, axis=0).max()) / LONGER_SIDE)


def field_map(
    name: str, title: str, unit: str | None, draws: Float[np.ndarray, "draw pixel"]
) -> FieldMap:
    """Statistics over draws."""
    exact = draws.astype(np.float64)
    return FieldMap(
        name=name,
        title=title,
        unit=unit,
        mean=exact.mean(axis=0),
        sd=exact.std(axis=0, ddof=1),
        quantiles=np.quantile(exact, LEVELS, axis=0),
    )


def encode_map(one: FieldMap) -> dict[str, Any]:
    """What the page's script reads: base64 of little-endian numbers, and their ranges."""
    spread = np.where(one.sd > 0, one.sd, 1.0)
    scores = (one.quantiles - one.mean) / spread
    bytes_of_scores = np.rint((np.clip(scores / REACH, -1, 1) + 1) / 2 * 255).astype("<u1")
    low, high = float(one.mean.min()), float(one.mean.max())
    return {
        "name": one.name,
        "title": one.title,
        "unit": one.unit or "",
        "logarithmic": bool(low > 0 and high > DECADES * low),
        "mean": pack_values(one.mean),
        "sd": pack_values(one.sd),
        "scores": as_text(bytes_of_scores.T),
        "thresholds": thresholds(one),
    }


def thresholds(one: FieldMap) -> list[float]:
    """Where the slider begins, starts from and ends: all that the map may plausibly reach."""
    low, high = float(one.quantiles[0].min()), float(one.quantiles[-1].max())
    if not low < high:
        low, high = low - 0.5, low + 0.5
    return [low, float(np.median(one.mean)), high]


def pack_values(values: Float[np.ndarray, " pixel"]) -> dict[str, Any]:
    """Two bytes each between the smallest and the largest."""
    low, high = float(values.min()), float(values.max())
    scale = (high - low) or 1.0
    return {
        "low": low,
        "high": high,
        "data": as_text(np.rint((values - low) / scale * 65535).astype("<u2")),
    }


def as_text(values: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode()


def round_digits(values: np.ndarray, digits: int = 9) -> Any:
    """Fewer digits than a float has, which is what makes the text short."""
    return [
        round_digits(row, digits) if isinstance(row, np.ndarray) else float(f"{row:.{digits}g}")
        for row in values
    ]


def encode_grid(pixels: Grid) -> dict[str, Any]:
    """Where the pixels are, and which of them lie inside: the others have no values."""
    (xs, ys), (width, height) = pixels.axes, pixels.cell
    return {
        "columns": len(xs),
        "rows": len(ys),
        "west": float(xs[0] - width / 2),
        "south": float(ys[0] - height / 2),
        "cell": [float(width), float(height)],
        "inside": as_text(np.packbits(pixels.inside.ravel(), bitorder="little")),
        "scores_of_levels": norm.ppf(LEVELS).tolist(),
        "reach": REACH,
    }


def rings(mesh: Mesh) -> list[Float[np.ndarray, "corner 2"]]:
    """The outer rim and those of holes; a ring ends where it began, without saying so twice."""
    return [mesh.nodes[np.array(ring)] for ring in rings_of(boundary_facets(mesh).nodes)]


def rings_of(edges: Int[np.ndarray, "edge 2"]) -> list[list[int]]:
    """Walk along edges, whichever way they point, until each has been taken once."""
    at: dict[int, list[int]] = {}
    for number, edge in enumerate(edges.tolist()):
        for node in edge:
            at.setdefault(node, []).append(number)
    left, result = set(range(len(edges))), []
    while left:
        number = min(left)
        left.remove(number)
        start, node = edges[number].tolist()
        ring = [start]
        while node != start:
            ring.append(node)
            number = next(one for one in at[node] if one in left)
            left.remove(number)
            first, second = edges[number].tolist()
            node = second if first == node else first
        result.append(ring)
    return result
