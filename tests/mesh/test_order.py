"""Numbering with locality."""

import numpy as np

from riesz.mesh.mesh import Mesh, cell_volumes
from riesz.mesh.shapes import rectangle
from riesz.mesher.polygon import with_locality


def shuffled(mesh: Mesh, seed: int) -> Mesh:
    rng = np.random.default_rng(seed)
    order, cells = rng.permutation(mesh.num_nodes), rng.permutation(mesh.num_cells)
    index = np.argsort(order)
    facets = {name: index[f] for name, f in mesh.facets.items()}
    (low,) = np.nonzero(mesh.nodes[mesh.cells].mean(axis=1)[cells, 0] < 0.5)
    return Mesh(mesh.nodes[order], index[mesh.cells][cells], facets, {"low": low})


def bandwidth(mesh: Mesh) -> int:
    return int(np.ptp(mesh.cells, axis=1).max())


def test_numbering_brings_neighbours_together_and_keeps_the_mesh():
    mixed = shuffled(rectangle((20, 30)), 0)
    tidy = with_locality(mixed)
    assert bandwidth(mixed) > 300
    assert bandwidth(tidy) < 60
    volumes = [np.sort(cell_volumes(mesh.nodes, mesh.cells)) for mesh in (mixed, tidy)]
    np.testing.assert_allclose(*volumes)
    assert sorted(map(tuple, tidy.nodes)) == sorted(map(tuple, mixed.nodes))


def test_numbering_carries_tags_along():
    tidy = with_locality(shuffled(rectangle((8, 8)), 1))
    assert (tidy.nodes[tidy.facets["left"]][:, :, 0] == 0).all()
    assert len(tidy.facets["left"]) == 8
    assert (tidy.nodes[tidy.cells[tidy.regions["low"]]].mean(axis=1)[:, 0] < 0.5).all()
    assert len(tidy.regions["low"]) == 64
