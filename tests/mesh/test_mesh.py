"""A mesh is refused where it does not describe a domain, with the place and the remedy."""

import numpy as np
import pytest

from riesz.errors import MeshError
from riesz.mesh.mesh import Mesh, cell_volumes, drop_unused_nodes, orient_cells
from riesz.mesh.refinement import refine
from riesz.mesh.shapes import box, interval, rectangle
from riesz.mesh.tags import tag_boundary

NODES = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
CELLS = np.array([[0, 1, 2], [0, 2, 3]])


def moved(node: int, place: list[float]) -> np.ndarray:
    nodes = NODES.copy()
    nodes[node] = place
    return nodes


def test_a_square_of_two_triangles_is_a_mesh():
    mesh = Mesh(NODES, CELLS)
    assert (mesh.dim, mesh.num_nodes, mesh.num_cells) == (2, 4, 2)
    assert repr(mesh) == "Mesh(4 nodes, 2 triangles, facets [], regions [])"


@pytest.mark.parametrize(
    ("nodes", "cells", "message"),
    [
        (NODES, np.array([[0, 2, 1], [0, 2, 3]]), "1 of 2 cells have zero or negative .* cell 0"),
        (moved(3, [0.5, 0.5]), CELLS, "1 of 2 cells have zero or negative volume, first cell 1"),
        (NODES, np.array([[0, 1, 2], [0, 2, 2]]), "zero or negative volume, first cell 1"),
        (moved(3, [1.0, 1.0]), CELLS, "repeat the place of another, first nodes 2 and 3"),
        (NODES, CELLS[:1], "1 of 4 nodes belong to no cell, first node 3"),
        (moved(1, [np.nan, 0.0]), CELLS, "1 of 4 nodes have NaN or infinite .* first node 1"),
        (moved(2, [np.inf, 0.0]), CELLS, "NaN or infinite coordinates, first node 2"),
        (NODES, np.array([[0, 1, 2, 3]]), "4 corners, but simplices in 2 dimensions have 3"),
        (NODES, np.array([[0, 1, 4]]), "cells refer to index 4, but indices run from 0 to 3"),
        (NODES, np.array([[0, 1, -1]]), "cells refer to index -1"),
        (NODES, np.empty((0, 3), dtype=int), "the mesh has no cells"),
        (np.zeros((5, 4)), np.array([[0, 1, 2, 3, 4]]), "nodes have 4 coordinates each"),
    ],
)
def test_bad_meshes_are_refused(nodes, cells, message):
    with pytest.raises(MeshError, match=message):
        Mesh(nodes, cells)


def test_tags_out_of_range_are_refused():
    with pytest.raises(MeshError, match="facets 'shore' refer to index 9"):
        Mesh(NODES, CELLS, {"shore": np.array([[0, 9]])})
    with pytest.raises(MeshError, match="region 'lake' refer to index 2"):
        Mesh(NODES, CELLS, {}, {"lake": np.array([2])})


def test_thin_cells_far_from_the_origin_are_accepted():
    nodes = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1e-6]]) + np.array([5e5, 4e6])
    assert Mesh(nodes, np.array([[0, 1, 2]])).num_cells == 1


@pytest.mark.parametrize(
    "mesh", [interval(4), rectangle((2, 3)), box((2, 2, 1))], ids=["1d", "2d", "3d"]
)
def test_orienting_undoes_any_reversal(mesh):
    volumes = cell_volumes(mesh.nodes, mesh.cells)
    reversed_cells = mesh.cells.copy()
    reversed_cells[::2, -2:] = mesh.cells[::2, -2:][:, ::-1]
    np.testing.assert_allclose(np.abs(cell_volumes(mesh.nodes, reversed_cells)), volumes)
    oriented = orient_cells(mesh.nodes, reversed_cells)
    np.testing.assert_allclose(cell_volumes(mesh.nodes, oriented), volumes)
    np.testing.assert_allclose(volumes.sum(), 1.0)


def test_dropping_unused_nodes_renumbers_the_rest():
    nodes = np.vstack([[9.0, 9.0], NODES])
    kept, cells, new_index = drop_unused_nodes(nodes, CELLS + 1)
    assert (kept == NODES).all()
    assert (cells == CELLS).all()
    assert new_index.tolist() == [-1, 0, 1, 2, 3]


def test_the_name_of_the_whole_boundary_is_reserved():
    with pytest.raises(MeshError, match=r"named 'boundary', which always is the whole .* rename"):
        Mesh(NODES, CELLS, {"boundary": np.array([[0, 1]])})
    with pytest.raises(MeshError, match="rename"):
        tag_boundary(Mesh(NODES, CELLS), "boundary", lambda x: x[:, 0] < 0.1)


def test_nothing_counts_twice():
    with pytest.raises(MeshError, match=r"facets 'shore' have 1 rows more than once, .* \[1, 0\]"):
        Mesh(NODES, CELLS, {"shore": np.array([[0, 1], [1, 2], [1, 0]])})
    with pytest.raises(MeshError, match=r"cells have 1 rows more than once, such as row 2 "):
        Mesh(NODES, np.vstack([CELLS, [[2, 0, 1]]]))
    with pytest.raises(MeshError, match="region 'lake' has a cell more than once"):
        Mesh(NODES, CELLS, {}, {"lake": np.array([1, 1])})


@pytest.mark.parametrize("dtype", [np.uint64, np.uint8, np.int32])
def test_indices_of_any_integer_type_make_the_same_mesh(dtype):
    cells, shore = CELLS.astype(dtype), np.array([[0, 1]], dtype)
    mesh = Mesh(NODES.astype(np.float32), cells, {"shore": shore}, {"lake": np.array([1], dtype)})
    assert mesh.nodes.dtype == np.float64
    for indices in (mesh.cells, mesh.facets["shore"], mesh.regions["lake"]):
        assert indices.dtype == np.int64
    assert refine(mesh).mesh.num_cells == 8


def test_lists_make_a_mesh():
    mesh = Mesh(NODES.tolist(), CELLS.tolist(), {"shore": [[0, 1]]}, {"lake": [1]})
    assert (mesh.num_cells, len(mesh.facets["shore"]), len(mesh.regions["lake"])) == (2, 1, 1)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((NODES, CELLS.astype(float)), "cells are float64, not integers"),
        ((NODES[:, 0], CELLS), r"nodes are float64 of shape \(4,\)"),
        ((NODES.astype(str), CELLS), "give real numbers"),
        (([[0.0, 0.0], [1.0]], CELLS), "nodes are not an array"),
        ((NODES, CELLS[0]), r"cells have shape \(3,\)"),
        ((NODES, CELLS, {"shore": [[0.0, 1.0]]}), "members of 'shore' are float64"),
        ((NODES, CELLS, {"shore": [0, 1]}), r"facets 'shore' have shape \(2,\)"),
        ((NODES, CELLS, ["shore"]), "tags are a list"),
        ((NODES, CELLS, {}, {"lake": np.array([True, False])}), "members of 'lake' are bool"),
        ((NODES, CELLS, {}, {"lake": [[0]]}), r"region 'lake' has shape \(1, 1\)"),
    ],
)
def test_what_holds_no_indices_or_coordinates_is_refused(parts, message):
    with pytest.raises(MeshError, match=message):
        Mesh(*parts)
