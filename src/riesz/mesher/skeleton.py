"""The skeleton of a mesh: points and segments that its edges must follow, cut at sharp corners."""

from collections.abc import Mapping, Sequence

import equinox as eqx
import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int
from scipy.sparse.csgraph import connected_components
from scipy.spatial import KDTree

from riesz.errors import MeshError
from riesz.geometry.crossings import (
    TOUCHING,
    distance_to_edges,
    inside,
    offset_from_edge,
    proper_crossings,
    ring_edges,
    touches,
)
from riesz.geometry.outline import Outline, outline_edges
from riesz.mesher.sizing import SizeField

RING_TAGS = ("outer", "holes")

SHARP = np.pi / 3 - 1e-6  # Delaunay refinement ends by itself at any corner that is not sharper

Rings = tuple[Float[np.ndarray, "edge 2"], Float[np.ndarray, "edge 2"]]


class Skeleton(eqx.Module):
    """Points of a mesh to be, and the segments between them that must become its edges.

    At a corner sharper than 60 degrees no mesh can have large angles. There the segments (spokes)
    are cut at one distance from the corner, and the triangle over two neighbouring spokes, a cap,
    is set apart: outside of caps all angles are harmless. The base of a cap is a segment too, with
    the cap on its left. Pieces of spokes at one distance from their corner form a bundle.
    """

    points: Float[np.ndarray, "point 2"]
    segments: Int[np.ndarray, "segment 2"]
    tags: Bool[np.ndarray, "segment tag"]  # which named lines a segment is part of
    is_base: Bool[np.ndarray, " segment"]
    bundle: Int[np.ndarray, " segment"]  # pieces that must be split together, or -1


def with_points(skeleton: Skeleton, points: Float[np.ndarray, "point 2"]) -> Skeleton:
    """The same segments between points that have moved or been added to."""
    return Skeleton(points, skeleton.segments, skeleton.tags, skeleton.is_base, skeleton.bundle)


def skeleton_of(
    outline: Outline, lines: Mapping[str, Sequence[Float[np.ndarray, "_ 2"]]]
) -> tuple[Skeleton, tuple[str, ...]]:
    """All rings and lines as one planar graph, and the names of its tags.

    Edges are cut where a vertex of another ring or line lies on them and where lines cross, and
    shared pieces are merged, so that parts that touch get one conforming mesh.
    """
    names = (*RING_TAGS, *lines)
    points, edges, tags = gather_edges(outline, lines)
    tolerance = TOUCHING * float(np.ptp(points, axis=0).max())
    points, edges, tags = merge_points(points, edges, tags, tolerance)
    pairs, places = proper_crossings(points, edges, tolerance)
    check_lines_stay_inside(pairs, places, tags, names)
    added = len(points) + np.repeat(np.arange(len(pairs)), 2)
    at_crossings = np.stack([added, pairs.ravel()], axis=1)
    cuts = np.concatenate([touches(points, edges, tolerance), at_crossings])
    points = np.concatenate([points, places])
    edges, tags = cut_edges(points, edges, tags, cuts)
    # Once more: three lines through one place cross there three times.
    points, edges, tags = merge_points(points, edges, tags, tolerance)
    check_lines_run_inside(outline, points[edges], tags, names, tolerance)
    no_bases, no_bundles = np.zeros(len(edges), dtype=bool), np.full(len(edges), -1)
    return Skeleton(points, edges, tags, no_bases, no_bundles), names


def gather_edges(outline: Outline, lines):
    """Vertices, edges and tags of all rings and lines, not yet joined."""
    curves = [(ring, min(i, 1), True) for part in outline.parts for i, ring in enumerate(part)]
    for i, members in enumerate(lines.values(), start=len(RING_TAGS)):
        curves += [(line, i, False) for line in members]
    edges, tag_of, first = [], [], 0
    for vertices, tag, closed in curves:
        new = ring_edges(len(vertices), first)[: None if closed else -1]
        edges.append(new)
        tag_of += [tag] * len(new)
        first += len(vertices)
    tags = np.array(tag_of)[:, None] == np.arange(len(RING_TAGS) + len(lines))
    return np.concatenate([curve[0] for curve in curves]), np.concatenate(edges), tags


def merge_points(points, edges, tags, tolerance):
    """The graph with points in one place made one, and edges between the same points too."""
    close = KDTree(points).query_pairs(tolerance, output_type="ndarray")
    graph = sp.coo_array((np.ones(len(close)), tuple(close.T)), shape=(len(points), len(points)))
    _, group = connected_components(graph, directed=False)
    _, first, group = np.unique(group, return_index=True, return_inverse=True)
    ends = np.sort(group.reshape(-1)[edges], axis=1)
    proper = ends[:, 0] != ends[:, 1]
    distinct, owner = np.unique(ends[proper], axis=0, return_inverse=True)
    merged = np.zeros((len(distinct), tags.shape[1]), dtype=bool)
    np.logical_or.at(merged, owner.reshape(-1), tags[proper])
    return points[first], distinct, merged


def cut_edges(points, edges, tags, cuts):
    """The edges cut at points on them; `cuts` holds rows (point, edge)."""
    ends = np.stack([edges.ravel(), np.repeat(np.arange(len(edges)), 2)], axis=1)
    stops = np.unique(np.concatenate([ends, cuts]), axis=0)
    start = points[edges[stops[:, 1], 0]]
    along = np.linalg.norm(points[stops[:, 0]] - start, axis=1)
    stops = stops[np.lexsort((along, stops[:, 1]))]
    same = stops[1:, 1] == stops[:-1, 1]
    pieces = np.stack([stops[:-1, 0], stops[1:, 0]], axis=1)[same]
    return pieces, tags[stops[1:, 1][same]]


def check_lines_stay_inside(pairs, places, tags, names) -> None:
    on_ring = tags[:, : len(RING_TAGS)].any(axis=1)
    (leaving,) = np.nonzero(on_ring[pairs].any(axis=1))
    if leaving.size:
        pair, place = pairs[leaving[0]], places[leaving[0]]
        line = pair[~on_ring[pair]][0]
        raise MeshError(
            f"line {names[tags[line].argmax()]!r} crosses the outline, with {leaving.size} "
            f"crossings in all, the first at [{place[0]:.6g}, {place[1]:.6g}]: clip it to the "
            "domain."
        )


def check_lines_run_inside(outline, ends, tags, names, tolerance) -> None:
    (line,) = np.nonzero(~tags[:, : len(RING_TAGS)].any(axis=1))
    middle = ends[line].mean(axis=1)
    rings = outline_edges(outline)
    outside = ~inside(middle, *rings) & (distance_to_edges(middle, *rings) > tolerance)
    if outside.any():
        first = outside.argmax()
        raise MeshError(
            f"line {names[tags[line[first]].argmax()]!r} lies outside the domain near "
            f"{middle[first].tolist()}: clip it to the domain."
        )


def sectors(skeleton: Skeleton) -> tuple[Int[np.ndarray, "sector 3"], Float[np.ndarray, " sector"]]:
    """Each point with two neighbours that follow each other around it, and the angle between."""
    ends = np.concatenate([skeleton.segments, skeleton.segments[:, ::-1]])
    along = skeleton.points[ends[:, 1]] - skeleton.points[ends[:, 0]]
    direction = np.arctan2(along[:, 1], along[:, 0])
    order = np.lexsort((direction, ends[:, 0]))
    ends, direction = ends[order], direction[order]
    _, first, count = np.unique(ends[:, 0], return_index=True, return_counts=True)
    follower = np.arange(1, len(ends) + 1)
    follower[first + count - 1] = first
    turn = np.mod(direction[follower] - direction, 2 * np.pi)
    turn[np.repeat(count, count) == 1] = 2 * np.pi
    return np.column_stack([ends, ends[follower, 1]]), turn


def cut_corners(skeleton: Skeleton, field: SizeField, rings: Rings) -> Skeleton:
    """The skeleton with equal spokes around each sharp corner and a cap in each sharp sector."""
    around, angle = sectors(skeleton)
    corners = np.unique(around[angle < SHARP, 0]).tolist()
    radii = [spoke_length(skeleton, corner, field) for corner in corners]
    for corner, radius in zip(corners, radii, strict=True):
        skeleton = cut_spokes(skeleton, corner, radius)
    around, angle = sectors(skeleton)
    caps = around[(angle < SHARP) & np.isin(around[:, 0], corners)]
    # Outside the domain nothing is to be kept away from the corner.
    caps = caps[inside(skeleton.points[caps].mean(axis=1), *rings)]
    return add_bases(skeleton, caps[:, 1:])


def spoke_length(skeleton: Skeleton, corner: int, field: SizeField) -> float:
    """A third of the way to anything else, so that spokes of different corners stay apart."""
    ends = skeleton.points[skeleton.segments]
    incident = (skeleton.segments == corner).any(axis=1)
    lengths = np.linalg.norm(ends[incident, 1] - ends[incident, 0], axis=1)
    start, along = ends[~incident, 0], ends[~incident, 1] - ends[~incident, 0]
    clearance = offset_from_edge(skeleton.points[corner] - start, along).min(initial=np.inf)
    wanted = field(skeleton.points[[corner]])[0]
    return float(min(lengths.min() / 3, clearance / 3, wanted))


def cut_spokes(skeleton: Skeleton, corner: int, radius: float) -> Skeleton:
    """Every segment at the corner cut at the given distance from it, the inner pieces a bundle."""
    (spokes,) = np.nonzero((skeleton.segments == corner).any(axis=1))
    far = skeleton.segments[spokes].sum(axis=1) - corner
    along = skeleton.points[far] - skeleton.points[corner]
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    new = len(skeleton.points) + np.arange(len(spokes))
    segments, bundle = skeleton.segments.copy(), skeleton.bundle.copy()
    segments[spokes] = np.stack([np.full_like(new, corner), new], axis=1)
    bundle[spokes] = bundle.max() + 1
    return Skeleton(
        np.concatenate([skeleton.points, skeleton.points[corner] + radius * along]),
        np.concatenate([segments, np.stack([new, far], axis=1)]),
        np.concatenate([skeleton.tags, skeleton.tags[spokes]]),
        np.concatenate([skeleton.is_base, skeleton.is_base[spokes]]),
        # The outer piece may be a spoke of the corner at its other end.
        np.concatenate([bundle, skeleton.bundle[spokes]]),
    )


def add_bases(skeleton: Skeleton, bases: Int[np.ndarray, "cap 2"]) -> Skeleton:
    return Skeleton(
        skeleton.points,
        np.concatenate([skeleton.segments, bases]),
        np.concatenate([skeleton.tags, np.zeros((len(bases), skeleton.tags.shape[1]), dtype=bool)]),
        np.concatenate([skeleton.is_base, np.ones(len(bases), dtype=bool)]),
        np.concatenate([skeleton.bundle, np.full(len(bases), -1)]),
    )


def split_segments(skeleton: Skeleton, chosen: Bool[np.ndarray, " segment"]) -> Skeleton:
    """The skeleton with the chosen segments halved, and those bundled with them.

    Were the spokes of a corner halved one by one, they would take turns in being too long for
    each other without end.
    """
    bundle = skeleton.bundle
    halved = chosen | ((bundle >= 0) & np.isin(bundle, bundle[chosen]))
    start, end = skeleton.segments[halved].T
    middle = len(skeleton.points) + np.arange(len(start))
    pieces = [np.stack([start, middle], axis=1), np.stack([middle, end], axis=1)]
    # New numbers for the inner and outer halves: spokes run outwards, so starts are inner.
    old, fresh = bundle[halved], bundle.max() + 1
    inner = np.where(old >= 0, fresh + old, -1)
    outer = np.where(old >= 0, fresh + inner, -1)
    return Skeleton(
        np.concatenate([skeleton.points, skeleton.points[skeleton.segments[halved]].mean(axis=1)]),
        np.concatenate([skeleton.segments[~halved], *pieces]),
        np.concatenate([skeleton.tags[~halved], skeleton.tags[halved], skeleton.tags[halved]]),
        np.concatenate([skeleton.is_base[~halved], np.tile(skeleton.is_base[halved], 2)]),
        np.concatenate([bundle[~halved], inner, outer]),
    )
