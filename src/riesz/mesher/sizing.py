"""The size field: how long an edge of the mesh may be at each place."""

import equinox as eqx
import numpy as np
from jaxtyping import Float
from scipy.spatial import KDTree

STEP = 1.25  # sources whose sizes agree within this factor share a level


class SizeField(eqx.Module):
    r"""The largest edge length, $h(x) = \min(h_{\max}, \min_i s_i + g\,|x - x_i|)$.

    Each source $x_i$ asks for edges of length $s_i$, and its claim weakens with distance at the
    grading $g$. Sources of like size are kept in one search tree.
    """

    largest: float
    grading: float
    levels: tuple[tuple[float, KDTree], ...]  # sizes and where they are asked for

    def __call__(self, points: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, " n"]:
        size = np.full(len(points), self.largest)
        for wanted, tree in self.levels:
            (loose,) = np.nonzero(size > wanted)
            reach = (size[loose].max(initial=wanted) - wanted) / self.grading
            distance, _ = tree.query(points[loose], distance_upper_bound=reach)
            size[loose] = np.minimum(size[loose], wanted + self.grading * distance)
        return size


def uniform_size(largest: float, grading: float) -> SizeField:
    return SizeField(largest, grading, ())


def with_sources(
    field: SizeField, places: Float[np.ndarray, "n 2"], sizes: Float[np.ndarray, " n"]
) -> SizeField:
    """The field that also meets the claims of new sources."""
    small = sizes < field.largest
    places, sizes = places[small], sizes[small]
    level = np.floor(np.log(sizes) / np.log(STEP))
    new = []
    for value in np.unique(level):
        members = level == value
        new.append((float(sizes[members].min()), KDTree(places[members])))
    # Smallest first: they bound the search of all that follow.
    levels = sorted([*field.levels, *new], key=lambda level: level[0])
    return SizeField(field.largest, field.grading, tuple(levels))
