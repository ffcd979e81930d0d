"""A few nodes that stand for all of them, evenly spread, the same in every run."""

import numpy as np
from jaxtyping import Float, Int
from scipy.spatial import KDTree

from riesz.mesh.mesh import Mesh, cell_volumes

Chosen = Int[np.ndarray, " chosen"]

CANDIDATES_EACH = 50
"""How many nodes are looked at for each one chosen, on meshes with more of them."""


def node_volumes(mesh: Mesh) -> Float[np.ndarray, " node"]:
    """The part of the domain that belongs to each node: the lumped mass matrix."""
    share = cell_volumes(mesh.nodes, mesh.cells) / (mesh.dim + 1)
    corners = mesh.cells.ravel()
    return np.bincount(corners, np.repeat(share, mesh.dim + 1), minlength=mesh.num_nodes)


def spread_nodes(mesh: Mesh, count: int, scales: Float[np.ndarray, " axis"]) -> Chosen:
    """Nodes far from each other, in units of a length scale for each axis.

    Large meshes are thinned first, in proportion to the nodes' volumes, so that finely meshed
    places get no more nodes than others.
    """
    candidates = np.arange(mesh.num_nodes)
    if CANDIDATES_EACH * count < mesh.num_nodes:
        volumes = node_volumes(mesh)
        draw = np.random.default_rng(0).choice
        number = CANDIDATES_EACH * count
        candidates = np.sort(draw(mesh.num_nodes, number, replace=False, p=volumes / volumes.sum()))
    return candidates[farthest_points(mesh.nodes[candidates] / scales, count)]


def format_request(count: object, found: int) -> str:
    """In words, where a mesh has fewer nodes than were asked for."""
    is_cut = isinstance(count, int) and count > found
    return f" (of {count} that were asked for: there are no more nodes)" if is_cut else ""


def farthest_points(points: Float[np.ndarray, "point dim"], count: int) -> Chosen:
    """Indices of points chosen one by one, each the farthest from those before it.

    The first is the one nearest to the middle.
    """
    middle = (points.min(axis=0) + points.max(axis=0)) / 2
    chosen = [int(np.argmin(np.sum((points - middle) ** 2, axis=1)))]
    distance = np.full(len(points), np.inf)
    while len(chosen) < count:
        distance = np.minimum(distance, np.sum((points - points[chosen[-1]]) ** 2, axis=1))
        chosen.append(int(np.argmax(distance)))
    return np.array(chosen)


def volumes_about(mesh: Mesh, chosen: Chosen) -> Float[np.ndarray, " chosen"]:
    """The volume of all nodes that are nearer to each chosen node than to another."""
    _, nearest = KDTree(mesh.nodes[chosen]).query(mesh.nodes)
    return np.bincount(nearest, node_volumes(mesh), minlength=len(chosen))
