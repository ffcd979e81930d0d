"""Degrees and metres are told apart, by what a layer says or by its numbers."""

import numpy as np

from riesz.geometry.crs import crs_of, unit_clash

UTM = {"crs": {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::32612"}}}
ALBERS = "+proj=aea +lat_1=42.8 +lat_2=44.2 +units=m"
METRES = np.array([[2e5, 2.2e5], [2.1e5, 2.3e5]])
DEGREES = np.array([[-113.0, 43.2], [-112.9, 43.3]])


def test_the_crs_is_read_from_either_member():
    assert crs_of(UTM) == "EPSG:32612"
    assert crs_of({"crs_proj4": ALBERS}) == crs_of({"crs_proj4": f"+units=m  {ALBERS[:-9]}"})
    assert crs_of({"crs": {"type": "name", "properties": {"name": "mine"}}}) == "mine"
    assert crs_of({"crs": "odd"}) is None
    assert crs_of({}) is None


def test_units_clash_only_where_one_is_in_degrees_and_the_other_far_beyond():
    assert "the points look like longitude" in str(unit_clash(DEGREES, METRES))
    assert "the domain looks like longitude" in str(unit_clash(METRES, DEGREES))
    assert unit_clash(METRES, METRES) is None
    assert unit_clash(DEGREES, DEGREES) is None
    assert unit_clash(np.array([[3.0, 0.5]]), np.array([[0.0, 0.0], [200.0, 1.0]])) is None
