"""The transport experiment: its truth, its data, its scores, and its files."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from riesz.fem.elements.space import point_operator
from riesz_paper.experiments.transport import data, experiment, methods
from riesz_paper.experiments.transport.exact import exact_posterior
from riesz_paper.experiments.transport.figures import growth_exponents
from riesz_paper.running.runner import run_experiment

CASE = data.Case("square", 2, 0, 7)  # 9 x 9 nodes


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Data from 33 x 33 nodes, the finest posterior from quadratic elements on 17 x 17."""
    monkeypatch.setattr(data, "DATA_LEVELS", {"square": 4, "disc": 3})
    monkeypatch.setattr(data, "FINEST_LEVELS", 3)


@pytest.fixture
def posed(small):
    problem, _ = data.posed(CASE)
    return problem, point_operator(problem.forward.space, [[0.5, 0.5]])


@pytest.mark.slow
def test_the_lattice_is_fine_and_wide_enough(posed):
    """Half the spacing and a wider reach change the moments by less than 1e-3 sd."""
    coarse = exact_posterior(*posed)
    fine = exact_posterior(*posed, spacing=0.5, reach=6.0)
    np.testing.assert_allclose(coarse.mean, fine.mean, atol=1e-3 * fine.sd.min())
    np.testing.assert_allclose(coarse.sd, fine.sd, rtol=1e-3)


def test_a_gaussian_posterior_is_found_exactly(posed):
    """With noise a thousand times larger the data say nothing: the prior is left."""
    problem, points = posed
    sd = jnp.full_like(problem.observed, 1e3)
    noisy = dataclasses.replace(problem, likelihood=dataclasses.replace(problem.likelihood, sd=sd))
    found = exact_posterior(noisy, points)
    np.testing.assert_allclose(found.mean, 0.0, atol=1e-6)
    np.testing.assert_allclose(found.sd, 1.0, rtol=1e-4)


def test_data_are_fresh_for_each_replicate_and_seed_and_the_same_when_asked_again():
    seen = [data.data_set("square", seed, k) for seed, k in ((1, 0), (1, 1), (2, 0))]
    velocities = np.array([one.velocity for one in seen])
    assert len(np.unique(velocities[:, 0])) == len(seen)
    data.data_set.cache_clear()
    again = data.data_set("square", 1, 0)
    np.testing.assert_array_equal(again.values, seen[0].values)
    assert np.abs(again.values).max() > 10 * again.noise_sd


def test_sensors_lie_inside_the_disc():
    rng = np.random.default_rng(0)
    points = data.random_points(rng, "disc", 500)
    assert points.shape == (500, 2)
    assert np.linalg.norm(points - 0.5, axis=1).max() < 0.45


def test_the_finest_problem_sees_the_same_data_through_quadratic_elements():
    """Of a quadratic function, point values are exact."""
    seen = data.data_set("square", 1, 0)
    problem = data.posed_finest("square", seen)
    x, y = problem.forward.space.points.T
    np.testing.assert_allclose(problem.observed, seen.values)
    wanted = seen.points[:, 0] * seen.points[:, 1] + seen.points[:, 0] ** 2
    np.testing.assert_allclose(problem.operator @ jnp.asarray(x * y + x**2), wanted, rtol=1e-12)


def test_growth_is_the_slope_of_measured_costs_only():
    rows = [
        {"method": "nuts-dense", "domain": "square", "nodes": n, "cpu_seconds": cost, **extra}
        for n, cost, extra in [
            (100, 1.0, {"extrapolated": False}),
            (1000, 100.0, {"extrapolated": False}),
            (10_000, 1e9, {"extrapolated": True}),
        ]
    ]
    assert growth_exponents(rows)["nuts-dense"] == pytest.approx(2.0)


def test_what_a_sampler_took_is_scaled_by_its_kept_draws():
    """Half the gradients are warm-up; with 100 effective draws the other half is done 4 times."""
    history = {"num_gradients": 200, "num_steps": np.full(50, 2), "effective_draws": [100.0, 150.0]}
    found = methods.scaled_cost(history, methods.Timed(10.0, 20.0))
    assert found["cpu_seconds_ess400"] == pytest.approx(20.0 * (0.5 + 0.5 * 4))


def run(tmp_path, monkeypatch, *plans):
    monkeypatch.setattr(experiment, "plans", lambda mode: list(plans))
    prepared = experiment.transport(3, "quick")
    return run_experiment(prepared, tmp_path, seed=3, command="riesz x")["rows"]


@pytest.mark.slow
def test_one_compilation_serves_all_data_sets_on_a_mesh(tmp_path, monkeypatch):
    """On 9 x 9 nodes, with a training too short to be any good."""
    short = methods.ENGINE.with_settings(
        width=8, features=8, patch_nodes=16, coarse_patch_nodes=9, num_samples=4,
        readout_batches=4, rounds=1,
    )  # fmt: skip
    monkeypatch.setattr(methods, "ENGINE", short)
    rows = run(tmp_path, monkeypatch, ("emulate", "square", 2, 2))
    compiling = [row["compile_seconds"] for row in rows]
    assert compiling[0] == compiling[1] > 1.0
    assert all(row["seconds"] < compiling[0] / 2 for row in rows)
