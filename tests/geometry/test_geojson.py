"""Malformed GeoJSON is refused with one clear error, whether outlines or lines are wanted."""

import pytest

from riesz.errors import MeshError
from riesz.geometry.lines import lines_of
from riesz.geometry.outline import outline_from

RING = [[0, 0], [1, 0], [0, 1], [0, 0]]

MALFORMED = {
    "no coordinates": ({"type": "Polygon"}, "Polygon has no 'coordinates'"),
    "a number": ({"type": "Polygon", "coordinates": 5}, "'coordinates' .* is a int, not a list"),
    "a word": ({"type": "Polygon", "coordinates": "here"}, "is a str, not a list"),
    "null": ({"type": "MultiPolygon", "coordinates": None}, "is a NoneType, not a list"),
    "null part": ({"type": "MultiPolygon", "coordinates": [None]}, "is a NoneType, not a list"),
    "flat": ({"type": "Polygon", "coordinates": [1, 2]}, r"has shape \(\)"),
    "ragged": ({"type": "Polygon", "coordinates": [[[0, 0], [1]]]}, "not an array of coordinates"),
    "huge": ({"type": "Polygon", "coordinates": [[*RING[:2], [1e200, 0], [0, 0]]]}, "absurd"),
    "no features": ({"type": "FeatureCollection"}, "has no 'features'"),
    "null feature": ({"type": "FeatureCollection", "features": [None]}, "has a NoneType in place"),
    "bare feature": ({"type": "Feature"}, "Feature has no geometry"),
    "null geometry": ({"type": "Feature", "geometry": None}, "Feature has no geometry"),
    "list geometry": ({"type": "Feature", "geometry": [1]}, "has a list in place"),
    "odd type": ({"type": ["Polygon"], "coordinates": [RING]}, "of type .'Polygon'"),
}


@pytest.mark.parametrize("read", [outline_from, lines_of])
@pytest.mark.parametrize(("content", "message"), MALFORMED.values(), ids=MALFORMED)
def test_malformed_geojson_is_refused_with_what_is_wrong(read, content, message):
    with pytest.raises(MeshError, match=message):
        read(content)


@pytest.mark.parametrize("read", [outline_from, lines_of])
def test_collections_may_be_nested_deeper_than_calls(read):
    content = {"type": "Polygon", "coordinates": [RING]}
    for _ in range(20_000):
        content = {"type": "GeometryCollection", "geometries": [content]}
    assert read(content)


def test_lines_are_found_in_all_members_of_a_collection_in_order():
    line = {"type": "LineString", "coordinates": [[5, 5], [6, 6]]}
    feature = {"type": "Feature", "geometry": {"type": "Polygon", "coordinates": [RING]}}
    many = {"type": "MultiPolygon", "coordinates": [[RING], [RING, RING]]}
    lines = lines_of({"type": "FeatureCollection", "features": [line, feature, many]})
    assert [len(found) for found in lines] == [2, 4, 4, 4, 4]


def test_ragged_lists_of_lines_are_refused():
    with pytest.raises(MeshError, match="not an array of coordinates"):
        lines_of([[[0, 0], [1]], [[2, 2], [3, 3]]])
