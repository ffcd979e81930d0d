"""A slice covers the section of the domain, and linear functions and cells are the same on it."""

import numpy as np
import pytest

from riesz.errors import MeshError
from riesz.mesh.facets import boundary_facets, cell_edges
from riesz.mesh.mesh import Mesh, cell_volumes
from riesz.mesh.refinement import refine
from riesz.mesh.shapes import box, rectangle
from riesz.mesh.slices import mesh_slice

BRICK = refine(box((2, 3, 2), (0.0, 0.0, 0.0), (1.0, 2.0, 3.0))).mesh
AREAS = {"x": 6.0, "y": 3.0, "z": 2.0}

# Along nodes inside, at both ends, and between them.
PLANES = [("x", 0.25), ("x", 0.0), ("y", 2.0), ("y", 0.7), ("z", 3.0), ("z", 1.5), ("z", 0.1)]


@pytest.mark.parametrize(("axis", "place"), PLANES)
def test_a_slice_is_a_mesh_of_the_section(axis, place):
    cut = mesh_slice(BRICK, **{axis: place})
    whole = Mesh(cut.mesh.nodes, cut.mesh.cells)  # is looked through
    np.testing.assert_allclose(cell_volumes(whole.nodes, whole.cells).sum(), AREAS[axis])
    edges, _ = cell_edges(whole)
    assert whole.num_nodes - len(edges) + whole.num_cells == 1  # Euler's formula of a disc
    rim = np.ptp(whole.nodes[boundary_facets(whole).nodes], axis=1)
    np.testing.assert_allclose(rim.sum(), 2 * np.ptp(whole.nodes, axis=0).sum())


@pytest.mark.parametrize(("axis", "place"), PLANES)
def test_linear_functions_and_cells_are_the_same_on_a_slice(axis, place):
    cut = mesh_slice(BRICK, **{axis: place})
    number = "xyz".index(axis)
    points = np.insert(cut.mesh.nodes, number, place, axis=1)
    np.testing.assert_allclose(cut.values(BRICK.nodes), points, atol=1e-12)
    middles = points[cut.mesh.cells].mean(axis=1)
    corners = BRICK.nodes[cut.values(BRICK.cells)]
    edges = np.swapaxes(corners[:, 1:] - corners[:, :1], 1, 2)
    inside = np.linalg.solve(edges, (middles - corners[:, 0])[..., None])[..., 0]
    assert inside.min() > -1e-12
    assert inside.sum(axis=1).max() < 1 + 1e-12


def test_a_slice_through_a_twisted_mesh_misses_nothing():
    rng = np.random.default_rng(0)
    regular = box((4, 4, 4))
    inner = ((regular.nodes > 0) & (regular.nodes < 1)).all(axis=1)
    nodes = regular.nodes + 0.04 * inner[:, None] * rng.uniform(-1, 1, regular.nodes.shape)
    mesh = Mesh(nodes, regular.cells)
    cut = mesh_slice(mesh, y=float(nodes[inner][5, 1])).mesh
    np.testing.assert_allclose(cell_volumes(cut.nodes, cut.cells).sum(), 1.0)


def test_planes_that_miss_or_are_several_are_refused():
    with pytest.raises(MeshError, match="one of x, y and z, not by none of them"):
        mesh_slice(BRICK)
    with pytest.raises(MeshError, match="not by x and z"):
        mesh_slice(BRICK, x=0.5, z=0.5)
    with pytest.raises(MeshError, match=r"z = 4 passes the mesh by, which spans 0 to 3"):
        mesh_slice(BRICK, z=4.0)
    with pytest.raises(MeshError, match="this one has 2 dimensions"):
        mesh_slice(rectangle((2, 2)), x=0.5)


def test_a_plane_through_a_corner_alone_is_refused():
    corners = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    with pytest.raises(MeshError, match="only touches the mesh"):
        mesh_slice(Mesh(corners, np.array([[0, 1, 2, 3]])), z=1.0)
