"""Problems in time with few unknowns in their matrix: marches without derivatives, and resuming."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from tests.pairs import pair

import riesz as rz
from riesz.density.marginal import in_time
from riesz.density.marginal.in_time import time_stepping_model
from riesz.density.marginal.linear import MarginalDensity
from riesz.density.marginal.marginal import gradient_of
from riesz.density.marginal.points import point_map_at_sensors
from riesz.fem.time import time_stepping
from riesz.io.store.checkpoint import Checkpoint
from riesz.problem.linearity import linear_parts

SITE = np.repeat([0, 1, 2], 6)
WHEN = np.tile(0.1 * np.arange(1, 7), 3)
ENGINE = pair("laplace(marginal)", num_draws=40, num_values=5)


@pytest.fixture(scope="module")
def problem():
    """Storage and conductivity are not linear, the source is; sites share their errors."""
    rng = np.random.default_rng(0)
    values = np.sin(3 * WHEN) + rng.normal(size=3)[SITE] + 0.1 * rng.normal(size=len(SITE))
    drift = {"drift_sd": 0.1, "correlation_time": 0.2, "times": WHEN}
    return rz.inverse_problem(
        rz.interval(8),
        rz.storage("s") + rz.diffusion("k") - rz.source("f"),
        latents={
            "s": dist.LogNormal(0.0, 0.3),
            "k": dist.LogNormal(-1.0, 0.3),
            "f": dist.Normal(1.0, 1.0),
            "sd": dist.LogNormal(-2.0, 0.5),
            "level": dist.LogNormal(-1.0, 0.5),
        },
        dirichlet={"left": 0.0},
        observations=rz.observations(np.array([0.3, 0.6, 0.9])[SITE], values, times=WHEN),
        likelihood=rz.observe.GroupedNormal("sd", SITE, level_sd="level", **drift),
        times=0.1 * np.arange(8),
        initial=0.0,
    )


def test_density_and_slope_are_those_through_all_steps(problem):
    parts, at = linear_parts(problem), point_map_at_sensors(problem)
    model = time_stepping_model(MarginalDensity(problem, parts, at))
    assert len(model.moving) == 2
    exact = gradient_of(MarginalDensity(problem, parts, at))
    for others in (jnp.zeros(4), jnp.array([0.5, -0.3, 0.2, 1.0])):
        value, slope = exact(others)
        found, by, _ = model.cost(others)
        assert found == pytest.approx(float(value), rel=1e-10)
        np.testing.assert_allclose(by, slope, rtol=1e-5, atol=1e-6)
    # Noise moves no march.
    count = len(model.known)
    model.with_best_noise(others)
    assert len(model.known) == count


def test_what_does_not_change_in_time_is_solved_for_once_and_not_marched(monkeypatch):
    """A level outside, whose part never changes, and rain, whose part does; a steady beginning."""
    problem = rz.inverse_problem(
        rz.interval(8),
        rz.storage("s")
        + rz.diffusion(0.3)
        + rz.fem.leakage(0.5, 1.0, "outside")
        - rz.source(rz.series([0.0, 0.3], [1.0, 3.0], factor="share")),
        latents={
            "s": dist.LogNormal(0.0, 0.3),
            "outside": rz.KarhunenLoeve(rz.Matern32(0.3), num_terms=4),
            "share": dist.Normal(1.0, 1.0),
        },
        dirichlet={"left": 0.0},
        observations=rz.observations(np.array([0.3, 0.6, 0.9])[SITE], WHEN, times=WHEN),
        likelihood=rz.Gaussian(0.1),
        times=0.1 * np.arange(8),
        initial=rz.fem.SteadyState(),
    )
    parts, at, counts = linear_parts(problem), point_map_at_sensors(problem), []

    def counted(*given, **how):
        counts.append(given[-1].shape[-1])
        return substituted(*given, **how)

    substituted = time_stepping.substitute_blocks
    monkeypatch.setattr(time_stepping, "substitute_blocks", counted)
    others = jnp.array([0.4])
    found = in_time.responses_at(MarginalDensity(problem, parts, at), others)
    assert counts == [2]
    every = dataclasses.replace(at, steady=(False,) * 5)
    same = in_time.responses_at(MarginalDensity(problem, parts, every), others)
    assert counts == [2, 6]
    np.testing.assert_allclose(found.responses, same.responses, rtol=1e-9, atol=1e-12)


def test_a_fit_that_was_killed_goes_on_to_the_same_numbers(problem, tmp_path, monkeypatch):
    left_in_peace = rz.fit(problem, ENGINE)
    marched, calls = in_time.responses_at, []

    def counted(*parts):
        calls.append(1)
        if len(calls) > limit:
            raise KeyboardInterrupt
        return marched(*parts)

    monkeypatch.setattr(in_time, "responses_at", counted)
    limit = 30
    with pytest.raises(KeyboardInterrupt):
        rz.fit(problem, ENGINE, checkpoint=Checkpoint(tmp_path / "kept", seconds=0.0))
    calls, limit = [], 10_000
    again = rz.fit(problem, ENGINE, checkpoint=Checkpoint(tmp_path / "kept", seconds=0.0))
    after = len(calls)
    np.testing.assert_array_equal(again.distribution.all(), left_in_peace.distribution.all())
    calls = []
    rz.fit(problem, ENGINE)
    assert after <= len(calls) - 20
