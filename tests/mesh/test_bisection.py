"""Cells that are marked are cut, and the mesh stays one."""

import numpy as np
import pytest

import riesz as rz
from riesz.errors import MeshError
from riesz.mesh.bisection import bisect
from riesz.mesh.facets import boundary_facets
from riesz.mesh.mesh import Mesh, cell_volumes


def tagged():
    mesh = rz.mesh.tag_region(rz.mesh.l_shape(3), "west", lambda x: x[:, 0] < -0.3)
    mesh = rz.mesh.tag_line(mesh, "river", np.array([[-1.0, 0.0], [0.0, 0.0]]), tolerance=1e-9)
    return rz.mesh.tag_boundary(mesh, "top", lambda x: x[:, 1] == 1)


def length(mesh, facets):
    return np.linalg.norm(np.diff(mesh.nodes[facets], axis=1), axis=2).sum()


def smallest_angle(mesh):
    corners = mesh.nodes[mesh.cells]
    first, second = (np.roll(corners, -k, axis=1) - corners for k in (1, 2))
    cosine = (first * second).sum(axis=2) / np.linalg.norm(first, axis=2)
    return np.arccos(cosine / np.linalg.norm(second, axis=2)).min()


@pytest.mark.parametrize("seed", range(4))
def test_random_marks_leave_a_conforming_mesh_with_its_tags(seed):
    rng, first = np.random.default_rng(seed), tagged()
    mesh = first
    for _ in range(6):
        marked = rng.choice(mesh.num_cells, 3, replace=False)
        before = mesh
        mesh, parent = bisect(mesh, marked)
        Mesh(mesh.nodes, mesh.cells, mesh.facets, mesh.regions)  # looked through
        np.testing.assert_array_equal(mesh.nodes[: before.num_nodes], before.nodes)
        volumes = np.bincount(parent, cell_volumes(mesh.nodes, mesh.cells))
        np.testing.assert_allclose(volumes, cell_volumes(before.nodes, before.cells))
        assert (np.bincount(parent)[marked] == 4).all()
        # A node in the middle of an edge that is not cut would lengthen the boundary.
        ends = boundary_facets(mesh).nodes
        np.testing.assert_allclose(length(mesh, ends), 8.0)
        assert len(np.unique(mesh.cells)) == mesh.num_nodes
        for name, facets in mesh.facets.items():
            np.testing.assert_allclose(length(mesh, facets), length(first, first.facets[name]))
        np.testing.assert_array_equal(
            np.isin(parent, before.regions["west"]),
            np.isin(np.arange(mesh.num_cells), mesh.regions["west"]),
        )
    assert (mesh.nodes[mesh.facets["top"]][:, :, 1] == 1).all()
    assert (mesh.nodes[mesh.facets["river"]][:, :, 1] == 0).all()
    assert smallest_angle(mesh) > 0.49 * smallest_angle(first)


def test_cells_fall_into_four_of_their_shape_and_their_neighbours_hardly_lose_angles():
    first = rz.mesh_from_polygon(np.array([[0, 0], [4, 0.5], [5, 3], [1, 3.5]]), max_edge=0.6)
    whole, _ = bisect(first, np.arange(first.num_cells))
    np.testing.assert_allclose(smallest_angle(whole), smallest_angle(first))
    mesh = first
    for _ in range(12):
        middles = mesh.nodes[mesh.cells].mean(axis=1)
        near = np.argsort(np.linalg.norm(middles - [2.1, 1.7], axis=1))[:6]
        mesh, _ = bisect(mesh, near)
    assert smallest_angle(mesh) > 0.8 * smallest_angle(first)


def test_what_is_not_near_stays_as_it_is():
    mesh, parent = bisect(rz.rectangle((20, 20)), np.array([0]))
    assert 4 < mesh.num_cells - 800 < 20
    np.testing.assert_array_equal(parent[-700:], np.arange(100, 800))


def test_only_triangles_are_bisected():
    with pytest.raises(MeshError, match="3 dimensions"):
        bisect(rz.mesh.box((2, 2, 2)), np.array([0]))
