"""What was compiled on one mesh serves another of the same content, and no other."""

import equinox as eqx
import numpy as np

from riesz.fem.elements.space import P1, P2
from riesz.mesh.mesh import Mesh
from riesz.mesh.refinement import hierarchy
from riesz.mesh.shapes import rectangle


def test_spaces_and_hierarchies_are_equal_where_their_meshes_are():
    one, other = rectangle((3, 2)), rectangle((3, 2))
    assert P1(one) == P1(other)
    assert hash(P1(one)) == hash(P1(other))
    assert hierarchy(one, 2) == hierarchy(other, 2)
    assert hash(hierarchy(one, 2)) == hash(hierarchy(other, 2))


def test_spaces_differ_by_a_node_a_tag_the_degree_or_the_axis():
    mesh = rectangle((3, 2))
    moved = Mesh(mesh.nodes + np.array([1e-9, 0.0]), mesh.cells, mesh.facets)
    untagged = Mesh(mesh.nodes, mesh.cells)
    others = [P1(moved), P1(untagged), P2(mesh), P1(mesh, axisymmetric=True), mesh]
    assert all(P1(mesh) != other for other in others)
    assert hierarchy(mesh, 2) != hierarchy(moved, 2)
    assert hierarchy(mesh, 2) != hierarchy(mesh, 1)


class OnSpace(eqx.Module):
    values: np.ndarray
    space: object = eqx.field(static=True)


def test_a_function_is_traced_once_for_equal_spaces():
    traced = []

    @eqx.filter_jit
    def doubled(given):
        traced.append(given.space.num_dofs)
        return 2 * given.values

    for corner in (1.0, 1.0, 2.0):
        space = P1(rectangle((2, 2), (0.0, 0.0), (corner, 1.0)))
        doubled(OnSpace(np.zeros(3), space))
    assert traced == [9, 9]
