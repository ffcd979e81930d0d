"""Meshes of polygons: conforming, true to the outline, graded, and without small angles."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import KDTree

from riesz.geometry.crossings import distance_to_edges
from riesz.geometry.hull import hull_outline
from riesz.geometry.outline import contains, outline_edges, outline_from
from riesz.mesh.facets import boundary_facets, cell_edges, facet_measures
from riesz.mesh.mesh import cell_volumes
from riesz.mesher.polygon import mesh_from_points, mesh_from_polygon
from riesz_paper.data.synthetic import aquifer_outline, aquifer_wells

UNIT_SQUARE = np.array([[0.0, 0], [1, 0], [1, 1], [0, 1]])
NECK = [[0, 0], [4, 0], [4, 1], [6, 1], [6, 0], [9, 0], [9, 4], [6, 4], [6, 1.1], [4, 1.1], [4, 4]]
WITH_HOLES = {
    "type": "Polygon",
    "coordinates": [
        [[0, 0], [4, 0], [4, 3], [0, 3], [0, 0]],
        [[1, 1], [1, 2], [2, 2], [2, 1], [1, 1]],
        [[3, 1], [3, 1.2], [3.2, 1.2], [3.2, 1], [3, 1]],
    ],
}


def esrp(name):
    folder = os.environ.get("RIESZ_DATA")
    path = Path(folder or "") / "esrp" / name
    if not folder or not path.exists():
        pytest.skip(f"set RIESZ_DATA to a folder that holds esrp/{name}")
    return json.loads(path.read_text())


def minimum_angles(mesh):
    corners = mesh.nodes[mesh.cells]
    to_next, to_last = np.roll(corners, -1, axis=1) - corners, np.roll(corners, 1, axis=1) - corners
    lengths = np.linalg.norm(to_next, axis=2) * np.linalg.norm(to_last, axis=2)
    cosine = (to_next * to_last).sum(axis=2) / lengths
    return np.rad2deg(np.arccos(np.clip(cosine, -1, 1)).min(axis=1))


def sharp_vertices(ring, below):
    before, after = np.roll(ring, 1, axis=0) - ring, np.roll(ring, -1, axis=0) - ring
    lengths = np.linalg.norm(before, axis=1) * np.linalg.norm(after, axis=1)
    return ring[(before * after).sum(axis=1) > np.cos(np.deg2rad(below)) * lengths]


def edge_lengths(mesh):
    edges, _ = cell_edges(mesh)
    return np.linalg.norm(mesh.nodes[edges[:, 1]] - mesh.nodes[edges[:, 0]], axis=1)


def edge_middles(mesh):
    edges, _ = cell_edges(mesh)
    return mesh.nodes[edges].mean(axis=1)


def assert_true_to(mesh, polygon, sharper_than=60.0):
    """Conforming, with the outline's area, vertices and edges, and no small angle off corners."""
    outline = outline_from(polygon)
    starts, ends = outline_edges(outline)
    extent = np.ptp(starts, axis=0).max()
    np.testing.assert_allclose(cell_volumes(mesh.nodes, mesh.cells).sum(), outline.area, rtol=1e-10)
    nodes = {tuple(node) for node in mesh.nodes.tolist()}
    assert all(tuple(vertex) in nodes for vertex in starts.tolist())
    border = boundary_facets(mesh).nodes
    on_outline = mesh.nodes[border].reshape(-1, 2)
    assert distance_to_edges(on_outline, starts, ends).max() < 1e-12 * extent
    perimeter = np.linalg.norm(np.diff(mesh.nodes[border], axis=1), axis=2).sum()
    np.testing.assert_allclose(perimeter, np.linalg.norm(ends - starts, axis=1).sum(), rtol=1e-9)
    sharp = np.concatenate([sharp_vertices(ring, sharper_than) for ring in outline.rings])
    at_sharp = (mesh.nodes[mesh.cells][:, :, None] == sharp).all(axis=3).any(axis=(1, 2))
    assert minimum_angles(mesh)[~at_sharp].min() >= 20


def test_square_mesh_is_true_to_its_outline_and_has_no_long_edge():
    mesh = mesh_from_polygon(UNIT_SQUARE, max_edge=0.1)
    assert_true_to(mesh, UNIT_SQUARE)
    lengths = edge_lengths(mesh)
    assert lengths.max() <= 0.1 * (1 + 1e-9)
    assert np.median(lengths) > 0.06, "far finer than asked for"


def test_lengths_may_be_whole_numbers():
    square = [(0, 0), (8, 0), (8, 8), (0, 8)]
    meshes = [mesh_from_polygon(square, max_edge=edge) for edge in (2, 2.0)]
    np.testing.assert_array_equal(*(mesh.nodes for mesh in meshes))


def test_mesh_with_holes_has_their_euler_characteristic_and_tags():
    mesh = mesh_from_polygon(WITH_HOLES, max_edge=0.4)
    assert_true_to(mesh, WITH_HOLES)
    edges, _ = cell_edges(mesh)
    assert mesh.num_nodes - len(edges) + mesh.num_cells == 1 - 2
    tagged = np.concatenate([mesh.facets["outer"], mesh.facets["holes"]])
    assert sorted(tagged.tolist()) == sorted(boundary_facets(mesh).nodes.tolist())
    around_holes = np.diff(mesh.nodes[mesh.facets["holes"]], axis=1)
    np.testing.assert_allclose(np.linalg.norm(around_holes, axis=2).sum(), 4 + 0.8)


def test_disjoint_parts_give_one_mesh_with_two_components():
    second = (UNIT_SQUARE + np.array([3, 0])).tolist()
    parts = [[[*UNIT_SQUARE.tolist(), [0, 0]]], [[*second, second[0]]]]
    multi = {"type": "MultiPolygon", "coordinates": parts}
    mesh = mesh_from_polygon(multi, max_edge=0.3)
    assert_true_to(mesh, multi)
    edges, _ = cell_edges(mesh)
    assert mesh.num_nodes - len(edges) + mesh.num_cells == 2


def test_parts_with_a_common_border_share_its_nodes():
    left = [[0, 0], [2, 0], [2, 2], [0, 2], [0, 0]]
    right = [[2, 0.5], [4, 0.5], [4, 1.5], [2, 1.5], [2, 0.5]]  # its corners are on an edge of left
    multi = {"type": "MultiPolygon", "coordinates": [[left], [right]]}
    mesh = mesh_from_polygon(multi, max_edge=0.4)
    edges, _ = cell_edges(mesh)
    assert mesh.num_nodes - len(edges) + mesh.num_cells == 1
    np.testing.assert_allclose(cell_volumes(mesh.nodes, mesh.cells).sum(), 6)
    outer = mesh.nodes[mesh.facets["outer"]]
    np.testing.assert_allclose(np.linalg.norm(np.diff(outer, axis=1), axis=2).sum(), 8 + 4)


def test_cells_shrink_into_a_narrow_neck_and_grow_out_of_it():
    mesh = mesh_from_polygon(NECK, max_edge=1.0)
    assert_true_to(mesh, NECK)
    middles, lengths = edge_middles(mesh), edge_lengths(mesh)
    distance = np.abs(middles[:, 0] - 5) - 1
    assert lengths[distance < 0].max() < 0.3
    assert (lengths <= 1.5 * (0.2 + 0.3 * np.hypot(distance.clip(0), middles[:, 1] - 1)))[
        distance > 0
    ].all()
    assert lengths.max() > 0.8


@pytest.mark.parametrize("angle", [1.0, 8.0, 25.0, 45.0, 59.0])
def test_small_angles_stay_in_the_corner_that_has_one(angle):
    tip = np.deg2rad(angle)
    wedge = np.array([[0, 0], [1, 0], [np.cos(tip), np.sin(tip)]]) * 1e5 + [3e5, 4.8e6]
    mesh = mesh_from_polygon(wedge, max_edge=2e4)
    assert_true_to(mesh, wedge)


@settings(max_examples=15, deadline=None, derandomize=True, database=None)
@given(
    radii=st.lists(st.floats(0.1, 1), min_size=17, max_size=17),
    gaps=st.lists(st.floats(0.2, 1), min_size=17, max_size=17),
    max_edge=st.sampled_from([0.15, 0.5, 5.0]),
)
def test_any_star_is_meshed_true_to_its_outline(radii, gaps, max_edge):
    turn = 2 * np.pi * np.cumsum(gaps) / np.sum(gaps)
    star = np.array(radii)[:, None] * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    mesh = mesh_from_polygon(star, max_edge=max_edge)
    assert_true_to(mesh, star)
    assert edge_lengths(mesh).max() <= max_edge * (1 + 1e-9)


def test_edges_are_short_near_given_points_and_grow_at_the_grading():
    points = np.array([[0.3, 0.3], [0.7, 0.6]])
    mesh = mesh_from_polygon(
        UNIT_SQUARE, max_edge=0.2, refine_near=points, near_edge=0.01, grading=0.25
    )
    assert_true_to(mesh, UNIT_SQUARE)
    distance, _ = KDTree(points).query(edge_middles(mesh))
    lengths, wanted = edge_lengths(mesh), np.minimum(0.2, 0.01 + 0.25 * distance)
    assert (lengths < 1.6 * wanted).all()
    assert 0.5 < np.median(lengths / wanted) < 1.0
    near = lengths[distance < 0.015]
    assert 0.004 < near.min() < near.max() < 0.02


def test_smaller_grading_gives_more_cells():
    coarse, fine = (
        mesh_from_polygon(UNIT_SQUARE, max_edge=0.3, refine_near=[[0.5, 0.5]], grading=grading)
        for grading in (0.5, 0.1)
    )
    assert fine.num_cells > 1.5 * coarse.num_cells


def test_lines_become_edges_even_where_they_cross_or_end_on_the_outline():
    lines = {
        "river": [[0, 0.5], [3, 0.7], [3, 2.5], [2.5, 2.8]],
        "creek": [[4, 1], [3, 0.7]],
        "canal": [[2.5, 2], [3.5, 2.1]],
    }
    mesh = mesh_from_polygon(WITH_HOLES, max_edge=0.4, lines=lines)
    edges = {tuple(edge) for edge in cell_edges(mesh)[0].tolist()}
    for name, line in lines.items():
        pieces = mesh.facets[name]
        assert all(tuple(piece) in edges for piece in pieces.tolist())
        length = np.linalg.norm(np.diff(mesh.nodes[pieces], axis=1), axis=2).sum()
        np.testing.assert_allclose(length, np.linalg.norm(np.diff(line, axis=0), axis=1).sum())
    crossing = set(mesh.facets["river"].ravel()) & set(mesh.facets["canal"].ravel())
    np.testing.assert_allclose(mesh.nodes[list(crossing)], [[3, 2.05]])
    assert minimum_angles(mesh).min() >= 20


def test_lines_may_be_geojson_and_several_under_one_name():
    first, second = [[0.2, 0.2], [0.4, 0.8]], [[0.6, 0.2], [0.8, 0.2], [0.8, 0.8]]
    one = {"type": "LineString", "coordinates": first}
    both = {"type": "MultiLineString", "coordinates": [first, second]}
    lines = {"river": one, "rivers": {"type": "Feature", "geometry": both}, "same": [first, second]}
    mesh = mesh_from_polygon(UNIT_SQUARE, max_edge=0.3, lines=lines)
    lengths = {name: facet_measures(mesh.nodes, mesh.facets[name]).sum() for name in lines}
    assert lengths["river"] == pytest.approx(np.hypot(0.2, 0.6))
    assert lengths["rivers"] == lengths["same"] == pytest.approx(np.hypot(0.2, 0.6) + 0.8)


def test_sensors_on_the_outline_are_refined_around():
    corners = [[0, 0], [1, 0], [1, 1], [0, 1]]
    sides = [[0.5, 0], [1, 0.5], [0.5, 1], [0, 0.5]]
    mesh = mesh_from_polygon(UNIT_SQUARE, max_edge=0.4, refine_near=corners + sides)
    assert mesh.num_cells > mesh_from_polygon(UNIT_SQUARE, max_edge=0.4).num_cells


def test_lines_at_a_sharp_angle_inside_the_domain_are_meshed():
    lines = {"a": [[0.3, 0.9], [0.3, 0.2]], "b": [[0.3, 0.9], [0.35, 0.2]]}
    mesh = mesh_from_polygon(UNIT_SQUARE, max_edge=0.3, lines=lines)
    poor = mesh.nodes[mesh.cells[minimum_angles(mesh) < 20]].reshape(-1, 2)
    assert np.linalg.norm(poor - [0.3, 0.9], axis=1).max() < 0.25


def test_same_call_gives_the_same_mesh():
    first, second = (
        mesh_from_polygon(aquifer_outline(), max_edge=1e4, refine_near=aquifer_wells(20))
        for _ in range(2)
    )
    np.testing.assert_array_equal(first.nodes, second.nodes)
    np.testing.assert_array_equal(first.cells, second.cells)


def test_simplified_outline_keeps_area_and_points():
    outline, wells = aquifer_outline(), aquifer_wells(40)
    mesh = mesh_from_polygon(outline, max_edge=15e3, simplify=800.0, keep_inside=wells)
    exact = outline_from(outline).area
    assert abs(cell_volumes(mesh.nodes, mesh.cells).sum() / exact - 1) < 0.01
    border = mesh.nodes[boundary_facets(mesh).nodes]
    assert distance_to_edges(wells, border[:, 0], border[:, 1]).min() > 0
    finest = mesh_from_polygon(outline, max_edge=15e3)
    assert mesh.num_cells < finest.num_cells


def test_floor_on_sizes_saves_cells_but_not_outline_vertices():
    outline = aquifer_outline()
    plain = mesh_from_polygon(outline, max_edge=2e4)
    floored = mesh_from_polygon(outline, max_edge=2e4, min_edge=8e3)
    assert_true_to(floored, outline)
    assert floored.num_cells < 0.9 * plain.num_cells


def test_large_mesh_is_made():
    mesh = mesh_from_polygon(UNIT_SQUARE, max_edge=0.018)
    assert mesh.num_nodes > 6000


@pytest.mark.slow
def test_raw_outline_of_the_snake_river_plain_is_meshed_as_it_is():
    raw = esrp("boundary.geojson")
    mesh = mesh_from_polygon(raw, max_edge=5000.0)
    assert_true_to(mesh, raw, sharper_than=40.0)


def test_simplified_outline_of_the_snake_river_plain_has_no_small_angle():
    simplified = esrp("boundary_simplified.geojson")
    mesh = mesh_from_polygon(simplified, max_edge=8000.0)
    assert_true_to(mesh, simplified, sharper_than=40.0)


@pytest.mark.parametrize("concave", [None, 3.0])
def test_every_point_of_a_cloud_is_inside_its_mesh(concave):
    turn = np.linspace(0, np.pi, 40)
    cloud = 10 * np.stack([np.cos(turn), np.sin(turn)], axis=1)  # a half ring
    mesh = mesh_from_points(cloud, max_edge=2.0, margin=1.0, concave=concave)
    border = mesh.nodes[boundary_facets(mesh).nodes]
    assert distance_to_edges(cloud, border[:, 0], border[:, 1]).min() > 0.7
    assert contains(hull_outline(cloud, 1.0, concave), cloud).all()
    area = cell_volumes(mesh.nodes, mesh.cells).sum()
    assert area > 150 if concave is None else area < 100
    assert minimum_angles(mesh).min() >= 20


def test_mesh_of_wells_is_fine_where_they_are():
    wells = aquifer_wells(60)
    mesh = mesh_from_points(wells, max_edge=2e4, near_edge=3e3)
    distance, _ = KDTree(wells).query(edge_middles(mesh))
    lengths = edge_lengths(mesh)
    assert lengths[distance < 1e3].max() < 5e3
    assert lengths[distance > 2e4].mean() > 5e3
