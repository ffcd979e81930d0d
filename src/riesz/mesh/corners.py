"""Sharp corners of a skeleton: spokes cut to one length, caps set apart, segments split."""

import numpy as np
from jaxtyping import Bool, Float, Int

from riesz.mesh.crossings import inside, offset_from_edge
from riesz.mesh.sizing import SizeField
from riesz.mesh.skeleton import Skeleton

SHARP = np.pi / 3 - 1e-6  # Delaunay refinement ends by itself at any corner that is not sharper

Rings = tuple[Float[np.ndarray, "edge 2"], Float[np.ndarray, "edge 2"]]


def sectors(
    skeleton: Skeleton,
) -> tuple[Int[np.ndarray, "sector 3"], Float[np.ndarray, " sector"]]:
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
    corners = np.unique(around[angle < SHARP, 0])
    radii = [spoke_length(skeleton, corner, field) for corner in corners]
    for corner, radius in zip(corners, radii, strict=True):
        skeleton = cut_spokes(skeleton, corner, radius)
    around, angle = sectors(skeleton)
    sharp = (angle < SHARP) & np.isin(around[:, 0], corners)
    caps = around[sharp]
    caps = caps[inside(skeleton.points[caps].mean(axis=1), *rings)]
    capped = Skeleton(
        skeleton.points, skeleton.segments, skeleton.tags, skeleton.base_of, corners, caps
    )
    return add_bases(capped, np.arange(len(caps)))


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
    """Every segment at the corner cut at the given distance from it."""
    (spokes,) = np.nonzero((skeleton.segments == corner).any(axis=1))
    far = skeleton.segments[spokes].sum(axis=1) - corner
    along = skeleton.points[far] - skeleton.points[corner]
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    new = len(skeleton.points) + np.arange(len(spokes))
    segments = skeleton.segments.copy()
    segments[spokes] = np.stack([np.full_like(new, corner), new], axis=1)
    return Skeleton(
        np.concatenate([skeleton.points, skeleton.points[corner] + radius * along]),
        np.concatenate([segments, np.stack([new, far], axis=1)]),
        np.concatenate([skeleton.tags, skeleton.tags[spokes]]),
        np.concatenate([skeleton.base_of, skeleton.base_of[spokes]]),
        skeleton.corners,
        skeleton.caps,
    )


def add_bases(skeleton: Skeleton, which: Int[np.ndarray, " cap"]) -> Skeleton:
    """The skeleton with a segment over each of the given caps."""
    untagged = np.zeros((len(which), skeleton.tags.shape[1]), dtype=bool)
    return Skeleton(
        skeleton.points,
        np.concatenate([skeleton.segments, skeleton.caps[which, 1:]]),
        np.concatenate([skeleton.tags, untagged]),
        np.concatenate([skeleton.base_of, which]),
        skeleton.corners,
        skeleton.caps,
    )


def split_segments(skeleton: Skeleton, chosen: Bool[np.ndarray, " segment"]) -> Skeleton:
    """The skeleton with the chosen segments halved.

    All spokes of a corner are halved together and its caps shrink with them: else the spokes
    would take turns in being too long for each other without end.
    """
    segments, base_of = skeleton.segments, skeleton.base_of
    at_corner = np.isin(segments, skeleton.corners)
    hit = segments[chosen][at_corner[chosen]]
    spokes = np.isin(segments, hit).any(axis=1)
    shrinking = np.isin(skeleton.caps[:, 0], hit)
    outdated = (base_of >= 0) & shrinking[base_of] if len(shrinking) else np.zeros_like(chosen)
    halved = (chosen | spokes) & ~outdated
    middle = len(skeleton.points) + np.arange(halved.sum())
    start, end = segments[halved].T
    caps = shrunk_caps(skeleton, segments[halved], middle, shrinking)
    stay = ~halved & ~outdated
    split = Skeleton(
        np.concatenate([skeleton.points, skeleton.points[segments[halved]].mean(axis=1)]),
        np.concatenate(
            [segments[stay], np.stack([start, middle], axis=1), np.stack([middle, end], axis=1)]
        ),
        np.concatenate([skeleton.tags[stay], skeleton.tags[halved], skeleton.tags[halved]]),
        np.concatenate([base_of[stay], base_of[halved], base_of[halved]]),
        skeleton.corners,
        caps,
    )
    return add_bases(split, np.flatnonzero(shrinking))


def shrunk_caps(skeleton: Skeleton, halved, middle, shrinking) -> Int[np.ndarray, "cap 3"]:
    """The caps with the ends of halved spokes moved to the middles."""
    at_corner = np.isin(halved, skeleton.corners)
    spoke = at_corner.any(axis=1)
    moved = np.arange(len(skeleton.points))
    moved[halved[spoke][~at_corner[spoke]]] = middle[spoke]
    caps = skeleton.caps.copy()
    caps[shrinking, 1:] = moved[caps[shrinking, 1:]]
    return caps
