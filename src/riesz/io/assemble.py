"""From what mesh files hold to a mesh: planar points lose their third coordinate, and so on."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from riesz.errors import FileFormatError, MeshError
from riesz.mesh.mesh import Mesh, check_indices, drop_unused_nodes, orient_cells


def assemble(
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
            name: renumbered(rows, new_index, f"facets {name!r}") for name, rows in facets.items()
        }
        return Mesh(nodes, orient_cells(nodes, cells), kept_facets, dict(regions))
    except MeshError as error:
        raise FileFormatError(f"{path}: {error}") from error


def without_idle_coordinates(
    nodes: Float[np.ndarray, "node coordinate"], dim: int
) -> Float[np.ndarray, "node dim"]:
    """Coordinates beyond the cells' dimension, which must be constant, are left out."""
    if nodes.shape[1] < dim:
        raise MeshError(
            f"cells with {dim + 1} corners need {dim} coordinates, but nodes have {nodes.shape[1]}."
        )
    # Beyond any length there is, and far enough from overflow to multiply three of them.
    (bad,) = np.nonzero(~(np.abs(nodes) < 1e100).all(axis=1))
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


def renumbered(
    rows: Int[np.ndarray, "facet dim"], new_index: Int[np.ndarray, " point"], what: str
) -> Int[np.ndarray, "facet dim"]:
    check_indices(what, rows, len(new_index))
    kept = new_index[rows]
    if (kept < 0).any():
        raise MeshError(
            f"{what} use a node that no cell uses: remove the tag or mesh what it bounds."
        )
    return kept
