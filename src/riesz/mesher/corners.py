"""Sharp corners of a skeleton: spokes cut to one length, caps set apart, segments split."""

import numpy as np
from jaxtyping import Bool, Float, Int

from riesz.geometry.crossings import inside, offset_from_edge
from riesz.mesher.sizing import SizeField
from riesz.mesher.skeleton import Skeleton

SHARP = np.pi / 3 - 1e-6  # Delaunay refinement ends by itself at any corner that is not sharper

Rings = tuple[Float[np.ndarray, "edge 2"], Float[np.ndarray, "edge 2"]]


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
    return Skeleton(
        np.concatenate([skeleton.points, skeleton.points[skeleton.segments[halved]].mean(axis=1)]),
        np.concatenate([skeleton.segments[~halved], *pieces]),
        np.concatenate([skeleton.tags[~halved], skeleton.tags[halved], skeleton.tags[halved]]),
        np.concatenate([skeleton.is_base[~halved], np.tile(skeleton.is_base[halved], 2)]),
        np.concatenate([bundle[~halved], *halved_bundles(bundle, halved)]),
    )


def halved_bundles(bundle, halved) -> tuple[Int[np.ndarray, " half"], Int[np.ndarray, " half"]]:
    """New numbers for the inner and outer halves: spokes run outwards, so starts are inner."""
    old, fresh = bundle[halved], bundle.max() + 1
    inner = np.where(old >= 0, fresh + old, -1)
    return inner, np.where(old >= 0, fresh + inner, -1)
