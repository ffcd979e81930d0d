"""Points of the plane, from whatever users have them in."""

import numpy as np
from jaxtyping import Float

from riesz.errors import MeshError

Number = float | int | np.floating | np.integer

LARGEST = 1e100
"""Beyond any length there is, and far enough from overflow to multiply three of them."""


def as_points(positions, name: str) -> Float[np.ndarray, "point 2"]:
    """Finite planar coordinates from anything array-like, or an error that names it."""
    try:
        points = np.asarray(positions, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise MeshError(f"the {name} is not an array of coordinates ({error}).") from None
    if points.size == 0:
        points = points.reshape(0, 2)
    if points.ndim != 2 or points.shape[1] not in (2, 3):
        raise MeshError(f"the {name} has shape {points.shape}: give one row x, y for each point.")
    (bad,) = np.nonzero(~np.isfinite(points[:, :2]).all(axis=1))
    if bad.size:
        raise MeshError(
            f"the {name} has NaN or infinite coordinates in {bad.size} of {len(points)} points, "
            f"first point {bad[0]}: remove them or repair the file they came from."
        )
    (absurd,) = np.nonzero((np.abs(points[:, :2]) >= LARGEST).any(axis=1))
    if absurd.size:
        raise MeshError(
            f"the {name} has absurd coordinates in {absurd.size} of {len(points)} points, first "
            f"point {absurd[0]} at {points[absurd[0], :2].tolist()}: repair the file they came "
            "from."
        )
    return points[:, :2].copy()
