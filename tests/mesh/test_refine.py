"""Refinement keeps the domain, its tags and every piecewise linear function."""

import numpy as np
import pytest
import scipy.sparse as sp

from riesz.errors import MeshError
from riesz.fem.elements.domain import stiffness
from riesz.fem.elements.space import P1, point_operator
from riesz.mesh.facets import boundary_facets, facet_measures, find_facets
from riesz.mesh.mesh import Mesh, cell_volumes, mesh_digest
from riesz.mesh.quality import minimum_angles
from riesz.mesh.refinement import hierarchy, refine
from riesz.mesh.shapes import box, disc, interval, l_shape, rectangle

MESHES = {
    "interval": lambda: interval(4),
    "rectangle": lambda: rectangle((3, 2)),
    "disc": lambda: disc(3),
    "l_shape": lambda: l_shape(2),
    "box": lambda: box((2, 1, 2)),
}


def interpolation_matrix(mesh, points, **settings):
    return point_operator(P1(mesh), points, **settings).to_scipy()


def with_region(mesh: Mesh) -> Mesh:
    (left,) = np.nonzero(mesh.nodes[mesh.cells].mean(axis=1)[:, 0] < 0.4)
    return Mesh(mesh.nodes, mesh.cells, mesh.facets, {"left part": left})


@pytest.fixture(params=MESHES)
def mesh(request):
    return with_region(MESHES[request.param]())


def test_children_fill_their_parents_in_equal_parts(mesh):
    fine = refine(mesh)
    volumes = cell_volumes(fine.mesh.nodes, fine.mesh.cells)
    parents = cell_volumes(mesh.nodes, mesh.cells)
    np.testing.assert_allclose(volumes, parents[fine.parent] / 2**mesh.dim)
    assert (np.bincount(fine.parent) == 2**mesh.dim).all()


def test_children_lie_in_their_parents(mesh):
    fine = refine(mesh)
    centroids = fine.mesh.nodes[fine.mesh.cells].mean(axis=1)
    corners = mesh.nodes[mesh.cells[fine.parent]]
    edges = np.swapaxes(corners[:, 1:] - corners[:, :1], 1, 2)
    weights = np.linalg.solve(edges, (centroids - corners[:, 0])[..., None])[..., 0]
    assert (weights > 0).all()
    assert (weights.sum(axis=1) < 1).all()


def test_refined_meshes_conform(mesh):
    fine = refine(refine(mesh).mesh).mesh
    rim, coarse_rim = boundary_facets(fine), boundary_facets(mesh)
    assert len(rim.cell) == len(coarse_rim.cell) * 4 ** (mesh.dim - 1)
    np.testing.assert_allclose(
        facet_measures(fine.nodes, rim.nodes).sum(),
        facet_measures(mesh.nodes, coarse_rim.nodes).sum(),
    )


def test_refined_meshes_would_be_let_in_at_the_door(mesh):
    fine = refine(refine(mesh).mesh).mesh
    again = Mesh(fine.nodes, fine.cells, fine.facets, fine.regions)
    assert mesh_digest(again) == mesh_digest(fine)
    assert list(fine.facets) == list(mesh.facets)


def test_coarse_nodes_come_first_and_stay(mesh):
    fine = refine(mesh).mesh
    assert (fine.nodes[: mesh.num_nodes] == mesh.nodes).all()


def test_prolongation_is_interpolation_of_the_coarse_function(mesh):
    fine = refine(mesh)
    expected = interpolation_matrix(mesh, fine.mesh.nodes).toarray()
    np.testing.assert_allclose(fine.prolongation.toarray(), expected, atol=1e-14)


def test_tags_are_inherited(mesh):
    fine = refine(mesh).mesh
    assert set(fine.facets) == set(mesh.facets)
    for name, facets in fine.facets.items():
        assert len(find_facets(fine, facets, name).cell) == len(facets)
        np.testing.assert_allclose(
            facet_measures(fine.nodes, facets).sum(),
            facet_measures(mesh.nodes, mesh.facets[name]).sum(),
        )
    volume = cell_volumes(mesh.nodes, mesh.cells)[mesh.regions["left part"]].sum()
    fine_volume = cell_volumes(fine.nodes, fine.cells)[fine.regions["left part"]].sum()
    np.testing.assert_allclose(fine_volume, volume)


def test_repeated_refinement_does_not_flatten_tetrahedra():
    meshes = hierarchy(box((1, 1, 1)), 4).meshes
    angles = [minimum_angles(mesh).min() for mesh in meshes]
    assert min(angles) > 0.7 * angles[0]
    assert angles[-1] == pytest.approx(angles[-2])


@pytest.mark.parametrize("height", [1.0, 0.01])
def test_parts_of_bricks_have_no_obtuse_angles_however_flat_they_are(height):
    """So that all entries of the Laplacian's matrix off the diagonal are negative or zero."""
    mesh = hierarchy(box((2, 2, 2), upper=(1.0, 1.0, height)), 3).meshes[-1]
    matrix = stiffness(mesh)
    beside = matrix - sp.diags_array(matrix.diagonal())
    assert beside.max() <= 1e-12 * matrix.diagonal().max()


def test_a_hierarchy_goes_from_coarse_to_fine():
    levels = hierarchy(rectangle((2, 2)), 3)
    assert [mesh.num_cells for mesh in levels.meshes] == [8, 32, 128]
    assert len(levels.prolongations) == 2
    finest = levels.prolongations[1] @ levels.prolongations[0] @ levels.meshes[0].nodes
    np.testing.assert_allclose(finest, levels.meshes[-1].nodes)


def test_one_level_is_the_mesh_alone():
    levels = hierarchy(interval(2), 1)
    assert len(levels.meshes) == 1
    assert levels.prolongations == ()


def test_no_level_is_refused():
    with pytest.raises(MeshError, match=r"0 levels .* at least one"):
        hierarchy(interval(2), 0)


def test_tags_off_the_mesh_are_refused():
    mesh = rectangle((2, 2))
    astray = Mesh(mesh.nodes, mesh.cells, {"shortcut": np.array([[0, 8]])})
    with pytest.raises(MeshError, match="'shortcut' are not facets of any cell"):
        refine(astray)
