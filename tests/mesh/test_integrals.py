"""Integrals over lines, polygons and regions are exact for functions that are linear on cells."""

import numpy as np
import pytest

from riesz.errors import MeshError
from riesz.geometry.lines import inside_polygon
from riesz.mesh.integrals import along_line, in_area
from riesz.mesh.location import locate
from riesz.mesh.shapes import box, interval, rectangle
from riesz.mesh.tags import tag_region

MESH = rectangle((7, 5))
HOOK = np.array([[0.1, 0.1], [0.9, 0.2], [0.5, 0.5], [0.8, 0.9], [0.2, 0.7]])
SLOPE, OFFSET = np.array([2.0, -3.0]), 1.0


def integral(mesh, found, function):
    corners = mesh.nodes[mesh.cells[found.cell]]
    return found.weights @ function(np.einsum("pc,pcd->pd", found.barycentric, corners))


def linear(x):
    return x @ SLOPE + OFFSET


def by_triangles(ring):
    """The integral of the linear function: signed triangles from the origin, by their middles."""
    here, there = ring, np.roll(ring, -1, axis=0)
    areas = (here[:, 0] * there[:, 1] - here[:, 1] * there[:, 0]) / 2
    return areas @ linear((here + there) / 3)


def test_a_polygon_is_cut_at_the_cells():
    found = in_area(MESH, ((HOOK,),))
    np.testing.assert_allclose(integral(MESH, found, linear), by_triangles(HOOK))
    turned = in_area(MESH, ((HOOK[::-1],),))
    np.testing.assert_allclose(integral(MESH, turned, linear), by_triangles(HOOK))


def test_holes_are_left_out():
    square = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    found = in_area(MESH, ((square, HOOK),))
    np.testing.assert_allclose(
        integral(MESH, found, linear), by_triangles(square) - by_triangles(HOOK)
    )


def test_a_piecewise_linear_function_is_integrated_cell_by_cell():
    fine = rectangle((140, 100))
    values = np.sin(3 * MESH.nodes[:, 0]) + MESH.nodes[:, 1] ** 2

    def on_cells(mesh, found):
        return found.weights @ np.sum(found.barycentric * values[MESH.cells[found.cell]], axis=1)

    # Every cell of the fine mesh lies in one of the coarse: midpoints there know no clipping.
    found = in_area(MESH, ((HOOK,),))
    centres = fine.nodes[fine.cells].mean(axis=1)

    inside = inside_polygon(centres, [HOOK])
    at = locate(MESH, centres[inside])
    rough = np.sum(at.barycentric * values[MESH.cells[at.cell]]) / fine.num_cells
    np.testing.assert_allclose(on_cells(MESH, found), rough, rtol=2e-3)


@pytest.mark.parametrize(
    ("mesh", "line"),
    [
        (MESH, [[0.1, 0.2], [0.7, 0.9], [0.3, 0.4]]),
        (MESH, [[0.0, 0.2], [1.0, 0.2]]),  # along edges
        (interval(10), [[0.13], [0.55]]),
        (box((3, 2, 4)), [[0.1, 0.2, 0.05], [0.8, 0.7, 0.9]]),
    ],
    ids=["plane", "along edges", "interval", "box"],
)
def test_lines_are_cut_at_the_cells(mesh, line):
    found, line = along_line(mesh, line), np.array(line)
    slope = np.arange(1.0, mesh.dim + 1)
    lengths = np.linalg.norm(np.diff(line, axis=0), axis=1)
    wanted = lengths @ ((line[1:] + line[:-1]) / 2 @ slope)
    np.testing.assert_allclose(integral(mesh, found, lambda x: x @ slope), wanted)
    np.testing.assert_allclose(found.centre(mesh) @ slope * lengths.sum(), wanted)


def test_regions_are_whole_cells():
    mesh = tag_region(MESH, "west", [[0, 0], [3 / 7, 0], [3 / 7, 1], [0, 1]])
    assert in_area(mesh, "west").weights.sum() == pytest.approx(3 / 7)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: in_area(MESH, ((HOOK + 0.5,),)), "of a polygon about .* lies in the domain: all"),
        (lambda: along_line(MESH, [[0.5, 0.5], [1.5, 0.5]]), "50 % of a line .* in the domain"),
        (lambda: along_line(MESH, [[0.5, 0.5]]), r"vertices of shape \(1, 2\)"),
        (lambda: in_area(MESH, "east"), "east"),
    ],
)
def test_what_leaves_the_domain_is_refused(act, message):
    with pytest.raises(MeshError, match=message):
        act()
