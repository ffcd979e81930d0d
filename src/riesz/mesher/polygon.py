"""Triangle meshes of polygons and of clouds of points, by Delaunay refinement (Ruppert 1995)."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike
from scipy.sparse.csgraph import reverse_cuthill_mckee

from riesz.errors import MeshError, error_context
from riesz.geometry.hull import hull_outline
from riesz.geometry.lines import Line, Number, as_points, lines_of
from riesz.geometry.outline import (
    Outline,
    check_points_inside,
    outline_edges,
    outline_from,
    simplify_outline,
)
from riesz.mesh.facets import boundary_facets, node_neighbours
from riesz.mesh.mesh import BOUNDARY, Mesh, cell_volumes, drop_unused_nodes
from riesz.mesh.rows import pair_keys
from riesz.mesher import refinement
from riesz.mesher.sizing import SizeField, uniform_size, with_sources
from riesz.mesher.skeleton import RING_TAGS, Rings, Skeleton, cut_corners, skeleton_of, with_points

MIN_ANGLE = 25.0  # degrees; proven to end up to 20.7, and seen to end well beyond
NUM_SMOOTHINGS = 10
MAX_CELLS = 1e7
SLACK = 1 + 1e-9


def with_locality(mesh: Mesh) -> Mesh:
    """The same mesh, its nodes in the order of Cuthill & McKee (1969), reversed, and its cells
    by their nodes.

    Large meshes are assembled faster so; the order of nodes and cells changes, tags follow.
    """
    order = reverse_cuthill_mckee(node_neighbours(mesh).astype(np.int8), symmetric_mode=True)
    new_index = np.empty_like(order)
    new_index[order] = np.arange(len(order))
    cells = new_index[mesh.cells].astype(np.int64)
    cell_order = np.lexsort((cells.max(axis=1), cells.min(axis=1)))
    new_cell = np.empty_like(cell_order)
    new_cell[cell_order] = np.arange(len(cell_order))
    facets = {name: np.sort(new_index[f].astype(np.int64)) for name, f in mesh.facets.items()}
    regions = {name: np.sort(new_cell[cells_in]) for name, cells_in in mesh.regions.items()}
    return Mesh(mesh.nodes[order], cells[cell_order], facets, regions)


def smooth(skeleton: Skeleton, rings: Rings, field: SizeField, num_rounds: int) -> Skeleton:
    """Move free points to the weighted mean of the centroids of their cells, and join them anew.

    This is the centroidal patch step of Chen & Holst (2011) with density $h^{-4}$, which keeps
    the grading of the size field $h$. Points on segments stay, and so does one whose move would
    encroach on a segment.
    """
    for _ in range(num_rounds):
        skeleton, survey = refinement.conform(skeleton, rings)
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
    middle, length = refinement.diameters(skeleton)
    clear, _ = refinement.encroaching(moved[free], middle, length / 2)
    index = np.flatnonzero(free)[clear]
    points = skeleton.points.copy()
    points[index] = moved[index]
    return with_points(skeleton, points)


def mesh_from_polygon(
    polygon: Any,
    *,
    max_edge: float | int,
    min_edge: float | None = None,
    refine_near: ArrayLike | None = None,
    near_edge: float | None = None,
    grading: float = 0.3,
    simplify: float | None = None,
    keep_inside: ArrayLike | None = None,
    lines: Mapping[str, Any] | None = None,
) -> Mesh:
    """A graded triangle mesh of a polygon, possibly with holes or in several parts.

    `polygon` is an array of vertices, a GeoJSON-like mapping or anything with
    `__geo_interface__`; all lengths are in its unit.

    - No edge is longer than `max_edge`. Near the points `refine_near` edges are about `near_edge`
      (by default a quarter of `max_edge`) and grow from there by `grading` per unit of distance.
    - All vertices of the outline are nodes, and its edges are unions of mesh edges, so short edges
      and narrow necks make small cells. Cells grow away from them by `grading` too; sizes below
      `min_edge` are not asked for, only what the outline forces.
    - With the length `simplify`, the outline first loses vertices that matter less than that. It
      stays simple, its area changes by 1 % at most, `refine_near` and `keep_inside` stay inside.
    - `lines` are polylines inside the domain, such as rivers, which become unions of edges. Each
      name has an array of vertices, several of them, or GeoJSON as for `polygon`.

    All angles are at least 20 degrees, but for cells in corners of the outline that are sharper.
    Facets are tagged "outer" on shells, "holes" on holes and by name on lines.
    """
    outline = outline_from(polygon)
    near = optional_points(refine_near, "refine_near")
    fixed_points = np.concatenate([near, optional_points(keep_inside, "keep_inside")])
    check_points_inside(outline, near, "refine_near")
    check_points_inside(outline, fixed_points[len(near) :], "keep_inside")
    field = size_field(near, max_edge, min_edge, near_edge, grading)
    if simplify is not None:
        check_positive_length("simplify", simplify)
        outline = simplify_outline(outline, simplify, fixed_points)
    check_cell_count(outline, max_edge)
    skeleton, names = skeleton_of(outline, lines_by_name(lines))
    rings = outline_edges(outline)
    skeleton, survey = fill(skeleton, rings, field, min_edge or 0.0)
    return extract_mesh(skeleton, survey, names, outline.area)


def mesh_from_points(
    points: ArrayLike,
    *,
    max_edge: float,
    margin: float | None = None,
    concave: float | None = None,
    min_edge: float | None = None,
    near_edge: float | None = None,
    grading: float = 0.3,
    lines: Mapping[str, Any] | None = None,
) -> Mesh:
    """A triangle mesh of the surroundings of a cloud of points, all of them inside.

    The outline is the convex hull of the cloud, widened by `margin` (by default `max_edge`); with
    the length `concave`, gaps in it that are wider are dug out. With `near_edge`, edges near the
    points have about that length. The rest is as in `mesh_from_polygon`.
    """
    cloud = as_points(points, "cloud of points")
    check_positive_length("max_edge", max_edge)
    margin = max_edge if margin is None else check_positive_length("margin", margin)
    if concave is not None:
        check_positive_length("concave", concave)
    return mesh_from_polygon(
        hull_outline(cloud, margin, concave),
        max_edge=max_edge,
        min_edge=min_edge,
        refine_near=cloud if near_edge is not None else None,
        near_edge=near_edge,
        grading=grading,
        keep_inside=cloud,
        lines=lines,
    )


def optional_points(points: ArrayLike | None, name: str) -> Float[np.ndarray, "n 2"]:
    return np.zeros((0, 2)) if points is None else as_points(points, name)


def check_positive_length(name: str, value: Any) -> float:
    if not (isinstance(value, Number) and 0 < value < np.inf):
        raise MeshError(f"{name} is {value!r}: give a positive length in the outline's unit.")
    return float(value)


def check_cell_count(outline: Outline, max_edge: float | int) -> None:
    num_cells = outline.area / (np.sqrt(3) / 4 * max_edge**2)
    if num_cells > MAX_CELLS:
        raise MeshError(
            f"max_edge={max_edge:.6g} asks for {num_cells:.2g} cells or more in an area of "
            f"{outline.area:.6g}: raise it; it is a length in the outline's unit."
        )


def size_field(near, max_edge, min_edge, near_edge, grading) -> SizeField:
    max_edge = check_positive_length("max_edge", max_edge)
    if not (isinstance(grading, Number) and 0 < grading <= 1):
        raise MeshError(f"grading is {grading!r}: give the growth of edges per length, in (0, 1].")
    if near_edge is not None and not len(near):
        raise MeshError("near_edge is given without points: say where by refine_near.")
    near_edge = max_edge / 4 if near_edge is None else near_edge
    for name, value in (("min_edge", min_edge), ("near_edge", near_edge)):
        if value is not None and check_positive_length(name, value) > max_edge:
            raise MeshError(f"{name} is {value:.6g}, more than max_edge {max_edge:.6g}: lower it.")
    wanted = max(near_edge, min_edge or 0.0)
    return with_sources(uniform_size(max_edge, float(grading)), near, np.full(len(near), wanted))


def lines_by_name(lines: Mapping[str, Any] | None) -> dict[str, list[Line]]:
    """The lines of each name, checked."""
    named = {}
    for name, geometry in (lines or {}).items():
        if name in (*RING_TAGS, BOUNDARY):
            raise MeshError(f"a line is named {name!r}, which tags the outline: rename it.")
        with error_context(f"line {name!r}"):
            named[name] = lines_of(geometry)
        if any(len(np.unique(line, axis=0)) < 2 for line in named[name]):
            raise MeshError(f"line {name!r} has fewer than 2 distinct vertices: drop it.")
    return named


def fill(
    skeleton: Skeleton, rings: Rings, field: SizeField, floor: float
) -> tuple[Skeleton, refinement.Survey]:
    """Points throughout the domain such that all its cells are small and round enough."""
    skeleton = cut_corners(skeleton, field, rings)
    skeleton, survey = refinement.conform(skeleton, rings, field)
    skeleton, field = adapt_to_details(skeleton, survey, rings, field, floor)
    # First only the right density: what smoothing cannot mend, the last pass does.
    skeleton, _ = refinement.refine_triangulation(
        skeleton, rings, partial(too_large, field), split=False, settle=0.005
    )
    skeleton = smooth(skeleton, rings, field, NUM_SMOOTHINGS)
    return refinement.refine_triangulation(skeleton, rings, partial(too_poor, field), split=True)


def adapt_to_details(
    skeleton: Skeleton, survey: refinement.Survey, rings: Rings, field: SizeField, floor: float
) -> tuple[Skeleton, SizeField]:
    """Segments and size field graded away from short segments and narrow necks."""
    while True:
        adapted = with_sources(field, skeleton.points, np.maximum(details(skeleton, survey), floor))
        # Halves of what is longer than twice the claim stay above it: so this comes to an end.
        refined, survey = refinement.conform(skeleton, rings, adapted, slack=2.0)
        if len(refined.points) == len(skeleton.points):
            return skeleton, adapted
        skeleton = refined


def details(skeleton: Skeleton, survey: refinement.Survey) -> Float[np.ndarray, " point"]:
    """How small the skeleton is around each point: its segments, and what lies across from it."""
    _, length = refinement.diameters(skeleton)
    apex, distance = refinement.opposite_points(survey, skeleton)
    smallest = np.full(len(skeleton.points), np.inf)
    np.minimum.at(smallest, skeleton.segments, np.minimum(length, distance.min(axis=1))[:, None])
    seen = np.isfinite(distance)
    np.minimum.at(smallest, apex[seen], distance[seen])
    return smallest


def too_large(field: SizeField, lengths, centres, radii) -> Bool[np.ndarray, " cell"]:
    """Whether the equilateral cell in the same circle has edges beyond the size field."""
    return np.sqrt(3) * radii > field(centres)


def too_poor(field: SizeField, lengths, centres, radii) -> Bool[np.ndarray, " cell"]:
    """Whether a cell has a small angle, an edge beyond `max_edge`, or far more than its size."""
    thin = lengths.min(axis=1) < 2 * radii * np.sin(np.deg2rad(MIN_ANGLE))
    long = lengths.max(axis=1) > field.largest * SLACK
    return thin | long | (np.sqrt(3) * radii > 1.5 * field(centres))


def extract_mesh(
    skeleton: Skeleton, survey: refinement.Survey, names: tuple[str, ...], area: float
) -> Mesh:
    """The cells inside the domain as a mesh, with its tagged facets."""
    nodes, cells, new_index = drop_unused_nodes(
        survey.mesh.points, survey.mesh.cells[survey.inside]
    )
    total = cell_volumes(nodes, cells).sum()
    if abs(total - area) > 1e-10 * area:
        raise MeshError(
            f"the cells cover an area of {total:.12g}, but the outline holds {area:.12g}: rounding "
            "spoilt the triangulation; shift the outline closer to the origin or simplify it."
        )
    bare = Mesh(nodes, cells)
    border = pair_keys(boundary_facets(bare).nodes, len(nodes))
    facets = {}
    for name, tagged in zip(names, skeleton.tags.T, strict=True):
        ends = np.sort(new_index[skeleton.segments[tagged]], axis=1)
        if name in RING_TAGS:
            # Where two parts meet, a shell runs inside the domain.
            ends = ends[(ends >= 0).all(axis=1)]
            ends = ends[np.isin(pair_keys(ends, len(nodes)), border)]
        if len(ends):
            facets[name] = ends
    return with_locality(Mesh(nodes, cells, facets))
