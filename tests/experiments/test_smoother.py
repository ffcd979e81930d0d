"""The forward map smooths, conserves and keeps positive what is positive."""

import numpy as np
import pytest

from riesz.experiments.smoother import (
    forward_problem,
    noisy_source,
    outline_mesh,
    roughness,
    smoother,
    smoother_row,
)
from riesz.fem.coefficient import nodal
from riesz.fem.solve import solve
from riesz.mesh.shapes import rectangle


@pytest.fixture(scope="module")
def mesh():
    return outline_mesh(0.06)


def test_the_output_is_smoother_than_its_source_and_the_budget_closes(mesh):
    row = smoother_row(mesh, 0)
    assert row["output_roughness"] < row["source_roughness"] / 3
    assert abs(row["imbalance"]) < 1e-12 * abs(row["source_total"])


def test_units_of_length_do_not_matter(mesh):
    source = noisy_source(mesh, 1)
    large = type(mesh)(1000 * mesh.nodes, mesh.cells, mesh.facets)
    np.testing.assert_allclose(noisy_source(large, 1), source, rtol=1e-9)
    small_output, large_output = (
        solve(forward_problem(m), {"f": nodal(source)}) for m in (mesh, large)
    )
    np.testing.assert_allclose(large_output, small_output, rtol=1e-8)


def test_roughness_of_a_wave_is_its_wave_number():
    mesh = rectangle((64, 64))
    wave = np.sin(2 * np.pi * mesh.nodes[:, 0]) * np.sin(2 * np.pi * mesh.nodes[:, 1])
    assert roughness(mesh, wave) == pytest.approx(2 * np.pi * np.sqrt(2), rel=5e-3)


def test_seeds_draw_fresh_sources_and_full_runs_have_more_rows(mesh):
    assert not np.allclose(noisy_source(mesh, 0), noisy_source(mesh, 1))
    assert len(smoother(0, "full", mesh).tasks) == 3
    assert len(smoother(0, "quick", mesh).tasks) == 1


def test_the_configuration_tells_meshes_of_equal_size_apart(mesh):
    other = type(mesh)(2 * mesh.nodes, mesh.cells, mesh.facets)
    same, scaled = (smoother(0, "quick", m, domain="a.msh").config for m in (mesh, other))
    assert same == smoother(0, "quick", mesh, domain="a.msh").config
    assert same != scaled
    assert same["domain"] == "a.msh"
