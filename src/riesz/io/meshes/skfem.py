"""Meshes to and from scikit-fem, which must be installed; nothing else here needs it."""

from typing import Any

import numpy as np
import skfem
from jaxtyping import Int

from riesz.errors import MeshError
from riesz.io.meshes.assemble import with_facets
from riesz.mesh.facets import find_facets
from riesz.mesh.mesh import Mesh, drop_unused_nodes, orient_cells
from riesz.mesh.rows import find_rows

KINDS = {1: skfem.MeshLine, 2: skfem.MeshTri, 3: skfem.MeshTet}


def to_skfem(mesh: Mesh) -> Any:
    """A `MeshLine`, `MeshTri` or `MeshTet`; facets become boundaries, regions subdomains."""
    bare = KINDS[mesh.dim](mesh.nodes.T.copy(), mesh.cells.T.copy())
    boundaries = {name: facet_numbers(mesh, bare, name) for name in mesh.facets}
    return bare.with_boundaries(boundaries).with_subdomains(dict(mesh.regions))


def facet_numbers(mesh: Mesh, bare: Any, name: str) -> Int[np.ndarray, " facet"]:
    """scikit-fem's numbers of the facets with a tag."""
    wanted = find_facets(mesh, mesh.facets[name], name).nodes
    return find_rows(np.sort(bare.facets, axis=0), wanted.T, mesh.num_nodes)


def from_skfem(mesh: Any) -> Mesh:
    """The same mesh; boundaries become facets and subdomains regions."""
    if not isinstance(mesh, tuple(KINDS.values())):
        raise MeshError(
            f"a scikit-fem {type(mesh).__name__} is not made of simplices: give MeshLine, MeshTri "
            "or MeshTet."
        )
    nodes, cells, new_index = drop_unused_nodes(mesh.p.T.copy(), mesh.t.T.astype(np.int64))
    facets = {
        name: new_index[mesh.facets.T[np.asarray(members)]]
        for name, members in (mesh.boundaries or {}).items()
    }
    regions = {name: np.asarray(cells) for name, cells in (mesh.subdomains or {}).items()}
    return with_facets(Mesh(nodes, orient_cells(nodes, cells), {}, regions), facets)
