"""From what mesh files hold to a mesh: planar points lose their third coordinate, and so on."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from riesz.errors import FileFormatError, MeshError
from riesz.geometry.lines import LARGEST
from riesz.mesh.facets import boundary_facets
from riesz.mesh.mesh import BOUNDARY, Mesh, check_indices, drop_unused_nodes, orient_cells
from riesz.mesh.rows import find_repeats


def assemble_mesh(
    path: Path,
    points: Float[np.ndarray, "point coordinate"],
    cells: Int[np.ndarray, "cell corner"],
    facets: Mapping[str, Int[np.ndarray, "_ _"]],
    regions: Mapping[str, Int[np.ndarray, " _"]],
) -> Mesh:
    """A checked mesh; cells are oriented and points that no cell uses are dropped."""
    try:
        check_indices("cells", cells, len(points))
        nodes, cells, new_index = drop_unused_nodes(points, cells)
        nodes = without_idle_coordinates(nodes, cells.shape[1] - 1)
        kept_facets = {
            name: renumber(rows, new_index, f"facets {name!r}") for name, rows in facets.items()
        }
        bare = Mesh(nodes, orient_cells(nodes, cells), {}, dict(regions))
        return with_facets(bare, kept_facets)
    except MeshError as error:
        raise FileFormatError(f"{path}: {error}") from error


def with_facets(mesh: Mesh, facets: Mapping[str, Int[np.ndarray, "_ _"]]) -> Mesh:
    """The mesh with tags as other programs have them.

    They may list a facet twice, and may name the whole boundary as we do without being told.
    """
    if not facets:
        return mesh
    distinct = {name: rows[~find_repeats(rows)] for name, rows in facets.items()}
    if BOUNDARY in distinct:
        check_is_boundary(mesh, distinct.pop(BOUNDARY))
    return Mesh(mesh.nodes, mesh.cells, distinct, mesh.regions)


def check_is_boundary(mesh: Mesh, rows: Int[np.ndarray, "facet dim"]) -> None:
    boundary = boundary_facets(mesh).nodes
    num_shared = find_repeats(np.concatenate([boundary, rows])).sum()
    if not len(rows) == len(boundary) == num_shared:
        raise MeshError(
            f"a group of {len(rows)} facets is named {BOUNDARY!r} but is not the whole boundary of "
            f"{len(boundary)} facets, which that name means here: rename the group."
        )


def without_idle_coordinates(
    nodes: Float[np.ndarray, "node coordinate"], dim: int
) -> Float[np.ndarray, "node dim"]:
    """Coordinates beyond the cells' dimension, which must be constant, are left out."""
    if nodes.shape[1] < dim:
        raise MeshError(
            f"cells with {dim + 1} corners need {dim} coordinates, but nodes have {nodes.shape[1]}."
        )
    (bad,) = np.nonzero(~(np.abs(nodes) < LARGEST).all(axis=1))
    if bad.size:
        raise MeshError(
            f"{bad.size} of {len(nodes)} nodes have NaN, infinite or absurd coordinates, such as "
            f"{nodes[bad[0]].tolist()}: the file is damaged."
        )
    spread = np.ptp(nodes[:, dim:], axis=0)
    if spread.any():
        what = "a curve" if dim == 1 else "a surface"
        raise MeshError(
            f"the mesh is {what} in {nodes.shape[1]} dimensions (coordinate "
            f"{dim + int(spread.argmax()) + 1} varies by {spread.max():.3g}): only lines along x, "
            "planar triangles and solid tetrahedra fill a domain; project it first."
        )
    return np.ascontiguousarray(nodes[:, :dim])


def renumber(
    rows: Int[np.ndarray, "facet dim"], new_index: Int[np.ndarray, " point"], what: str
) -> Int[np.ndarray, "facet dim"]:
    check_indices(what, rows, len(new_index))
    kept = new_index[rows]
    if (kept < 0).any():
        raise MeshError(
            f"{what} use a node that no cell uses: remove the tag or mesh what it bounds."
        )
    return kept
