"""Outlines: what is read, and what is refused with which words."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from riesz.errors import MeshError
from riesz.geometry.outline import (
    Outline,
    check_points_inside,
    contains,
    outline_from,
    simplify_outline,
)

SQUARE = [[0, 0], [4, 0], [4, 4], [0, 4], [0, 0]]
LAKE = [[1, 1], [2, 1], [2, 2], [1, 2], [1, 1]]
NOTHING = np.zeros((0, 2))


def polygon(*rings):
    return {"type": "Polygon", "coordinates": list(rings)}


def multipolygon(*parts):
    return {"type": "MultiPolygon", "coordinates": list(parts)}


def shifted(ring, x, y):
    return (np.array(ring) + np.array([x, y])).tolist()


def ragged_circle(num_vertices, seed=0):
    rng = np.random.default_rng(seed)
    turn = 2 * np.pi * np.arange(num_vertices) / num_vertices
    radius = 10 + rng.uniform(-0.05, 0.05, num_vertices)
    return radius[:, None] * np.stack([np.cos(turn), np.sin(turn)], axis=1)


@pytest.fixture
def esrp_boundary():
    folder = os.environ.get("RIESZ_DATA")
    path = Path(folder or "") / "esrp" / "boundary.geojson"
    if not folder or not path.exists():
        pytest.skip("set RIESZ_DATA to a folder that holds esrp/boundary.geojson")
    return json.loads(path.read_text())


def test_array_ring_means_the_same_closed_or_not():
    closed, opened = outline_from(np.array(SQUARE)), outline_from(SQUARE[:-1])
    np.testing.assert_array_equal(closed.rings[0], opened.rings[0])
    assert closed.area == 16


def test_shells_turn_left_and_holes_turn_right_however_they_are_given():
    outline = outline_from(polygon(SQUARE[::-1], LAKE))
    assert outline.area == 15
    outline = outline_from(polygon(SQUARE, LAKE[::-1]))
    assert outline.area == 15


def test_features_and_geo_interfaces_are_read_like_their_geometry():
    shapely = pytest.importorskip("shapely.geometry")
    feature = {"type": "Feature", "geometry": polygon(SQUARE, LAKE), "properties": {}}
    collection = {"type": "FeatureCollection", "features": [feature]}
    given = shapely.Polygon(SQUARE, [LAKE])
    for source in (feature, collection, given, outline_from(feature)):
        assert outline_from(source).area == given.area


def test_repeated_consecutive_vertices_and_heights_are_dropped():
    ring = [[0, 0, 7], [1, 0, 7], [1, 0, 7], [0, 1, 7], [0, 0, 7]]
    np.testing.assert_array_equal(outline_from(polygon(ring)).rings[0], [[0, 0], [1, 0], [0, 1]])


def test_containment_agrees_with_shapely_for_a_polygon_with_a_hole():
    shapely = pytest.importorskip("shapely")
    ring = ragged_circle(60).tolist()
    rings = [[*ring, ring[0]], LAKE]
    points = np.random.default_rng(1).uniform(-11, 11, (500, 2))
    truth = shapely.contains_xy(shapely.Polygon(rings[0], [LAKE]), points)
    np.testing.assert_array_equal(contains(outline_from(polygon(*rings)), points), truth)


def test_points_on_the_outline_are_inside_on_every_side():
    outline = outline_from(polygon(SQUARE, LAKE))
    turn = np.array([[np.cos(0.3), -np.sin(0.3)], [np.sin(0.3), np.cos(0.3)]])
    turned = outline_from(polygon(np.array(SQUARE) @ turn, np.array(LAKE) @ turn))
    rims = [(np.array(ring[:-1]) + np.array(ring[1:])) / 2 for ring in (SQUARE, LAKE)]
    points = np.concatenate([*rims, np.array(SQUARE), np.array(LAKE)])
    check_points_inside(outline, points, "sensors")
    check_points_inside(turned, points @ turn, "sensors")
    with pytest.raises(MeshError, match=r"1 of 3 points in sensors lie outside .* first point 1"):
        check_points_inside(outline, np.array([[0, 2], [-1e-8, 2], [4, 2.0]]), "sensors")


def test_island_in_a_lake_and_parts_with_a_common_border_are_outlines():
    island = shifted((np.array(LAKE) / 4).tolist(), 1, 1)
    assert outline_from(multipolygon([SQUARE, LAKE], [island])).area == 15 + 1 / 16
    assert outline_from(multipolygon([SQUARE], [shifted(SQUARE, 4, 1)])).area == 32


BAD_OUTLINES = {
    "crossing": ([[0, 0], [2, 2], [2, 0], [0, 2]], r"edge 0 .* and edge 2 .* cross at \[1, 1\]"),
    "touching": ([[0, 0], [4, 0], [4, 4], [2, 0], [0, 4]], r"vertex 3 at .* lies on edge 0"),
    "pinched": ([[0, 0], [1, 1], [2, 0], [2, 2], [1, 1], [0, 2]], r"passes 2 times through"),
    "two vertices": ([[0, 0], [1, 1], [0, 0]], "2 distinct vertices"),
    "no vertices": (np.zeros((0, 2)), "0 distinct vertices"),
    "collinear": ([[0, 0], [1, 1], [2, 2]], "zero area"),
    "NaN": ([[0, 0], [1, 0], [1, np.nan]], "NaN or infinite coordinates in 1 of 3 .* point 2"),
    "one column": ([0.0, 1.0, 2.0], r"has shape \(3,\)"),
    "words": (["here", "there"], "not an array of coordinates"),
    "open ring": (polygon(SQUARE[:-1]), r"is not closed: it starts at \[0.0, 0.0\] and ends"),
    "line": ({"type": "LineString", "coordinates": SQUARE}, "of type 'LineString'"),
    "no type": ({"coordinates": SQUARE}, "of type None"),
    "empty": ({"type": "Polygon", "coordinates": []}, "polygon is empty"),
    "two features": (
        {"type": "FeatureCollection", "features": [polygon(SQUARE), polygon(LAKE)]},
        "FeatureCollection has 2 geometries",
    ),
    "no features": ({"type": "FeatureCollection", "features": []}, "has 0 geometries"),
    "beyond floats": ([[0, 0], [10**400, 0], [0, 1]], "not an array of coordinates"),
    "hole outside": (polygon(SQUARE, shifted(LAKE, 9, 0)), "hole 0 of part 0 lies outside"),
    "hole across": (
        polygon(SQUARE, shifted(LAKE, 2.5, 0)),
        "shell of part 0 and the hole 0 .*cross",
    ),
    "holes overlap": (polygon(SQUARE, LAKE, shifted(LAKE, 0.5, 0.5)), "hole 0 .* hole 1 .*cross"),
    "holes equal": (polygon(SQUARE, LAKE, LAKE), "holes 0 and 1 of part 0 overlap"),
    "parts overlap": (multipolygon([SQUARE], [LAKE]), "parts 0 and 1 overlap"),
    "parts cross": (
        multipolygon([SQUARE], [shifted(SQUARE, 1, 1)]),
        "part 0 and the shell of part",
    ),
}


@pytest.mark.parametrize(("source", "message"), BAD_OUTLINES.values(), ids=BAD_OUTLINES)
def test_bad_outline_is_refused_with_what_and_where(source, message):
    with pytest.raises(MeshError, match=message):
        outline_from(source)


def test_outline_built_by_hand_must_turn_the_right_way():
    with pytest.raises(MeshError, match="wrong way round"):
        Outline(((np.array(SQUARE[:-1], dtype=float)[::-1],),))


def test_outline_describes_itself_by_counts():
    assert repr(outline_from(polygon(SQUARE, LAKE))) == "Outline(1 parts, 2 rings, 8 vertices)"


def test_simplification_keeps_area_and_stays_within_its_tolerance():
    outline = outline_from(ragged_circle(400))
    simple = simplify_outline(outline, 0.2, NOTHING)
    assert len(simple.rings[0]) < 60
    assert abs(simple.area / outline.area - 1) < 0.01
    shapely = pytest.importorskip("shapely")
    ring = shapely.LinearRing(simple.rings[0])
    assert shapely.distance(ring, shapely.points(outline.rings[0])).max() <= 0.2


def test_simplification_never_leaves_a_point_outside():
    outline = outline_from(ragged_circle(400))
    inwards = 0.999 * outline.rings[0][::7]
    assert contains(simplify_outline(outline, 0.2, inwards), inwards).all()
    assert not contains(simplify_outline(outline, 0.2, NOTHING), inwards).all()


def test_simplification_of_the_snake_river_plain_is_simple_and_keeps_its_area(esrp_boundary):
    outline = outline_from(esrp_boundary)
    simple = simplify_outline(outline, 1500.0, NOTHING)  # checks itself for crossings
    assert len(simple.rings[0]) < 150 < len(outline.rings[0])
    assert abs(simple.area / outline.area - 1) < 0.01


def test_simplification_leaves_a_common_border_common():
    left = [[0, 0], [2, 0], [2.01, 1], [2, 2], [0, 2], [0, 0]]
    right = [[2, 0], [4, 0], [4, 2], [2, 2], [2.01, 1], [2, 0]]
    simple = simplify_outline(outline_from(multipolygon([left], [right])), 0.1, NOTHING)
    assert all([2.01, 1] in ring.tolist() for ring in simple.rings)


def test_simplification_that_changes_the_area_is_refused():
    notched = [[0, 0], [10, 0], [10, 10], [5, 7], [0, 10]]
    with pytest.raises(MeshError, match=r"simplify=4 changes the area of the domain by \+17.6%"):
        simplify_outline(outline_from(notched), 4.0, NOTHING)
