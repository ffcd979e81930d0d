"""The outline of a cloud of points: its convex or concave hull with a margin around it."""

import heapq

import numpy as np
from jaxtyping import Float, Int
from scipy.spatial import ConvexHull, Delaunay, KDTree

from riesz.errors import MeshError
from riesz.geometry.outline import Outline, outline_from, vertices_to_keep

Points = Float[np.ndarray, "n 2"]

NUM_DIRECTIONS = 16  # corners of the polygon that stands for a disc


def hull_outline(points: Points, margin: float, concave: float | None = None) -> Outline:
    """An outline that keeps about `margin` from every point, all of them inside.

    It is the convex hull of discs around the points; with `concave`, gaps in the hull wider than
    this length are dug out down to the discs (after Duckham et al. 2008).
    """
    check_cloud(points)
    if concave is not None and concave < 2 * margin:
        raise MeshError(
            f"concave={concave:.6g} is less than twice the margin {margin:.6g}: the discs around "
            "the points would be dug away; raise one or lower the other."
        )
    if concave is None:
        rim = disc_corners(points[ConvexHull(points).vertices], margin)
        ring = rim[ConvexHull(rim).vertices]
    else:
        rim = disc_corners(points, margin)
        distance, _ = KDTree(points).query(rim)
        rim = rim[distance > margin * (1 - 1e-6)]
        ring = rim[dig(rim, concave)]
    fixed = np.zeros(len(ring), dtype=bool)
    # Neighbouring discs leave edges far shorter than the margin, which would make tiny cells.
    return outline_from(ring[vertices_to_keep(ring, fixed, points, margin / 5)])


def check_cloud(points: Points) -> None:
    count = len(np.unique(points, axis=0))
    if count < 3:
        raise MeshError(f"the cloud has {count} distinct points: an outline needs at least 3.")
    spread = np.linalg.svd(points - points.mean(axis=0), compute_uv=False)
    if spread[1] <= 1e-9 * spread[0]:
        raise MeshError(
            f"the {count} points of the cloud lie on one line: they enclose no area; add points "
            "beside it, or give a polygon."
        )


def disc_corners(points: Points, radius: float) -> Float[np.ndarray, "corner 2"]:
    turn = 2 * np.pi * np.arange(NUM_DIRECTIONS) / NUM_DIRECTIONS
    circle = radius * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    return (points[:, None] + circle).reshape(-1, 2)


def dig(points: Points, longest: float) -> Int[np.ndarray, " corner"]:
    """Indices, in order, of a simple ring around all points with few edges beyond `longest`.

    From the convex hull inwards, the Delaunay cell behind the longest edge is taken away as long
    as its third corner is not on the ring yet: so the ring stays simple and loses no point.
    """
    mesh = Delaunay(points)
    after, behind = hull_ring(mesh)

    def entry(start):
        return (-float(np.linalg.norm(points[after[start]] - points[start])), start)

    queue = [entry(start) for start in after]
    heapq.heapify(queue)
    while queue and -queue[0][0] > longest:
        _, start = heapq.heappop(queue)
        end, cell = after[start], behind[start]
        corners = mesh.simplices[cell]
        apex = int(corners[(corners != start) & (corners != end)][0])
        if apex in after:
            continue
        after[start], after[apex] = apex, end
        for tail, opposite in ((start, end), (apex, start)):
            behind[tail] = int(mesh.neighbors[cell][corners == opposite][0])
            heapq.heappush(queue, entry(tail))
    return walk(after)


def hull_ring(mesh: Delaunay) -> tuple[dict[int, int], dict[int, int]]:
    """For the start of each hull edge, counter-clockwise: its end, and the cell behind it."""
    cells, corners = np.nonzero(mesh.neighbors == -1)
    starts = mesh.simplices[cells, (corners + 1) % 3].tolist()
    ends = mesh.simplices[cells, (corners + 2) % 3].tolist()
    return dict(zip(starts, ends, strict=True)), dict(zip(starts, cells.tolist(), strict=True))


def walk(after: dict[int, int]) -> Int[np.ndarray, " corner"]:
    ring = [next(iter(after))]
    while after[ring[-1]] != ring[0]:
        ring.append(after[ring[-1]])
    return np.array(ring)
