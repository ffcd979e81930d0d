"""The skeleton of a mesh: the points and segments that its edges must follow."""

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
    proper_crossings,
    ring_edges,
    touches,
)
from riesz.geometry.outline import Outline, outline_edges

RING_TAGS = ("outer", "holes")


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
    points, edges, tags = gather(outline, lines)
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


def gather(outline: Outline, lines):
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
