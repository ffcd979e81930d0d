"""Thinned lines stay within the tolerance; distances from hulls are those of geometry."""

import json

import numpy as np
import pytest

from riesz.errors import MeshError
from riesz.geometry.lines import distance_to_lines
from riesz_paper.data.esrp_build import thinned_line, thinned_ring
from riesz_paper.data.esrp_rules import convex_outline, distance_from_hull


def test_a_thinned_line_keeps_its_ends_and_strays_no_further_than_the_tolerance():
    rng = np.random.default_rng(0)
    line = np.stack([np.arange(200.0), np.cumsum(rng.normal(size=200))], axis=1)
    thin = thinned_line(line, 1.5)
    assert 2 < len(thin) < 100
    np.testing.assert_array_equal(thin[[0, -1]], line[[0, -1]])
    assert distance_to_lines(line, [thin], cutoff=10.0).max() <= 1.5


def test_straight_lines_keep_their_ends_only():
    line = np.stack([np.linspace(0, 1, 11), np.linspace(0, 2, 11)], axis=1)
    assert len(thinned_line(line, 1e-9)) == 2


def test_a_ring_may_lose_its_start_but_never_its_corners():
    square = np.array([[0.5, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [0.0, 0.0]])
    thin = thinned_ring(square, 0.1)
    assert {tuple(corner) for corner in thin.tolist()} == {(0, 0), (1, 0), (1, 1), (0, 1)}
    assert len(thinned_ring(square[1:], 0.1)) == 4


def test_the_simplified_boundary_is_the_thinned_boundary(esrp_folder):
    def ring(name):
        content = json.loads((esrp_folder / name).read_text())
        return np.array(content["features"][0]["geometry"]["coordinates"][0])[:-1]

    thin = thinned_ring(ring("boundary.geojson"), 1500.0)
    np.testing.assert_array_equal(thin, ring("boundary_simplified.geojson"))


def test_distance_from_a_hull_is_zero_inside_and_to_the_nearest_edge_or_corner_outside():
    cloud = np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 1.0], [0.0, 1.0], [1.0, 0.5]])
    points = np.array([[1.0, 0.2], [3.0, 0.5], [5.0, 5.0], [1.0, -2.0]])
    np.testing.assert_allclose(distance_from_hull(points, cloud), [0.0, 1.0, 5.0, 2.0])
    assert convex_outline(cloud).area == pytest.approx(2.0)


def test_points_on_one_line_have_no_hull():
    with pytest.raises(MeshError, match="lie on one line"):
        distance_from_hull(np.zeros((1, 2)), np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]))
