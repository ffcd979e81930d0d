"""The rim of a mesh as closed rings, which is what maps are cut out by."""

import numpy as np
from jaxtyping import Float, Int

from riesz.mesh.facets import boundary_facets
from riesz.mesh.mesh import Mesh


def rings(mesh: Mesh) -> list[Float[np.ndarray, "corner 2"]]:
    """The outer rim and those of holes; a ring ends where it began, without saying so twice."""
    return [mesh.nodes[np.array(ring)] for ring in rings_of(boundary_facets(mesh).nodes)]


def rings_of(edges: Int[np.ndarray, "edge 2"]) -> list[list[int]]:
    """Walk along edges, whichever way they point, until each has been taken once."""
    at: dict[int, list[int]] = {}
    for number, edge in enumerate(edges.tolist()):
        for node in edge:
            at.setdefault(node, []).append(number)
    left, found = set(range(len(edges))), []
    while left:
        number = min(left)
        left.remove(number)
        start, node = edges[number].tolist()
        ring = [start]
        while node != start:
            ring.append(node)
            number = next(one for one in at[node] if one in left)
            left.remove(number)
            first, second = edges[number].tolist()
            node = second if first == node else first
        found.append(ring)
    return found
