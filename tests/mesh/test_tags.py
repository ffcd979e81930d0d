"""Tags take what lies where the map says, and lines become connected paths of edges."""

import numpy as np
import pytest

from riesz.errors import MeshError
from riesz.geometry.lines import distance_to_lines, inside_polygon, lines_of
from riesz.mesh.facets import find_facets
from riesz.mesh.mesh import cell_volumes
from riesz.mesh.shapes import box, disc, rectangle
from riesz.mesh.tags import (
    edge_path,
    facets_of_tag,
    tag_boundary,
    tag_boundary_inside,
    tag_boundary_near,
    tag_line,
    tag_region,
    without_spurs,
)

SQUARE = np.array([[0.2, 0.2], [0.7, 0.2], [0.7, 0.7], [0.2, 0.7]])
RIVER_X = np.linspace(0.0, 1.0, 60)
RIVER = np.stack([RIVER_X, 0.5 + 0.3 * np.sin(7 * RIVER_X)], axis=1)


class Feature:
    """What a geometry library hands over."""

    __geo_interface__ = {  # noqa: RUF012
        "type": "Feature",
        "geometry": {"type": "Polygon", "coordinates": [SQUARE.tolist()]},
    }


def circle(radius: float, num_points: int = 200) -> np.ndarray:
    angle = np.linspace(0, 2 * np.pi, num_points)
    return 0.5 + radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def test_a_condition_picks_boundary_facets():
    mesh = tag_boundary(disc(5), "east", lambda x: x[:, 0] > 0)
    midpoints = mesh.nodes[mesh.facets["east"]].mean(axis=1)
    assert len(midpoints) == 15
    assert (midpoints[:, 0] > 0).all()
    assert len(find_facets(mesh, mesh.facets["east"], "east").cell) == 15


def test_a_condition_works_in_three_dimensions():
    mesh = tag_boundary(box((2, 2, 2)), "lid", lambda x: x[:, 2] == 1)
    assert {tuple(f) for f in mesh.facets["lid"]} == {tuple(f) for f in mesh.facets["top"]}


def test_a_condition_picks_cells_in_three_dimensions():
    mesh = tag_region(box((2, 2, 4)), "layer", lambda x: (x[:, 2] > 0.25) & (x[:, 2] < 0.75))
    members = mesh.cells[mesh.regions["layer"]]
    np.testing.assert_allclose(cell_volumes(mesh.nodes, members).sum(), 0.5)
    heights = mesh.nodes[members][:, :, 2]
    assert (heights.min(), heights.max()) == (0.25, 0.75)


def test_the_given_mesh_is_left_alone_and_other_tags_are_kept():
    mesh = rectangle((3, 3))
    tagged = tag_region(tag_boundary(mesh, "all", lambda x: x[:, 0] >= 0), "middle", SQUARE)
    assert "all" not in mesh.facets
    assert set(tagged.facets) == {"left", "right", "bottom", "top", "all"}
    assert set(tagged.regions) == {"middle"}


def test_boundary_near_a_line_needs_whole_edges():
    mesh = rectangle((10, 10))
    near = tag_boundary_near(mesh, "coast", np.array([[0.0, 0.25], [0.0, 0.85]]), 1e-6)
    midpoints = mesh.nodes[near.facets["coast"]].mean(axis=1)
    assert (midpoints[:, 0] == 0).all()
    # Edges [0.2, 0.3] and [0.8, 0.9] are only half beside the line.
    np.testing.assert_allclose(np.sort(midpoints[:, 1]), [0.35, 0.45, 0.55, 0.65, 0.75])


def test_boundary_inside_a_polygon_goes_by_midpoints():
    mesh = rectangle((10, 10))
    polygon = {"type": "Polygon", "coordinates": [[[-1, -1], [0.46, -1], [0.46, 0.5], [-1, 0.5]]]}
    inside = tag_boundary_inside(mesh, "corner", polygon)
    assert len(inside.facets["corner"]) == 5 + 5


def test_a_region_has_the_area_of_its_polygon():
    mesh = rectangle((60, 60))
    members = tag_region(mesh, "lake", circle(0.3)).regions["lake"]
    area = cell_volumes(mesh.nodes, mesh.cells)[members].sum()
    assert area == pytest.approx(np.pi * 0.09, rel=0.01)


def test_holes_are_not_in_a_region():
    mesh = rectangle((60, 60))
    ring = {"type": "MultiPolygon", "coordinates": [[circle(0.4).tolist(), circle(0.2).tolist()]]}
    members = tag_region(mesh, "ring", ring).regions["ring"]
    area = cell_volumes(mesh.nodes, mesh.cells)[members].sum()
    assert area == pytest.approx(np.pi * 0.12, rel=0.02)


def test_the_same_geometry_in_any_form():
    mesh = rectangle((10, 10))
    polygon = Feature.__geo_interface__["geometry"]
    forms = [
        SQUARE,
        SQUARE.tolist(),
        polygon,
        Feature(),
        {"type": "FeatureCollection", "features": [Feature.__geo_interface__]},
        {"type": "GeometryCollection", "geometries": [polygon]},
    ]
    regions = [tag_region(mesh, "r", form).regions["r"].tolist() for form in forms]
    assert all(region == regions[0] for region in regions)


def test_polygons_of_a_map_may_overlap():
    """Cells of two polygons are inside, where holes of one are not."""
    mesh = rectangle((8, 8))
    parts = [[[x, 0.1], [x + 0.5, 0.1], [x + 0.5, 0.9], [x, 0.9]] for x in (0.1, 0.4)]
    both = [{"type": "Polygon", "coordinates": [part]} for part in parts]
    found = tag_region(mesh, "r", {"type": "GeometryCollection", "geometries": both}).regions["r"]
    each = [tag_region(mesh, "r", np.array(part)).regions["r"] for part in parts]
    np.testing.assert_array_equal(found, np.union1d(*each))


def test_inside_agrees_with_the_winding_of_a_star():
    angle = np.linspace(0, 2 * np.pi, 11)[:-1]
    radius = np.where(np.arange(10) % 2, 0.4, 1.0)
    star = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    points = np.random.default_rng(0).uniform(-1, 1, (2000, 2))
    turns = star[None] - points[:, None]
    nexts = np.roll(turns, -1, axis=1)
    cross = turns[..., 0] * nexts[..., 1] - turns[..., 1] * nexts[..., 0]
    winding = np.arctan2(cross, (turns * nexts).sum(axis=2)).sum(axis=1)
    assert (inside_polygon(points, [star]) == (np.abs(winding) > np.pi)).all()


def test_distances_are_exact_up_to_the_cutoff():
    points = np.random.default_rng(1).uniform(-1, 2, (500, 2))
    distance = distance_to_lines(points, [np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 0.0]])], 0.8)
    exact = np.hypot(points[:, 0] - np.clip(points[:, 0], 0, 1), points[:, 1])
    near = exact <= 0.8
    np.testing.assert_allclose(distance[near], exact[near])
    assert np.isinf(distance[~near]).all()


def assert_path(mesh, nodes):
    edges = np.stack([nodes[:-1], nodes[1:]], axis=1)
    find_facets(mesh, edges, "path")  # raises where a step is not a mesh edge
    assert len({tuple(sorted(edge)) for edge in edges.tolist()}) == len(edges)


def test_a_line_becomes_a_connected_path_near_it():
    mesh = rectangle((40, 40))
    path = edge_path(mesh, RIVER, 0.02)
    assert_path(mesh, path.nodes)
    assert path.max_distance <= 0.02
    np.testing.assert_allclose(mesh.nodes[path.nodes[[0, -1]], 0], [0, 1])
    tagged = tag_line(mesh, "river", RIVER, 0.02)
    assert len(tagged.facets["river"]) == len(path.nodes) - 1


def test_a_line_along_mesh_edges_is_followed_exactly():
    mesh = rectangle((8, 8))
    bend = np.array([[0.125, 0.25], [0.75, 0.25], [0.75, 0.875]])
    for tolerance in (1e-9, 0.1):
        path = edge_path(mesh, bend, tolerance)
        assert path.max_distance < 1e-12
        assert len(path.nodes) == 11
        assert_path(mesh, path.nodes)


def test_a_sharp_bend_is_not_cut():
    mesh = rectangle((8, 8))
    # The diagonal edge from (0.25, 0.25) to (0.375, 0.375) would cut this corner.
    corner = np.array([[0.25, 0.25], [0.375, 0.25], [0.375, 0.375]])
    assert len(edge_path(mesh, corner, 0.1).nodes) == 3


def test_a_closed_line_becomes_a_closed_path():
    mesh = rectangle((40, 40))
    path = edge_path(mesh, circle(0.3), 0.02)
    assert path.nodes[0] == path.nodes[-1]
    assert_path(mesh, path.nodes)
    assert len(path.nodes) > 60


def test_a_spiral_is_not_cut_short():
    angle = np.linspace(0, 8 * np.pi, 400)
    radius = 0.08 + 0.35 * angle / angle.max()
    spiral = 0.5 + radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    mesh = rectangle((40, 40))
    path = edge_path(mesh, spiral, 0.02)
    steps = np.diff(mesh.nodes[path.nodes], axis=0)
    length = np.linalg.norm(np.diff(spiral, axis=0), axis=1).sum()
    assert np.linalg.norm(steps, axis=1).sum() > 0.99 * length


def test_steps_taken_back_at_once_are_left_out():
    assert without_spurs([1, 2, 3, 2, 4]) == [1, 2, 4]
    assert without_spurs([1, 2, 3, 4, 3, 2, 5]) == [1, 2, 5]
    assert without_spurs([1, 2, 3, 1]) == [1, 2, 3, 1]


def test_several_lines_share_a_tag():
    lines = {
        "type": "MultiLineString",
        "coordinates": [[[0, 0.25], [0.5, 0.25]], [[0.5, 0.75, 7.0], [1, 0.75, 7.0]]],
    }
    tagged = tag_line(rectangle((8, 8)), "faults", lines, 1e-6)
    assert len(tagged.facets["faults"]) == 8


def test_nodes_of_a_tag_come_once_and_in_order():
    assert np.unique(facets_of_tag(rectangle((3, 2)), "bottom").nodes).tolist() == [0, 1, 2, 3]


def test_an_unknown_tag_is_answered_with_the_nearest_spelling():
    with pytest.raises(MeshError, match=r"no facet tag 'botom': did you mean 'bottom'\? .*'left'"):
        facets_of_tag(rectangle((2, 2)), "botom")
    with pytest.raises(MeshError, match="no facet tag 'x': The mesh has 'boundary', 'outer'"):
        facets_of_tag(disc(2), "x")


@pytest.mark.parametrize(
    ("tag", "message"),
    [
        (lambda m: tag_boundary(m, "t", lambda x: x[:, 0] > 9), "no boundary facet satisfies"),
        (lambda m: tag_boundary(m, "t", lambda x: x[0, 0] > 0), "a bool for each"),
        (lambda m: tag_boundary(m, "t", lambda x: x[:, 0]), "returned float64"),
        (lambda m: tag_boundary_near(m, "t", RIVER + 5, 0.1), "lies within 0.1 of the line"),
        (lambda m: tag_boundary_near(m, "t", RIVER, -1.0), "tolerance for tag 't' is -1.0"),
        (lambda m: tag_boundary_inside(m, "t", SQUARE), "has its midpoint inside the polygon"),
        (lambda m: tag_region(m, "t", SQUARE + 3), "no cell has its centroid inside"),
        (lambda m: tag_region(m, "t", lambda x: x[:, 0] > 9), "no cell satisfies the condition"),
        (lambda m: tag_region(m, "t", lambda x: x[:, 0]), "returned float64 of shape"),
        (lambda m: tag_line(m, "t", RIVER, float("nan")), "give a positive length"),
        (lambda m: tag_line(m, "t", RIVER + 5, 0.1), "no mesh edge lies within 0.4"),
        (lambda m: tag_line(m, "t", RIVER, 0.03), "strays 0.0474 from the line"),
        (lambda m: tag_line(m, "t", [[0.5, 0.5], [1.5, 0.5]], 0.06), r"\[1.5, 0.5\], but the near"),
        (
            lambda m: tag_line(m, "t", [[0.5, 0.5], [0.51, 0.5]], 0.06),
            "shorter than the mesh edges",
        ),
    ],
)
def test_tags_that_find_nothing_are_refused(tag, message):
    with pytest.raises(MeshError, match=message):
        tag(rectangle((10, 10)))


def test_a_line_off_the_edges_of_a_coarse_mesh_is_told_how_far():
    line = np.array([[0.0, 0.5], [0.5, 0.6], [1.0, 0.5]])
    with pytest.raises(MeshError, match=r"strays 0\.\d+ from the line, more than .* 0.04"):
        edge_path(rectangle((4, 4)), line, 0.04)


def test_a_line_across_a_gap_is_refused():
    from riesz.mesh.mesh import Mesh, drop_unused_nodes

    whole = rectangle((20, 4))
    x = whole.nodes[whole.cells].mean(axis=1)[:, 0]
    nodes, cells, _ = drop_unused_nodes(whole.nodes, whole.cells[(x < 0.4) | (x > 0.6)])
    with pytest.raises(MeshError, match="no path of mesh edges joins all parts"):
        edge_path(Mesh(nodes, cells), np.array([[0.0, 0.5], [1.0, 0.5]]), 0.02)


def test_maps_need_a_planar_mesh():
    with pytest.raises(MeshError, match="has 3 dimensions: use tag_boundary"):
        tag_region(box((1, 1, 1)), "t", SQUARE)


@pytest.mark.parametrize(
    ("geometry", "message"),
    [
        ("POLYGON ((0 0, 1 1))", "type str is not known"),
        ([], "type list is not known"),
        ({"type": "Point", "coordinates": [0, 1]}, "type 'Point' has no lines"),
        ({"type": "LineString"}, "LineString has no 'coordinates'"),
        ({"type": "MultiLineString", "coordinates": []}, "holds no line"),
        (np.zeros((3, 1)), r"shape \(3, 1\): give one row x, y"),
        ({"type": "LineString", "coordinates": ["a", "b"]}, "not an array of coordinates"),
        (np.array([[0.0, 1.0], [np.nan, 2.0]]), "NaN or infinite coordinates in 1 of 2 points"),
    ],
)
def test_geometries_that_are_none_are_refused(geometry, message):
    with pytest.raises(MeshError, match=message):
        lines_of(geometry)
