"""Numbers, points, directions, areas and lines as users give them: arrays that were looked at."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from riesz.errors import RieszError
from riesz.geometry.lines import polygons_of

Points = Float[np.ndarray, "sensor dim"]


def as_numbers(values: Any, name: str) -> Float[np.ndarray, "..."]:
    if np.iscomplexobj(values):
        raise RieszError(f"the observed {name} are complex: give real numbers.")
    try:
        if isinstance(values, np.ma.MaskedArray):
            return np.ma.filled(values.astype(float), np.nan)
        return np.asarray(values, float)
    except (TypeError, ValueError) as error:
        raise RieszError(f"the observed {name} are not all numbers ({error}).") from None


def as_point_rows(points: Any) -> Points:
    """One row of coordinates a point; on an interval, numbers will do."""
    result = as_numbers(points, "coordinates")
    result = result[:, None] if result.ndim == 1 else np.atleast_2d(result)
    if result.ndim != 2:
        raise RieszError(f"the points have shape {result.shape}: give one row of coordinates each.")
    bad = np.argwhere(~np.isfinite(result))
    if len(bad):
        raise RieszError(
            f"{len(bad)} of the observed coordinates are NaN or infinite, first in observation "
            f"{bad[0][0]}: remove or fill them."
        )
    return result


def as_vectors(directions: Any) -> Float[np.ndarray, "..."]:
    return as_numbers(directions, "directions")


def unit_vectors(
    given: Float[np.ndarray, "..."], count: int, dim: int
) -> Float[np.ndarray, "sensor dim"]:
    """One for each sensor, from one for all or one each."""
    if given.shape not in ((dim,), (count, dim)):
        raise RieszError(
            f"the directions have shape {given.shape}: give one of {dim} components, or one for "
            f"each of {count} observations."
        )
    lengths = np.linalg.norm(given, axis=-1, keepdims=True)
    if not (np.isfinite(lengths).all() and (lengths > 0).all()):
        raise RieszError("a direction has no length: give a vector that is not zero.")
    return np.broadcast_to(given / lengths, (count, dim))


def as_areas(areas: Any) -> tuple[Any, ...]:
    """Names of regions, pairs of numbers, and rings of polygons, all as arrays."""
    if isinstance(areas, str | np.ndarray):
        raise RieszError("areas are given as a list, one for each value: write AverageOver([area])")
    return tuple(one if isinstance(one, str) else as_area(one) for one in areas)


def as_area(area: Any) -> Any:
    if isinstance(area, Sequence | np.ndarray) and np.ndim(area[0]) == 0:
        return as_numbers(area, "areas")
    return tuple(map(tuple, polygons_of(area)))


def as_lines(lines: Any) -> tuple[Any, ...]:
    return tuple(as_numbers(one, "lines") for one in lines)


def as_names(tags: Any) -> tuple[str, ...]:
    return (tags,) if isinstance(tags, str) else tuple(tags)
