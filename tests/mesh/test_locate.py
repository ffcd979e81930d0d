"""Points are found in the cells that hold them, on any mesh, and outside ones are told apart."""

from itertools import pairwise

import numpy as np
import pytest

from riesz.errors import MeshError
from riesz.fem.elements.space import P1, point_operator
from riesz.mesh.facets import boundary_facets
from riesz.mesh.location import barycentric_coordinates, locate, nearest_on_boundary
from riesz.mesh.mesh import Mesh, orient_cells
from riesz.mesh.shapes import box, disc, interval, l_shape, rectangle

MESHES = {
    "interval": lambda: interval(9),
    "rectangle": lambda: rectangle((6, 5)),
    "box": lambda: box((3, 2, 4)),
    "disc": lambda: disc(5),
    "l_shape": lambda: l_shape(4),
}


def interpolation_matrix(mesh, points, **settings):
    return point_operator(P1(mesh), points, **settings).to_scipy()


def graded(exponent: int = 12) -> Mesh:
    """A rectangle whose cells shrink by 4000 towards the left, where they are also very thin."""
    mesh = rectangle((30, 30))
    x, y = mesh.nodes.T
    nodes = np.stack([x + 0 * y, y], axis=1)
    nodes[:, 0] = np.where(x > 0, 2.0 ** (exponent * (x - 1)), 0.0)
    return Mesh(nodes, orient_cells(nodes, mesh.cells))


def fan() -> Mesh:
    """One long cell among many small ones: its centroid is far from most of its points."""
    small = rectangle((40, 4), (0, 0), (1, 0.1))
    apex = len(small.nodes)
    top = np.flatnonzero(small.nodes[:, 1] == small.nodes[:, 1].max())
    cells = [[a, b, apex] for a, b in pairwise(top)]
    nodes = np.vstack([small.nodes, [[0.5, 30.0]]])
    return Mesh(nodes, orient_cells(nodes, np.vstack([small.cells, cells])))


@pytest.fixture(params=MESHES)
def mesh(request):
    return MESHES[request.param]()


def points_in_cells(mesh: Mesh, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """One random point strictly inside each cell, and that cell."""
    weights = np.random.default_rng(seed).dirichlet(np.full(mesh.dim + 1, 2.0), mesh.num_cells)
    return np.einsum("ci,cid->cd", weights, mesh.nodes[mesh.cells]), np.arange(mesh.num_cells)


def brute_force_inside(mesh: Mesh, points: np.ndarray) -> np.ndarray:
    corners = mesh.nodes[mesh.cells][None].repeat(len(points), axis=0)
    return (barycentric_coordinates(corners, points[:, None]).min(axis=2) >= 0).any(axis=1)


def test_points_inside_cells_are_found_in_them(mesh):
    points, cells = points_in_cells(mesh)
    location = locate(mesh, points)
    assert location.inside.all()
    assert (location.cell == cells).all()


@pytest.mark.parametrize("build", [graded, fan])
def test_strong_grading_hides_no_cell(build):
    mesh = build()
    for seed in range(5):
        points, cells = points_in_cells(mesh, seed)
        assert (locate(mesh, points).cell == cells).all()


def test_inside_agrees_with_trying_every_cell(mesh):
    low, high = mesh.nodes.min(axis=0) - 0.2, mesh.nodes.max(axis=0) + 0.2
    points = np.random.default_rng(1).uniform(low, high, (500, mesh.dim))
    location = locate(mesh, points)
    assert (location.inside == brute_force_inside(mesh, points)).all()
    assert ((location.cell == -1) == ~location.inside).all()
    assert np.isnan(location.barycentric[~location.inside]).all()


def test_coordinates_are_weights_that_give_the_point_back(mesh):
    points, _ = points_in_cells(mesh)
    location = locate(mesh, points)
    assert (location.barycentric >= 0).all()
    np.testing.assert_allclose(location.barycentric.sum(axis=1), 1.0)
    corners = mesh.nodes[mesh.cells[location.cell]]
    np.testing.assert_allclose(
        np.einsum("pi,pid->pd", location.barycentric, corners), points, atol=1e-14
    )


def test_nodes_and_facet_midpoints_count_as_inside(mesh):
    midpoints = mesh.nodes[boundary_facets(mesh).nodes].mean(axis=1)
    assert locate(mesh, mesh.nodes).inside.all()
    assert locate(mesh, midpoints).inside.all()


def test_rounding_outside_the_boundary_is_forgiven():
    mesh = rectangle((4, 4))
    points = np.array([[1 + 1e-12, 0.4], [-1e-12, -1e-12], [0.3, 1 + 1e-11]])
    location = locate(mesh, points)
    assert location.inside.all()
    assert (location.barycentric >= 0).all()


def test_far_from_the_origin_nothing_is_lost():
    offset = np.array([5e6, 6e5])
    near = rectangle((20, 20), (0, 0), (100, 100))
    far = Mesh(near.nodes + offset, near.cells)
    points = np.random.default_rng(2).uniform(0, 100, (300, 2)) + offset
    assert locate(far, points).inside.all()
    assert locate(far, far.nodes).inside.all()


@pytest.mark.parametrize("build", MESHES.values(), ids=list(MESHES))
def test_a_tolerance_takes_in_exactly_the_points_that_near(build):
    mesh = build()
    low, high = mesh.nodes.min(axis=0) - 0.3, mesh.nodes.max(axis=0) + 0.3
    points = np.random.default_rng(3).uniform(low, high, (400, mesh.dim))
    points = points[~locate(mesh, points).inside]
    distance = nearest_on_boundary(mesh, points).distance
    location = locate(mesh, points, tolerance=0.1)
    assert (location.inside == (distance <= 0.1)).all()
    assert 0 < location.inside.sum() < len(points)
    kept = location.inside
    corners = mesh.nodes[mesh.cells[location.cell[kept]]]
    moved = np.einsum("pi,pid->pd", location.barycentric[kept], corners)
    gaps = np.linalg.norm(moved - points[kept], axis=1)
    np.testing.assert_allclose(gaps, distance[kept], atol=1e-14)


def test_distance_to_a_box_is_that_of_the_clipped_point():
    mesh = box((3, 3, 3))
    points = np.random.default_rng(4).uniform(-1, 2, (300, 3))
    points = points[~locate(mesh, points).inside]
    expected = np.linalg.norm(points - np.clip(points, 0, 1), axis=1)
    np.testing.assert_allclose(nearest_on_boundary(mesh, points).distance, expected)


def test_interpolation_is_exact_for_linear_functions(mesh):
    points, _ = points_in_cells(mesh)
    matrix = interpolation_matrix(mesh, points)
    slope = np.arange(1, mesh.dim + 1)
    np.testing.assert_allclose(matrix @ (mesh.nodes @ slope + 3), points @ slope + 3)
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0)


def test_interpolation_at_the_nodes_is_the_identity(mesh):
    matrix = interpolation_matrix(mesh, mesh.nodes)
    np.testing.assert_allclose(matrix.toarray(), np.eye(mesh.num_nodes), atol=1e-14)


def test_more_points_than_are_searched_at_once(monkeypatch):
    monkeypatch.setattr("riesz.mesh.location.PAIRS_AT_ONCE", 30)
    mesh = rectangle((5, 5))
    points, cells = points_in_cells(mesh)
    assert (locate(mesh, points).cell == cells).all()


def test_no_points_give_an_empty_matrix():
    matrix = interpolation_matrix(rectangle((2, 2)), np.empty((0, 2)))
    assert matrix.shape == (0, 9)


def test_outside_points_can_raise():
    points = np.array([[0.5, 0.5], [2.0, 0.5], [0.5, -3.0]])
    with pytest.raises(MeshError, match=r"2 of 3 points lie outside.*\[2.0, 0.5\], 1 from"):
        locate(rectangle((3, 3)), points, outside="raise")
    with pytest.raises(MeshError, match="1 of 3 points lie outside"):
        interpolation_matrix(rectangle((3, 3)), points, tolerance=1.5)


def test_wrong_points_are_refused():
    mesh = rectangle((2, 2))
    with pytest.raises(MeshError, match=r"points have shape \(4, 3\)"):
        locate(mesh, np.zeros((4, 3)))
    with pytest.raises(MeshError, match=r"1 of 2 points have NaN .* first point 1"):
        locate(mesh, np.array([[0.1, 0.2], [np.nan, 0.3]]))


def test_points_may_be_lists_of_numbers():
    assert locate(rectangle((2, 2)), [[0.1, 0.1], [2, 2]]).inside.tolist() == [True, False]


@pytest.mark.parametrize("points", [[[0.1], [0.1, 0.2]], [["here", "there"]]])
def test_lists_that_are_no_coordinates_are_refused(points):
    with pytest.raises(MeshError, match="not an array of coordinates"):
        locate(rectangle((2, 2)), points)


@pytest.mark.parametrize("tolerance", [-1, -0.5, float("nan")])
def test_a_tolerance_that_is_no_length_is_refused(tolerance):
    with pytest.raises(MeshError, match=r"the tolerance is .*: give a length"):
        locate(rectangle((2, 2)), np.array([[0.1, 0.1]]), tolerance=tolerance)
