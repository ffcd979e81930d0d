"""Kriging, a plane, blocks and scores: none of it knows an equation."""

import numpy as np
import pytest
from scipy import stats

from riesz.comparison.blocks import spatial_blocks
from riesz.comparison.results import pair_difference
from riesz.comparison.rivals import likely_values, rival_models
from riesz.density.marginal.spread import Spread, sample_hyperparameters
from riesz.diagnose.held_out import HeldOut

RNG = np.random.default_rng(7)
POINTS = RNG.uniform(0, 10, (40, 2))


def smooth(points):
    return np.sin(points[:, 0]) + 0.2 * points[:, 1]


def test_kriging_at_given_scales_foretells_as_a_gaussian_process_does():
    process = pytest.importorskip("sklearn.gaussian_process", reason="comes with the paper")
    kernels = process.kernels
    values = smooth(POINTS) + 0.1 * RNG.normal(size=40)
    model = rival_models(POINTS, values)["kriging"]
    at = np.array([-0.4, 0.2, 0.7])
    rows = np.arange(6)
    found = model.system(at).leave_out([rows])
    # The trend is normal with known sds: a kernel of products.
    parts = {one.name: one.columns(at[one.scales]) for one in model.components}
    reach = 0.15 * np.ptp(POINTS, axis=0).max() * np.exp(at[2])
    sd = np.linalg.norm(parts["process"][0])
    nugget = float(model.noise_sd(at[:1])[0])
    kernel = kernels.ConstantKernel(sd**2) * kernels.Matern(reach, nu=1.5)
    rest = np.arange(6, 40)
    covariance = kernel(POINTS) + parts["trend"] @ parts["trend"].T
    known = covariance[np.ix_(rest, rest)] + (nugget**2 + 1e-6 * sd**2) * np.eye(34)
    gain = covariance[np.ix_(rows, rest)] @ np.linalg.inv(known)
    centred = values - values.mean()
    spread = covariance[np.ix_(rows, rows)] - gain @ covariance[np.ix_(rest, rows)]
    np.testing.assert_allclose(centred[rows] - found.gaps[rows], gain @ centred[rest], atol=1e-4)
    expected = np.sqrt(np.diag(spread) + nugget**2)
    np.testing.assert_allclose(found.sds[rows], expected, rtol=1e-3)


def test_kriging_finds_the_scales_of_a_field_and_beats_a_plane():
    values = smooth(POINTS) + 0.1 * np.random.default_rng(1).normal(size=40)
    models = rival_models(POINTS, values)
    noise = {name: likely_values(one, count=60) for name, one in models.items()}
    sds = {n: float(models[n].noise_sd(one.mean[:1])[0]) for n, one in noise.items()}
    assert 0.05 < sds["kriging"] < 0.3 < sds["plane"] < 1.0


def test_covariates_and_times_are_known_to_kriging_too():
    places = np.repeat(POINTS[:5], 6, axis=0)
    times = np.tile(np.arange(6.0), 5)
    design = np.random.default_rng(2).normal(size=(30, 1))
    values = 3 * design[:, 0] + 0.5 * times + 0.01 * np.random.default_rng(3).normal(size=30)
    plane = rival_models(places, values, times=times, design=design)["plane"]
    likely = likely_values(plane, count=30)
    assert float(plane.noise_sd(likely.mean[:1])[0]) < 0.05
    kriging = rival_models(places, values, times=times, design=design)["kriging"]
    assert [one.name for one in kriging.components] == [
        *("trend", "effects", "process", "changes", "levels")
    ]


def test_the_integral_of_a_density_is_found_with_its_draws():
    precision = np.array([[2.0, 0.6], [0.6, 1.0]])
    values, axes = np.linalg.eigh(precision)
    spread = Spread(axes, 1 / np.sqrt(values), ())

    def density(x):
        return 3.0 - 0.5 * np.asarray(x) @ precision @ np.asarray(x)

    found, _ = sample_hyperparameters(density, spread, np.zeros(2), 200, 0)
    exact = 3.0 + np.log(2 * np.pi) - 0.5 * np.log(np.linalg.det(precision))
    assert found.log_integral == pytest.approx(exact, abs=0.02)


def test_blocks_hold_together_what_lies_together_and_hang_on_the_seed_alone():
    corners = np.array([[0, 0], [0, 10], [10, 0], [10, 10]])
    points = np.concatenate([corner + RNG.normal(size=(9, 2)) for corner in corners])
    block = spatial_blocks(points, 4, seed=3)
    assert sorted(map(tuple, block.reshape(4, 9))) == [(n,) * 9 for n in range(4)]
    np.testing.assert_array_equal(block, spatial_blocks(points, 4, seed=3))
    twice = spatial_blocks(np.repeat(points, 2, axis=0), 4)
    assert (twice[::2] == twice[1::2]).all()
    assert spatial_blocks(points[:5]) is None
    assert spatial_blocks(np.full((30, 1), np.nan)) is None


def test_scores_are_those_of_the_normal_distribution():
    count = 4000
    draws = stats.norm.ppf((np.arange(count) + 0.5) / count)[:, None] * [1.0, 2.0]
    observed = np.array([0.5, 5.0])
    held_out = HeldOut(observed, np.zeros(2), draws, np.zeros(2), ("closed form",) * 2)
    found = held_out.scores
    white, sd = observed / [1.0, 2.0], np.array([1.0, 2.0])
    crps = sd * (
        white * (2 * stats.norm.cdf(white) - 1) + 2 * stats.norm.pdf(white) - 1 / np.sqrt(np.pi)
    )
    np.testing.assert_allclose(found["crps"], crps, rtol=2e-3)
    np.testing.assert_allclose(found["error"], observed, atol=1e-6)
    np.testing.assert_array_equal(found["held"], [1.0, 0.0])


def test_intervals_of_differences_are_over_blocks():
    rng = np.random.default_rng(0)
    block = np.repeat(np.arange(25), 4)
    shared = rng.normal(size=25)[block] + 0.1
    found = pair_difference(shared, block, 0)
    alone = pair_difference(shared, np.arange(100), 0)
    assert found.error == pytest.approx(stats.sem(shared[::4]), rel=1e-6)
    assert found.error > 1.8 * alone.error
    assert found.low == pytest.approx(found.mean - 1.96 * found.error, abs=0.1)


def test_limits_of_detection_have_log_densities_but_no_errors():
    draws = np.tile([[np.nan, 0.0], [np.nan, 1.0]], (5, 1))
    logs = np.array([-0.5, -1.0])
    observed = np.array([1.0, 0.5])
    held_out = HeldOut(observed, logs, draws, np.zeros(2), ("weights",) * 2)
    found = held_out.scores
    assert np.isnan([found[name][0] for name in ("crps", "error", "held")]).all()
    assert held_out.means()["log_density"] == pytest.approx(-0.75)
    assert held_out.means()["mae"] == pytest.approx(0.0)
    assert np.isnan(pair_difference(np.full(4, np.nan), np.arange(4), 0).mean)
