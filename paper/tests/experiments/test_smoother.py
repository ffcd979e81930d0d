"""The forward map smooths and conserves, and sensors tell the direction of its wind."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from riesz.fem.solve import solve
from riesz.fem.terms.coefficient import nodal
from riesz.mesh.shapes import rectangle
from riesz_paper.experiments.smoother.direction import (
    TRUTH,
    Case,
    circular_moments,
    direction_row,
    directions,
    wind_draws,
    wind_of,
    wind_posterior,
)
from riesz_paper.experiments.smoother.experiment import smoother, smoother_row
from riesz_paper.experiments.smoother.forward import (
    VEER,
    forward_problem,
    noisy_source,
    outline_mesh,
    roughness,
    wind,
)


@pytest.fixture(scope="module")
def case():
    return Case(outline_mesh(0.06), 0)


@pytest.fixture(scope="module")
def mesh(case):
    return case.mesh


@pytest.mark.slow
def test_the_output_is_smoother_than_its_source_and_the_budget_closes(case):
    row = smoother_row(case)
    assert row["output_roughness"] < row["source_roughness"] / 3
    assert abs(row["imbalance"]) < 1e-12 * abs(row["source_total"])


@pytest.mark.slow
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


def test_the_wind_of_both_problems_is_the_same(mesh):
    there = jax.vmap(lambda x: wind_of(mesh)(x, TRUTH))(jnp.asarray(mesh.nodes))
    np.testing.assert_allclose(there, wind(mesh), atol=1e-12)


@pytest.mark.slow
def test_sensors_tell_the_direction(case):
    row = direction_row(case)
    assert row["sensors"] == 30
    assert row["direction"] == pytest.approx(np.degrees(0.2 * VEER))
    assert row["direction_sd"] < 10  # degrees; before the data, all directions were alike
    assert abs(row["direction_error_sd"]) < 4


@pytest.mark.slow
def test_draws_for_the_picture_have_the_moments_of_the_posterior(case):
    found = wind_posterior(case)
    mean, sd = circular_moments(directions(found.velocities, 0.5), found.weights)
    drawn = directions(wind_draws(found, 20_000), 0.5)
    again, again_sd = circular_moments(drawn, np.full(20_000, 1 / 20_000))
    assert abs(again - mean) < 0.1 * sd
    assert again_sd == pytest.approx(sd, rel=0.1)


def test_directions_are_averaged_on_the_circle():
    mean, sd = circular_moments(np.array([170.0, -170.0]), np.array([0.5, 0.5]))
    assert abs(mean) == pytest.approx(180.0)
    assert sd == pytest.approx(10.0)
