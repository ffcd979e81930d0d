"""Smoothing: free points move to even out the cells around them."""

import numpy as np
from jaxtyping import Bool, Float, Int

from riesz.mesh.mesh import cell_volumes
from riesz.mesher.corners import Rings
from riesz.mesher.refinement import conform, diameters, encroaching
from riesz.mesher.sizing import SizeField
from riesz.mesher.skeleton import Skeleton, with_points


def smooth(skeleton: Skeleton, rings: Rings, field: SizeField, num_rounds: int) -> Skeleton:
    """Move free points to the weighted mean of the centroids of their cells, and join them anew.

    This is the centroidal patch step of Chen & Holst (2011) with density $h^{-4}$, which keeps
    the grading of the size field $h$. Points on segments stay, and so does one whose move would
    encroach on a segment.
    """
    for _ in range(num_rounds):
        skeleton, survey = conform(skeleton, rings)
        cells = survey.mesh.cells[survey.inside]
        free = np.zeros(len(skeleton.points), dtype=bool)
        free[cells] = True
        free[skeleton.segments] = False
        density = field(skeleton.points) ** -4
        moved = patch_centroids(skeleton.points, cells, density)
        skeleton = move_points(skeleton, moved, free)
    return skeleton


def patch_centroids(
    points: Float[np.ndarray, "point 2"],
    cells: Int[np.ndarray, "cell 3"],
    density: Float[np.ndarray, " point"],
) -> Float[np.ndarray, "point 2"]:
    """Mean centroid of the cells around each point (if any), weighted by area and density."""
    weight = cell_volumes(points, cells) * density[cells].mean(axis=1)
    corner, share = cells.ravel(), np.repeat(weight, 3)
    total = np.bincount(corner, share, minlength=len(points))
    step = np.repeat(points[cells].mean(axis=1), 3, axis=0) - points[corner]
    pull = [np.bincount(corner, share * step[:, k], minlength=len(points)) for k in (0, 1)]
    return points + np.stack(pull, axis=1) / np.where(total > 0, total, 1)[:, None]


def move_points(
    skeleton: Skeleton, moved: Float[np.ndarray, "point 2"], free: Bool[np.ndarray, " point"]
) -> Skeleton:
    """The skeleton with free points moved, except for those that would encroach on a segment."""
    middle, length = diameters(skeleton)
    clear, _ = encroaching(moved[free], middle, length / 2)
    index = np.flatnonzero(free)[clear]
    points = skeleton.points.copy()
    points[index] = moved[index]
    return with_points(skeleton, points)
