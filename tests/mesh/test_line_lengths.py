"""Lines cut at the cells of a mesh: no length is lost, none is counted twice."""

import numpy as np
import pytest

from riesz.mesh.integrals import stretches_in_cells
from riesz.mesh.location import locate
from riesz.mesh.mesh import Mesh, cell_volumes
from riesz.mesh.shapes import rectangle

SQUARE = rectangle((7, 5), (0.0, 0.0), (2.0, 1.0))


def lengths(start, end, mesh=SQUARE):
    found = stretches_in_cells(mesh, np.atleast_2d(np.array(start)), np.atleast_2d(np.array(end)))
    return np.bincount(found.cell, found.length, minlength=mesh.num_cells)


def test_random_segments_keep_their_length_inside():
    rng = np.random.default_rng(0)
    starts, ends = rng.uniform((0, 0), (2, 1), (2, 200, 2))
    found = stretches_in_cells(SQUARE, starts, ends)
    total = np.bincount(found.segment, found.length, minlength=200)
    np.testing.assert_allclose(total, np.linalg.norm(ends - starts, axis=1), rtol=1e-7)


def test_what_each_cell_holds_is_what_many_points_along_the_line_say():
    start, end, mesh = np.array([0.07, 0.03]), np.array([1.9, 0.83]), SQUARE
    points = start + np.linspace(0, 1, 40_001)[:, None] * (end - start)
    counts = np.bincount(locate(mesh, points).cell, minlength=mesh.num_cells) / len(points)
    np.testing.assert_allclose(lengths(start, end), counts * np.linalg.norm(end - start), atol=1e-4)


@pytest.mark.parametrize(
    ("start", "end", "inside"),
    [
        ((-1.0, 0.31), (3.0, 0.31), 2.0),  # across, from outside to outside
        ((0.0, 0.0), (2.0, 0.0), 2.0),  # along the boundary
        ((0.0, -1e12), (0.0, 1e12), 1.0),  # along it, and from very far
        ((3.0, 0.0), (3.0, 1.0), 0.0),
        ((0.5, 0.5), (0.5, 0.5), 0.0),
    ],
)
def test_what_lies_outside_is_cut_off(start, end, inside):
    assert lengths(start, end).sum() == pytest.approx(inside, rel=1e-4)


def test_cells_on_both_sides_of_an_edge_share_a_line_along_it():
    mesh = rectangle((4, 4))
    held = lengths((0.5, 0.0), (0.5, 1.0), mesh)
    assert held.sum() == pytest.approx(1.0, rel=1e-7)
    middles = mesh.nodes[mesh.cells].mean(axis=1)
    west = held[middles[:, 0] < 0.5].sum()
    assert west == pytest.approx(0.5, rel=1e-7)
    np.testing.assert_allclose(held[held > 1e-6], 0.125, rtol=1e-6)


def test_a_graded_mesh_is_no_different():
    nodes = SQUARE.nodes.copy()
    nodes[:, 0] = 2 * (nodes[:, 0] / 2) ** 4
    graded = Mesh(nodes, SQUARE.cells, {}, {})
    assert np.ptp(np.log(cell_volumes(graded.nodes, graded.cells))) > 5
    assert lengths((0.0, 0.1), (2.0, 0.9), graded).sum() == pytest.approx(np.hypot(2, 0.8))
