"""How much of a line each cell of a plane mesh holds."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from riesz.mesh.location import ROUNDING, SizeGroup, barycentric_coordinates, groups_by_size
from riesz.mesh.mesh import Mesh

StepEnds = Float[np.ndarray, "step 2"]
Parts = Int[np.ndarray, " part"]

MOST_STEPS = 1_000_000
"""Of all segments together: a river with more is no finer than its mesh could tell."""

Ends = Float[np.ndarray, "segment 2"]


class Stretches(NamedTuple):
    """Parts of segments, each within one cell."""

    segment: Int[np.ndarray, " stretch"]
    cell: Int[np.ndarray, " stretch"]
    length: Float[np.ndarray, " stretch"]


class Passages(NamedTuple):
    """Where steps of segments pass cells, in fractions of the steps."""

    step: Int[np.ndarray, " passage"]
    cell: Int[np.ndarray, " passage"]
    enter: Float[np.ndarray, " passage"]
    leave: Float[np.ndarray, " passage"]


def stretches_in_cells(mesh: Mesh, starts: Ends, ends: Ends) -> Stretches:
    """Straight segments cut at the edges of the cells; what lies outside the mesh is left out.

    What runs along an edge belongs to the cells on both sides in equal parts.
    """
    first, last = within_box(starts, ends, mesh.nodes.min(axis=0), mesh.nodes.max(axis=0))
    (crossing,) = np.nonzero(first < last)
    along = ends - starts
    corners = mesh.nodes[mesh.cells]
    groups = groups_by_size(corners)
    inside = starts[crossing] + first[crossing, None] * along[crossing]
    reached = starts[crossing] + last[crossing, None] * along[crossing]
    # Steps of the size of most cells have few of them near.
    owner, step_starts, step_ends = divide_segments(inside, reached, 2 * groups[0].reach)
    result = passages(mesh, groups, step_starts, step_ends)
    step, cell, share = shares(result)
    length = share * np.linalg.norm(step_ends - step_starts, axis=1)[step]
    return Stretches(crossing[owner[step]], cell, length)


def within_box(
    starts: Ends, ends: Ends, low: Float[np.ndarray, " 2"], high: Float[np.ndarray, " 2"]
) -> tuple[Float[np.ndarray, " segment"], Float[np.ndarray, " segment"]]:
    """Fractions of segments between which they lie in a box: the first above the last if never."""
    return clip_segments(
        np.concatenate([starts - low, high - starts], axis=1),
        np.concatenate([ends - low, high - ends], axis=1),
    )


def clip_segments(
    at_start: Float[np.ndarray, "segment side"], at_end: Float[np.ndarray, "segment side"]
) -> tuple[Float[np.ndarray, " segment"], Float[np.ndarray, " segment"]]:
    """Fractions between which linear functions, given at both ends, are all positive or zero."""
    change = at_end - at_start
    with np.errstate(divide="ignore", invalid="ignore"):
        root = -at_start / change
    enter = np.where(change > 0, root, 0.0).max(axis=1, initial=0.0)
    leave = np.where(change < 0, root, 1.0).min(axis=1, initial=1.0)
    never = ((change == 0) & (at_start < 0)).any(axis=1)
    return np.where(never, 1.0, enter), np.where(never, 0.0, leave)


def divide_segments(
    starts: Ends, ends: Ends, longest: float
) -> tuple[Int[np.ndarray, " step"], StepEnds, StepEnds]:
    """Segments in equal steps: which segment each is of, and its ends."""
    lengths = np.linalg.norm(ends - starts, axis=1)
    longest = max(longest, lengths.sum() / MOST_STEPS)
    count = np.maximum(np.ceil(lengths / longest), 1).astype(int)
    owner = np.repeat(np.arange(len(starts)), count)
    number = np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count)
    along = (ends - starts)[owner]
    first, last = (number / count[owner])[:, None], ((number + 1) / count[owner])[:, None]
    return owner, starts[owner] + first * along, starts[owner] + last * along


def passages(mesh: Mesh, groups: list[SizeGroup], starts: StepEnds, ends: StepEnds) -> Passages:
    """All cells that steps pass, those that are merely touched left out."""
    reach = np.linalg.norm(ends - starts, axis=1) / 2
    steps, cells = [], []
    for group in groups:
        near = group.centroids.query_ball_point(
            (starts + ends) / 2, (reach + group.reach) * (1 + 1e-9)
        )
        steps.append(np.repeat(np.arange(len(starts)), [len(result) for result in near]))
        cells.append(group.members[np.concatenate([*near, []]).astype(int)])
    step, cell = np.concatenate(steps), np.concatenate(cells)
    corners = mesh.nodes[mesh.cells[cell]]
    enter, leave = clip_segments(
        barycentric_coordinates(corners, starts[step]) + ROUNDING,
        barycentric_coordinates(corners, ends[step]) + ROUNDING,
    )
    passed = leave - enter > ROUNDING
    return Passages(step[passed], cell[passed], enter[passed], leave[passed])


def shares(found: Passages) -> tuple[Parts, Parts, Float[np.ndarray, " part"]]:
    """Steps, cells, and which fraction of the step falls to the cell.

    A step is cut wherever it enters or leaves a cell, so that each part lies in all of the cells
    that its middle lies in, and in equal parts.
    """
    place = np.concatenate([found.enter, found.leave])
    step = np.concatenate([found.step, found.step])
    order = np.lexsort((place, step))
    place, step = place[order], step[order]
    (parts,) = np.nonzero((step[1:] == step[:-1]) & (place[1:] > place[:-1]))
    middle, width, of_step = (
        (place[parts] + place[parts + 1]) / 2,
        place[parts + 1] - place[parts],
        step[parts],
    )
    part, passage = pairs_of_same_step(of_step, found.step)
    holds = (found.enter[passage] <= middle[part]) & (middle[part] <= found.leave[passage])
    part, passage = part[holds], passage[holds]
    sharing = np.bincount(part, minlength=len(parts))
    return of_step[part], found.cell[passage], width[part] / sharing[part]


def pairs_of_same_step(
    of_part: Parts, of_passage: Int[np.ndarray, " passage"]
) -> tuple[Int[np.ndarray, " pair"], Int[np.ndarray, " pair"]]:
    """All pairs of a part and a passage that belong to one step."""
    order = np.argsort(of_passage, kind="stable")
    first = np.searchsorted(of_passage[order], of_part, side="left")
    count = np.searchsorted(of_passage[order], of_part, side="right") - first
    part = np.repeat(np.arange(len(of_part)), count)
    number = np.arange(len(part)) - np.repeat(np.cumsum(count) - count, count)
    return part, order[first[part] + number]
