"""Requests that no mesh can meet are refused, each with its reason."""

import numpy as np
import pytest

from riesz.errors import MeshError
from riesz.mesher.polygon import mesh_from_points, mesh_from_polygon

UNIT_SQUARE = np.array([[0.0, 0], [1, 0], [1, 1], [0, 1]])

BAD_CALLS = {
    "zero max_edge": ({"max_edge": 0.0}, "max_edge is 0.0: give a positive length"),
    "NaN max_edge": ({"max_edge": float("nan")}, "max_edge is nan"),
    "tiny max_edge": ({"max_edge": 1e-6}, r"asks for 2.*e\+12 cells"),
    "negative min_edge": ({"max_edge": 0.1, "min_edge": -1.0}, "min_edge is -1.0"),
    "large min_edge": ({"max_edge": 0.1, "min_edge": 0.2}, "min_edge is 0.2, more than max_edge"),
    "near_edge alone": ({"max_edge": 0.1, "near_edge": 0.01}, "near_edge is given without points"),
    "large near_edge": (
        {"max_edge": 0.1, "near_edge": 0.3, "refine_near": [[0.5, 0.5]]},
        "near_edge is 0.3, more than max_edge",
    ),
    "no grading": ({"max_edge": 0.1, "grading": 0.0}, "grading is 0.0"),
    "no simplify": ({"max_edge": 0.1, "simplify": 0.0}, "simplify is 0.0"),
    "sensor outside": (
        {"max_edge": 0.1, "refine_near": [[0.5, 0.5], [2.0, 0.5]]},
        r"1 of 2 points in refine_near lie outside the domain, first point 1 at \[2.0, 0.5\]",
    ),
    "well outside": ({"max_edge": 0.1, "keep_inside": [[2.0, 0.5]]}, "in keep_inside lie outside"),
    "line leaves": (
        {"max_edge": 0.1, "lines": {"river": [[0.5, 0.5], [2, 0.5]]}},
        r"line 'river' crosses the outline, .* at \[1, 0.5\]",
    ),
    "line outside": (
        {"max_edge": 0.1, "lines": {"river": [[2, 2], [3, 3]]}},
        "line 'river' lies outside the domain",
    ),
    "line of a point": (
        {"max_edge": 0.1, "lines": {"river": [[0.5, 0.5], [0.5, 0.5]]}},
        "line 'river' has fewer than 2 distinct vertices",
    ),
    "line that is a point": (
        {"max_edge": 0.1, "lines": {"river": {"type": "Point", "coordinates": [0, 0]}}},
        "line 'river': a GeoJSON geometry of type 'Point' has no lines",
    ),
    "line named outer": (
        {"max_edge": 0.1, "lines": {"outer": [[0.2, 0.2], [0.5, 0.5]]}},
        "a line is named 'outer'",
    ),
    "line named boundary": (
        {"max_edge": 0.1, "lines": {"boundary": [[0.2, 0.2], [0.5, 0.5]]}},
        "a line is named 'boundary'",
    ),
}


@pytest.mark.parametrize(("settings", "message"), BAD_CALLS.values(), ids=BAD_CALLS)
def test_bad_request_is_refused_with_what_to_do(settings, message):
    with pytest.raises(MeshError, match=message):
        mesh_from_polygon(UNIT_SQUARE, **settings)


BAD_CLOUDS = {
    "two points": ([[0, 0], [1, 1], [1, 1]], {}, "has 2 distinct points"),
    "collinear": ([[0, 0], [1, 1], [2, 2]], {}, "3 points of the cloud lie on one line"),
    "NaN": ([[0, 0], [1, 1], [np.nan, 2]], {}, "cloud of points has NaN"),
    "no margin": ([[0, 0], [1, 0], [0, 1]], {"margin": 0.0}, "margin is 0.0"),
    "concave": ([[0, 0], [1, 0], [0, 1]], {"concave": 0.1}, "less than twice the margin"),
}


@pytest.mark.parametrize(("cloud", "settings", "message"), BAD_CLOUDS.values(), ids=BAD_CLOUDS)
def test_bad_cloud_is_refused_with_what_to_do(cloud, settings, message):
    with pytest.raises(MeshError, match=message):
        mesh_from_points(cloud, max_edge=0.1, **settings)


def test_detail_below_rounding_is_named_instead_of_refined_for_ever():
    dent = [[0, 0], [1, 0], [1, 1], [0.5, 1e-9], [0.4999999, 1], [0, 1]]
    with pytest.raises(MeshError, match=r"does not come to an end near \[0.5, "):
        mesh_from_polygon(dent, max_edge=0.5)


def test_mesh_beyond_all_memory_is_refused(monkeypatch):
    monkeypatch.setattr("riesz.mesher.refinement.MAX_POINTS", 100)
    with pytest.raises(MeshError, match="more than 100 nodes: raise max_edge"):
        mesh_from_polygon(UNIT_SQUARE, max_edge=0.05)


def test_refinement_without_end_is_refused(monkeypatch):
    monkeypatch.setattr("riesz.mesher.refinement.MAX_ROUNDS", 2)
    with pytest.raises(MeshError, match="refinement does not come to an end"):
        mesh_from_polygon(UNIT_SQUARE, max_edge=0.05)


def test_cells_that_miss_the_area_of_the_outline_are_refused(monkeypatch):
    monkeypatch.setattr("riesz.geometry.outline.Outline.area", 2.0)
    with pytest.raises(MeshError, match="cover an area of 1, but the outline holds 2"):
        mesh_from_polygon(UNIT_SQUARE, max_edge=0.5)
