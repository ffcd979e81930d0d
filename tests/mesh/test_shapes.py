"""The builders fill the domains they name, conformingly, with every side tagged."""

import time

import numpy as np
import pytest

from riesz.errors import MeshError
from riesz.mesh.facets import boundary_facets, facet_measures, find_facets
from riesz.mesh.mesh import cell_volumes
from riesz.mesh.quality import minimum_angles
from riesz.mesh.shapes import box, disc, geometric_ticks, interval, l_shape, rectangle

SHAPES = {
    "interval": (lambda: interval(7, -1, 2.5), 3.5),
    "rectangle": (lambda: rectangle((5, 3), (1, 2), (3, 5)), 6.0),
    "rectangle_left": (lambda: rectangle((5, 3), diagonal="left"), 1.0),
    "rectangle_alternating": (lambda: rectangle((4, 3), diagonal="alternating"), 1.0),
    "box": (lambda: box((2, 3, 4), (0, 0, -1), (1, 2, 1)), 4.0),
    "ticks": (
        lambda: rectangle((geometric_ticks(1, 5, 4), geometric_ticks(0, 2, 3, first=0.1))),
        8.0,
    ),
    "disc": (lambda: disc(6, 2.0, (3, 1)), 36 / 2 * 4 * np.sin(2 * np.pi / 36)),
    "l_shape": (lambda: l_shape(3), 3.0),
}


def cell_edge_lengths(mesh):
    corners = mesh.nodes[mesh.cells]
    return np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2)


@pytest.fixture(params=SHAPES)
def shape(request):
    build, volume = SHAPES[request.param]
    return build(), volume


def test_cells_fill_the_domain(shape):
    mesh, volume = shape
    np.testing.assert_allclose(cell_volumes(mesh.nodes, mesh.cells).sum(), volume)


def test_the_sides_tag_every_boundary_facet_once(shape):
    mesh, _ = shape
    tagged = np.concatenate(list(mesh.facets.values()))
    boundary = boundary_facets(mesh).nodes
    assert sorted(map(tuple, np.sort(tagged, axis=1))) == sorted(map(tuple, boundary))


def test_every_side_consists_of_facets_of_cells(shape):
    mesh, _ = shape
    for name, facets in mesh.facets.items():
        assert len(find_facets(mesh, facets, name).cell) == len(facets)


@pytest.mark.parametrize("diagonal", ["right", "left", "alternating"])
def test_sides_of_a_rectangle_lie_where_their_names_say(diagonal):
    mesh = rectangle((3, 4), (-1, 2), (5, 3), diagonal=diagonal)
    where = {"left": (0, -1), "right": (0, 5), "bottom": (1, 2), "top": (1, 3)}
    assert set(mesh.facets) == set(where)
    for name, (axis, value) in where.items():
        assert (mesh.nodes[mesh.facets[name]][..., axis] == value).all()
    np.testing.assert_allclose(facet_measures(mesh.nodes, mesh.facets["bottom"]).sum(), 6.0)


def test_sides_of_a_box_lie_where_their_names_say():
    mesh = box((2, 3, 1), (0, 1, 2), (1, 3, 5))
    names = {"left": (0, 0), "right": (0, 1), "front": (1, 1), "back": (1, 3)}
    names |= {"bottom": (2, 2), "top": (2, 5)}
    assert set(mesh.facets) == set(names)
    for name, (axis, value) in names.items():
        assert (mesh.nodes[mesh.facets[name]][..., axis] == value).all()
    np.testing.assert_allclose(facet_measures(mesh.nodes, mesh.facets["left"]).sum(), 6.0)


def test_ends_of_an_interval_are_tagged():
    mesh = interval(4, 2, 3)
    assert mesh.facets["left"].tolist() == [[0]]
    assert mesh.facets["right"].tolist() == [[4]]


@pytest.mark.parametrize(
    "ends", [{}, {"first": 0.01}, {"first": 5}, {"last": 2.5}, {"last": 1.225}]
)
def test_graded_cells_change_by_one_factor(ends):
    ticks = geometric_ticks(0.2, 10.0, 8, **ends)
    assert (ticks[0], ticks[-1], len(ticks)) == (0.2, 10.0, 9)
    lengths = np.diff(ticks)
    np.testing.assert_allclose(lengths[1:] / lengths[:-1], lengths[1] / lengths[0], rtol=1e-9)
    for name, length in ends.items():
        np.testing.assert_allclose(lengths[{"first": 0, "last": -1}[name]], length, rtol=1e-9)


def test_an_interval_between_ticks_has_them_as_nodes():
    ticks = geometric_ticks(0.1, 1000.0, 20)
    mesh = interval(ticks)
    np.testing.assert_array_equal(mesh.nodes[:, 0], ticks)
    assert mesh.facets["right"].tolist() == [[20]]


def test_an_alternating_rectangle_has_both_diagonals_in_equal_number():
    mesh = rectangle((4, 4), diagonal="alternating")
    # At the middle of an even grid the diagonals meet: eight triangles instead of six.
    middle = np.flatnonzero((mesh.nodes == 0.5).all(axis=1))[0]
    assert np.bincount(mesh.cells.ravel())[middle] in (4, 8)
    mirrored = mesh.nodes * [-1, 1] + [1, 0]
    assert {frozenset(map(tuple, mesh.nodes[cell])) for cell in mesh.cells} == {
        frozenset(map(tuple, mirrored[cell])) for cell in mesh.cells
    }


@pytest.mark.parametrize("num_rings", [1, 2, 5, 40])
def test_disc_angles_are_good_at_any_size(num_rings):
    mesh = disc(num_rings)
    assert minimum_angles(mesh).min() > 43
    a, b, c = np.sort(cell_edge_lengths(mesh), axis=1).T
    assert (a**2 + b**2 > c**2).all(), "an angle exceeds 90 degrees"
    assert mesh.num_nodes == 1 + 3 * num_rings * (num_rings + 1)
    rim = mesh.nodes[mesh.facets["outer"]]
    np.testing.assert_allclose(np.linalg.norm(rim, axis=2), 1.0)


def test_the_l_shape_lacks_its_lower_right_quarter():
    mesh = l_shape(4)
    x, y = mesh.nodes[mesh.cells].mean(axis=1).T
    assert not ((x > 0) & (y < 0)).any()
    assert (mesh.nodes == 0).all(axis=1).any()
    np.testing.assert_allclose(facet_measures(mesh.nodes, mesh.facets["outer"]).sum(), 8.0)


def test_neighbours_in_space_are_neighbours_in_memory():
    mesh = rectangle((10, 10))
    assert np.ptp(mesh.cells, axis=1).max() == 12
    # Each cell shares a node with the next, except where a row begins.
    shared = [len(set(a) & set(b)) for a, b in zip(mesh.cells[:-1], mesh.cells[1:], strict=True)]
    assert np.count_nonzero(np.array(shared) == 0) <= 9


def test_a_million_nodes_take_less_than_three_seconds():
    start = time.process_time()
    mesh = rectangle((999, 999))
    assert mesh.num_nodes == 10**6
    assert time.process_time() - start < 3


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: interval(0), r"num_cells is \(0,\): give whole numbers"),
        (lambda: rectangle((3, -1)), "shape is .* at least one"),
        (lambda: l_shape(0), "num_cells is"),
        (lambda: disc(0), "num_rings is"),
        (lambda: interval(3, 1.0, 1.0), "not above the lower corner"),
        (lambda: rectangle((2, 2), (0, 0), (1, -1)), "not above the lower corner"),
        (lambda: box((1, 1, 1), upper=(1, 1, float("nan"))), "give finite coordinates"),
        (lambda: rectangle((2, 2), (0, 0, 0)), "do not both have 2 coordinates"),
        (lambda: disc(2, float("inf")), "give finite coordinates"),
        (lambda: disc(2, -1.0), "radius -1.0: give a positive radius"),
        (lambda: geometric_ticks(0, 1, 4), "give the length of the first cell"),
        (lambda: geometric_ticks(0, 1, 4, first=0.1, last=0.1), "one will do"),
        (lambda: geometric_ticks(0, 1, 4, first=1), "a positive length below that of all"),
        (lambda: geometric_ticks(0, 1, 1, last=0.5), "give two cells at least"),
        (lambda: interval([0.0, 2.0, 1.0]), r"do not ascend: 2.0 is followed by 1.0"),
        (lambda: interval([0.0]), "give both ends at least"),
        (lambda: interval([0.0, np.nan]), "give a row of finite numbers"),
        (lambda: interval([0.0, 1.0], 0.0), "give no ends"),
        (lambda: rectangle(([0.0, 1.0], 4)), "give ticks along every axis or none"),
    ],
)
def test_impossible_shapes_are_refused(build, message):
    with pytest.raises(MeshError, match=message):
        build()


def test_an_unknown_diagonal_is_refused():
    from riesz.mesh.shapes import cut_squares

    index = np.arange(4).reshape(2, 2)
    unchecked = getattr(cut_squares, "__wrapped__", cut_squares)
    with pytest.raises(MeshError, match="diagonal 'up' is unknown"):
        unchecked(index, "up")
