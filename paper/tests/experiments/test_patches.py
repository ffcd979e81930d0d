"""A drawn mini-patch shows what its table holds."""

import numpy as np
import pytest

import riesz as rz
from riesz.errors import RieszError
from riesz.plot import new_figure
from riesz_paper.experiments.taper.figures import draw_mini_patch, nearest_patch
from riesz_paper.tapers.taper import HardTaper
from riesz_paper.tapers.tapered import tapered_norm


@pytest.fixture(scope="module")
def setting():
    mesh = rz.rectangle((6, 6))
    problem = rz.boundary_value_problem(rz.P1(mesh), rz.diffusion(1.0), {"boundary": 0.0})
    return mesh, tapered_norm(problem, HardTaper(0.2)).fine.table


def test_tested_nodes_their_neighbours_and_the_centre_are_marked(setting):
    mesh, table = setting
    _, (axes,) = new_figure()
    patch = nearest_patch(mesh, table, np.array([0.5, 0.5]))
    draw_mini_patch(axes, mesh, table, patch, centred=True)
    lines = {line.get_label(): np.asarray(line.get_xydata()) for line in axes.get_lines()}
    # The five-point star about the middle, within the square of nine nodes and beyond it.
    np.testing.assert_allclose(lines["the patch's own node"], [[0.5, 0.5]])
    assert len(lines["tested nodes"]) == 5
    beside = lines["neighbours in the mesh"] - 0.5
    assert np.abs(beside).sum(axis=1).min() > 1.5 / 6
    assert np.abs(beside).max() < 2.5 / 6


def test_a_patch_that_is_not_there_is_refused(setting):
    mesh, table = setting
    _, (axes,) = new_figure()
    with pytest.raises(RieszError, match="no patch 25: the table has 25"):
        draw_mini_patch(axes, mesh, table, 25)
