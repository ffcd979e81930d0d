"""The ground of a blind problem: its outline, mesh and boundary, and where sensors stand."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from riesz.errors import MeshError
from riesz.mesh.mesh import Mesh, cell_volumes
from riesz.mesh.tags import tag_boundary, tag_line, tag_region
from riesz.mesher.polygon import mesh_from_polygon

Points = Float[np.ndarray, "point 2"]

SHAPES = ("convex", "hole", "l-shape", "neck")
FEWEST_NODES, MOST_NODES = 150, 450
INFLOW, OUTFLOW, RIVER = "inflow", "outflow", "river"
END = 0.2
"""The share of the extent along the way from inflow to outflow that each of the two takes."""

NUM_CLUSTERS = 3
CLUSTER_WIDTH = 0.1  # of the domain's length


@dataclass(frozen=True)
class Ground:
    """A mesh with an inflow and an outflow, perhaps a river, and zones."""

    shape: str
    mesh: Mesh
    length: float  # of the domain, in the unit of its coordinates
    edge: float  # of cells, as long as they may be
    way: Float[np.ndarray, " 2"]  # a unit vector from the inflow to the outflow
    has_river: bool


def outline(shape: str, rng: np.random.Generator) -> Any:
    """Of length about one, turned at random."""
    turn = rng.uniform(0, 2 * np.pi)
    rotation = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    if shape in ("convex", "hole"):
        count = int(rng.integers(5, 9))
        angles = 2 * np.pi * (np.arange(count) + rng.uniform(-0.3, 0.3, count)) / count
        stretched = np.array([0.5, rng.uniform(0.3, 0.5)])
        rings = [np.stack([np.cos(angles), np.sin(angles)], axis=1) * stretched]
        if shape == "hole":
            corners = np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])
            middle = rng.uniform(-0.08, 0.08, 2)
            rings.append(middle + corners * rng.uniform(0.05, 0.1, 2))
    elif shape == "l-shape":
        arm, leg = rng.uniform(0.3, 0.5, 2)
        rings = [np.array([[0, 0], [1, 0], [1, arm], [leg, arm], [leg, 1], [0, 1.0]])]
    else:
        low = rng.uniform(0.1, 0.25)
        high, start = low + rng.uniform(0.12, 0.2), rng.uniform(0.35, 0.42)
        stop, top = start + rng.uniform(0.12, 0.2), 0.5
        rings = [
            np.array(
                [
                    *([0, 0], [start, 0], [start, low], [stop, low], [stop, 0], [1, 0]),
                    *([1, top], [stop, top], [stop, high], [start, high], [start, top], [0, top]),
                ]
            )
        ]
    turned = [(ring @ rotation.T).tolist() for ring in rings]
    closed = [[*ring, ring[0]] for ring in turned]
    return {"type": "Polygon", "coordinates": closed}


def ground(rng: np.random.Generator, length: float, *, wants_river: bool) -> Ground:
    """A mesh of some hundred nodes, of a domain about so long."""
    shape = str(rng.choice(SHAPES))
    drawn = outline(shape, rng)
    scaled = {**drawn, "coordinates": [np.asarray(r) * length for r in drawn["coordinates"]]}
    wanted = np.exp(rng.uniform(np.log(FEWEST_NODES), np.log(MOST_NODES)))
    edge = 0.06 * length
    mesh = mesh_from_polygon(scaled, max_edge=edge)
    for _ in range(3):
        if 0.8 < mesh.num_nodes / wanted < 1.25:
            break
        edge *= float(np.sqrt(mesh.num_nodes / wanted))
        mesh = mesh_from_polygon(scaled, max_edge=edge)
    turn = rng.uniform(0, 2 * np.pi)
    way = np.array([np.cos(turn), np.sin(turn)])
    along = mesh.nodes @ way
    low, high = along.min(), along.max()
    first, last = low + END * (high - low), high - END * (high - low)
    mesh = tag_boundary(mesh, INFLOW, lambda middles: middles @ way < first)
    mesh = tag_boundary(mesh, OUTFLOW, lambda middles: middles @ way > last)
    found = with_river(mesh, edge, rng) if wants_river else None
    return Ground(
        shape, mesh if found is None else found, length, float(edge), way, found is not None
    )


def with_river(mesh: Mesh, edge: float, rng: np.random.Generator) -> Mesh | None:
    """A path of edges between two places, where the straight line is inside."""
    for _ in range(10):
        ends = scattered(mesh, 2, rng, clustered=False)
        if np.linalg.norm(ends[1] - ends[0]) < 4 * edge:
            continue
        try:
            return tag_line(mesh, RIVER, ends, 1.5 * edge)
        except MeshError:
            continue
    return None


def zoned(mesh: Mesh, count: int, rng: np.random.Generator) -> Mesh:
    """With zones: all cells that are nearest to one of some places."""
    seeds = scattered(mesh, 4 * count, rng, clustered=False)
    kept = [seeds[0]]
    while len(kept) < count:
        apart = np.linalg.norm(seeds[:, None] - np.array(kept)[None], axis=2).min(axis=1)
        kept.append(seeds[int(np.argmax(apart))])
    centres = np.array(kept)

    def nearest(places: Points) -> np.ndarray:
        return np.linalg.norm(places[:, None] - centres[None], axis=2).argmin(axis=1)

    for number in range(count):
        mesh = tag_region(mesh, f"zone{number}", lambda places, n=number: nearest(places) == n)
    return mesh


def scattered(mesh: Mesh, count: int, rng: np.random.Generator, *, clustered: bool) -> Points:
    """Places inside, everywhere alike or in a few clusters."""
    corners = mesh.nodes[mesh.cells]
    chance = cell_volumes(mesh.nodes, mesh.cells)
    if clustered:
        centres = corners.mean(axis=1)
        chosen = rng.choice(len(chance), NUM_CLUSTERS, p=chance / chance.sum())
        width = CLUSTER_WIDTH * np.ptp(mesh.nodes, axis=0).max()
        apart = np.linalg.norm(centres[:, None] - centres[chosen][None], axis=2)
        chance = chance * np.exp(-0.5 * (apart / width) ** 2).sum(axis=1)
    cells = rng.choice(len(chance), count, p=chance / chance.sum())
    shares = rng.dirichlet(np.ones(3), count)
    return np.einsum("pc,pcd->pd", shares, corners[cells])
