"""Angles agree with elementary geometry, and the report says what a reader needs."""

import numpy as np

from riesz.mesh.mesh import Mesh
from riesz.mesh.quality import minimum_angles, quality_report
from riesz.mesh.shapes import box, disc, interval, rectangle


def test_angles_of_known_triangles():
    right = Mesh(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), np.array([[0, 1, 2]]))
    equilateral = Mesh(
        np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(3) / 2]]), np.array([[0, 1, 2]])
    )
    thin = Mesh(np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 0.1]]), np.array([[0, 1, 2]]))
    np.testing.assert_allclose(minimum_angles(right), 45)
    np.testing.assert_allclose(minimum_angles(equilateral), 60)
    np.testing.assert_allclose(minimum_angles(thin), np.degrees(np.arctan(0.1)))


def test_dihedral_angles_of_known_tetrahedra():
    regular = np.array([[1.0, 1, 1], [-1, 1, -1], [1, -1, -1], [-1, -1, 1]])
    mesh = Mesh(regular, np.array([[0, 1, 2, 3]]))
    np.testing.assert_allclose(minimum_angles(mesh), np.degrees(np.arccos(1 / 3)))
    np.testing.assert_allclose(minimum_angles(box((2, 2, 2))), 45)


def test_intervals_count_as_flat():
    assert (minimum_angles(interval(3)) == 180).all()


def test_angles_do_not_change_with_size_or_place():
    mesh = disc(4)
    moved = Mesh(1e-3 * mesh.nodes + [5e3, 1e3], mesh.cells)
    np.testing.assert_allclose(minimum_angles(moved), minimum_angles(mesh), rtol=1e-6)


def test_the_report_counts_and_measures():
    report = quality_report(rectangle((4, 2), (0, 0), (4, 2)))
    assert (report.num_nodes, report.num_cells, report.max_valence) == (15, 16, 6)
    np.testing.assert_allclose(report.total_volume, 8)
    np.testing.assert_allclose([report.shortest_edge, report.longest_edge], [1, np.sqrt(2)])
    np.testing.assert_allclose([report.smallest_angle, report.low_angle], 45)
    assert report.num_poor_cells == 0


def test_the_report_finds_the_worst_cell():
    mesh = rectangle((4, 4))
    nodes = mesh.nodes.copy()
    nodes[12] += [0.11, -0.11]  # push the middle node almost onto a neighbouring diagonal
    report = quality_report(Mesh(nodes, mesh.cells))
    assert report.num_poor_cells > 0
    assert 12 in mesh.cells[report.worst_cell]
    np.testing.assert_allclose(
        report.worst_place, nodes[mesh.cells[report.worst_cell]].mean(axis=0)
    )


def test_the_report_reads_well():
    text = str(quality_report(rectangle((3, 3))))
    assert "16" in text
    assert "18 triangles, total area 1" in text
    assert "smallest 45.0 degrees, in cell" in text
    assert "0 cells below 20 degrees" in text
    assert "total volume 1" in str(quality_report(box((1, 1, 1))))
    assert "dihedral" in str(quality_report(box((1, 1, 1))))
    assert "degrees" not in str(quality_report(interval(3)))
