"""Meshes pass to scikit-fem and back, with their names."""

import numpy as np
import pytest
import skfem

from riesz.errors import MeshError
from riesz.io.meshes.skfem import from_skfem, to_skfem
from riesz.mesh.mesh import Mesh, cell_volumes
from riesz.mesh.shapes import box, disc, interval, rectangle

MESHES = {
    "1d": lambda: interval(5),
    "2d": lambda: rectangle((3, 2)),
    "disc": lambda: disc(3),
    "3d": lambda: box((2, 2, 1)),
}


@pytest.fixture(params=MESHES)
def mesh(request):
    bare = MESHES[request.param]()
    return Mesh(bare.nodes, bare.cells, bare.facets, {"part": np.array([1, 3])})


def test_a_round_trip_changes_nothing(mesh):
    back = from_skfem(to_skfem(mesh))
    assert (back.nodes == mesh.nodes).all()
    assert (np.sort(back.cells, axis=1) == np.sort(mesh.cells, axis=1)).all()
    assert back.regions["part"].tolist() == [1, 3]
    for name, facets in mesh.facets.items():
        assert {tuple(sorted(f)) for f in back.facets[name]} == {tuple(sorted(f)) for f in facets}


def test_boundaries_lie_where_their_facets_do(mesh):
    other = to_skfem(mesh)
    for name, facets in mesh.facets.items():
        ours = np.sort(mesh.nodes[facets].mean(axis=1), axis=0)
        theirs = other.p[:, other.facets[:, other.boundaries[name]]].mean(axis=1).T
        np.testing.assert_allclose(np.sort(theirs, axis=0), ours)


def test_meshes_of_skfem_become_ours():
    ours = from_skfem(skfem.MeshTri().refined(2).with_defaults())
    assert set(ours.facets) == {"left", "right", "bottom", "top"}
    np.testing.assert_allclose(cell_volumes(ours.nodes, ours.cells).sum(), 1)
    assert from_skfem(skfem.MeshTet()).facets == {}


def test_quadrilaterals_are_refused():
    with pytest.raises(MeshError, match="MeshQuad1 is not made of simplices"):
        from_skfem(skfem.MeshQuad())


def test_a_boundary_named_boundary_is_ours():
    rim = skfem.MeshTri().refined(2)
    named = rim.with_boundaries({"boundary": rim.boundary_facets()})
    assert not from_skfem(named).facets
    with pytest.raises(MeshError, match="is named 'boundary' but is not the whole"):
        from_skfem(rim.with_boundaries({"boundary": rim.boundary_facets()[:2]}))
