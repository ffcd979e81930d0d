"""Lines and rings with fewer vertices, none further off than a tolerance (Douglas & Peucker 1973).

Unlike `simplify_outline` this keeps no topology: it is the rule of map services, kept for data that
were made with it.
"""

import numpy as np
from jaxtyping import Bool, Float

from riesz.geometry.crossings import offset_from_edge


def thinned_line(
    line: Float[np.ndarray, "vertex 2"], tolerance: float
) -> Float[np.ndarray, "kept 2"]:
    """The line with both ends, and of the rest what it needs."""
    return line[needed(line, tolerance)]


def thinned_ring(
    ring: Float[np.ndarray, "vertex 2"], tolerance: float
) -> Float[np.ndarray, "kept 2"]:
    """An open ring, which may lose the vertex that it starts at too."""
    closed = np.concatenate([ring, ring[:1]])
    kept = closed[needed(closed, tolerance)][:-1]
    chord = kept[1] - kept[-1]
    off = offset_from_edge(kept[:1] - kept[-1], chord)[0]
    # Where its start goes, a ring starts at the vertex before.
    return np.roll(kept[1:], 1, axis=0) if len(kept) > 3 and off <= tolerance else kept


def needed(line: Float[np.ndarray, "vertex 2"], tolerance: float) -> Bool[np.ndarray, " vertex"]:
    """Both ends, and between two that are needed the furthest from their chord if it is far."""
    kept = np.zeros(len(line), dtype=bool)
    kept[[0, -1]] = True
    pending = [(0, len(line) - 1)]
    while pending:
        first, last = pending.pop()
        between = line[first + 1 : last]
        if not len(between):
            continue
        offset = offset_from_edge(between - line[first], line[last] - line[first])
        if offset.max() > tolerance:
            middle = first + 1 + int(offset.argmax())
            kept[middle] = True
            pending += [(first, middle), (middle, last)]
    return kept
