"""Figures are drawn without windows and refuse fields that do not fit."""

import numpy as np
import pytest

from riesz.errors import RieszError
from riesz.mesh.shapes import box, interval, rectangle
from riesz.plot import draw_field, draw_mesh, draw_slice, draw_vectors, new_figure, save_figure


def test_fields_at_nodes_and_cells_and_vectors_are_drawn(tmp_path):
    mesh = rectangle((3, 3))
    figure, axes = new_figure(3)
    draw_field(axes[0], mesh, mesh.nodes[:, 0], label="x")
    draw_field(axes[1], mesh, np.arange(mesh.num_cells, dtype=float))
    draw_mesh(axes[2], mesh)
    draw_vectors(axes[2], mesh.nodes, mesh.nodes)
    save_figure(tmp_path / "figure.png", figure)
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_slices_of_fields_in_space_are_drawn_with_their_axes():
    mesh = box((2, 2, 2))
    figure, (nodal, by_cell) = new_figure(2)
    draw_slice(nodal, mesh, mesh.nodes[:, 2], x=0.3, label="z")
    draw_slice(by_cell, mesh, np.arange(mesh.num_cells, dtype=float), z=0.5)
    figure.canvas.draw()
    assert (nodal.get_xlabel(), nodal.get_ylabel()) == ("y", "z")
    assert (by_cell.get_xlabel(), by_cell.get_ylabel()) == ("x", "y")
    drawn = nodal.collections[0].get_array()
    assert (drawn.min(), drawn.max()) == (0.0, 1.0)
    with pytest.raises(RieszError, match="fits neither the 27 nodes nor the 48 cells"):
        draw_slice(nodal, mesh, np.zeros(5), z=0.5)


def test_a_field_that_fits_neither_nodes_nor_cells_is_refused():
    _, (axes,) = new_figure()
    with pytest.raises(RieszError, match="fits neither the 16 nodes nor the 18 cells"):
        draw_field(axes, rectangle((3, 3)), np.zeros(5))


def test_only_plane_meshes_are_mapped():
    _, (axes,) = new_figure()
    with pytest.raises(RieszError, match="not in 1 dimensions"):
        draw_mesh(axes, interval(3))
    with pytest.raises(RieszError, match="Take draw_slice"):
        draw_mesh(axes, box((1, 1, 1)))
