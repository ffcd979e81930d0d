"""Facets, edges and normals of meshes agree with topology and with the divergence theorem."""

import equinox as eqx
import numpy as np
import pytest

from riesz.errors import MeshError
from riesz.mesh.facets import (
    boundary_facets,
    boundary_node_mask,
    cell_edges,
    facet_measures,
    find_facets,
    local_facets,
    node_neighbours,
    outward_normals,
)
from riesz.mesh.mesh import Mesh, cell_volumes
from riesz.mesh.refinement import refine
from riesz.mesh.shapes import box, disc, interval, l_shape, rectangle

MESHES = {
    "interval": lambda: interval(5),
    "rectangle": lambda: rectangle((3, 2)),
    "disc": lambda: disc(3),
    "l_shape": lambda: l_shape(2),
    "box": lambda: box((2, 1, 2)),
    "refined disc": lambda: refine(refine(disc(2)).mesh).mesh,
    "refined box": lambda: refine(box((1, 2, 1))).mesh,
}


@pytest.fixture(params=MESHES)
def mesh(request):
    return MESHES[request.param]()


def test_a_local_facet_lacks_its_own_corner():
    for dim in (1, 2, 3):
        facets = local_facets(dim)
        assert all(i not in facet for i, facet in enumerate(facets))


def test_normals_close_the_surface(mesh):
    rim = boundary_facets(mesh)
    flux = facet_measures(mesh.nodes, rim.nodes)[:, None] * outward_normals(mesh, rim)
    np.testing.assert_allclose(flux.sum(axis=0), 0, atol=1e-14)


def test_flux_of_the_position_is_dimension_times_volume(mesh):
    rim = boundary_facets(mesh)
    middle = mesh.nodes[rim.nodes].mean(axis=1)
    flux = np.einsum("fd,fd->f", middle, outward_normals(mesh, rim))
    total = flux @ facet_measures(mesh.nodes, rim.nodes)
    np.testing.assert_allclose(total, mesh.dim * cell_volumes(mesh.nodes, mesh.cells).sum())


def test_a_boundary_facet_is_opposite_to_its_corner(mesh):
    rim = boundary_facets(mesh)
    for nodes, cell, corner in zip(rim.nodes, rim.cell, rim.opposite, strict=True):
        assert set(nodes) == set(mesh.cells[cell]) - {mesh.cells[cell, corner]}


def test_euler_characteristic_is_one(mesh):
    num_edges = len(cell_edges(mesh)[0])
    num_facets = (mesh.num_cells * (mesh.dim + 1) + len(boundary_facets(mesh).cell)) // 2
    counts = {
        1: mesh.num_nodes - mesh.num_cells,
        2: mesh.num_nodes - num_edges + mesh.num_cells,
        3: mesh.num_nodes - num_edges + num_facets - mesh.num_cells,
    }
    assert counts[mesh.dim] == 1


def test_local_edges_join_the_corners_in_order(mesh):
    edges, edges_of_cell = cell_edges(mesh)
    pairs = [(i, j) for i in range(mesh.dim + 1) for j in range(i + 1, mesh.dim + 1)]
    for local, pair in enumerate(pairs):
        ends = np.sort(mesh.cells[:, pair], axis=1)
        assert (edges[edges_of_cell[:, local]] == ends).all()


def test_neighbours_are_symmetric_and_exclude_the_node(mesh):
    adjacency = node_neighbours(mesh)
    assert (adjacency != adjacency.T).nnz == 0
    assert not adjacency.diagonal().any()
    assert adjacency.nnz == 2 * len(cell_edges(mesh)[0])


def test_boundary_nodes_of_a_square_lie_on_its_sides():
    mesh = rectangle((4, 3))
    on_side = ((mesh.nodes == 0) | (mesh.nodes == 1)).any(axis=1)
    assert (boundary_node_mask(mesh) == on_side).all()


def test_found_facets_are_the_wanted_ones_in_any_node_order():
    mesh = box((2, 2, 2))
    wanted = mesh.facets["top"][:, ::-1]
    found = find_facets(mesh, wanted, "top")
    assert (found.nodes == np.sort(wanted, axis=1)).all()
    np.testing.assert_allclose(outward_normals(mesh, found), [[0, 0, 1]] * len(wanted))


def test_facets_of_no_cell_are_refused():
    with pytest.raises(MeshError, match=r"1 of 2 facets tagged 'x' .* nodes \[0, 8\]"):
        find_facets(rectangle((2, 2)), np.array([[0, 1], [0, 8]]), "x")


def test_a_facet_of_three_cells_is_refused():
    nodes = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.6, 0.9]])
    cells = np.array([[0, 1, 2], [1, 3, 2], [1, 4, 2]])
    with pytest.raises(MeshError, match=r"the facet with nodes \[1, 2\] belongs to 3 cells"):
        boundary_facets(Mesh(nodes, cells))


def test_facets_of_more_nodes_than_64_bits_could_number_are_found():
    """Three indices below three million do not fit in one integer; the last cells show it."""
    few = box((2, 2, 2))
    lone = 3_000_000  # nodes before those of the box, on cells of a thread of their own
    corners = np.concatenate([lone + few.cells, lone + few.cells[:1]])
    mesh = eqx.tree_at(lambda m: (m.nodes, m.cells), few, (np.zeros((lone + 27, 3)), corners))
    with pytest.raises(MeshError, match=rf"nodes \[{lone}, .* belongs to 3 cells"):
        boundary_facets(mesh)
    mesh = eqx.tree_at(lambda m: m.cells, mesh, corners[:-1])
    np.testing.assert_array_equal(boundary_facets(mesh).nodes, lone + boundary_facets(few).nodes)
    np.testing.assert_array_equal(cell_edges(mesh)[0], lone + cell_edges(few)[0])
