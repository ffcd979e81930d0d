"""A digest is the same for the same mesh and differs for any other."""

import numpy as np

from riesz.mesh.mesh import Mesh, mesh_digest
from riesz.mesh.shapes import rectangle


def test_meshes_have_one_digest_exactly_when_they_are_equal():
    mesh = rectangle((3, 2))
    nodes, cells, facets = mesh.nodes, mesh.cells, dict(mesh.facets)
    turned = dict(reversed(facets.items()))
    assert mesh_digest(rectangle((3, 2))) == mesh_digest(Mesh(nodes, cells, turned))
    renamed = {**facets, "west": facets["left"]}
    del renamed["left"]
    others = [
        Mesh(1.0000001 * nodes, cells, facets),
        Mesh(nodes, cells[::-1], facets),
        Mesh(nodes, cells),
        Mesh(nodes, cells, renamed),
        Mesh(nodes, cells, facets, {"lake": np.array([1])}),
        Mesh(nodes, cells, facets, {"lake": np.array([2])}),
    ]
    assert len({mesh_digest(one) for one in [mesh, *others]}) == 7
