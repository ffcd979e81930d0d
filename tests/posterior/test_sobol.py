"""Draws that are spread evenly: standard normal each, and closer together to their law."""

import numpy as np
import pytest
import scipy.stats
from scipy.special import ndtr

from riesz.posterior.importance import smoothed_weights, systematic_resample
from riesz.posterior.sobol import resampling_order, spread_normals


@pytest.mark.parametrize(("num_draws", "size"), [(1000, 1), (1024, 2), (1000, 12)])
def test_each_coordinate_is_standard_normal(num_draws, size):
    draws = spread_normals(0, num_draws, size)
    assert draws.shape == (num_draws, size)
    for column in draws.T:
        assert scipy.stats.kstest(column, "norm").pvalue > 0.05
    np.testing.assert_allclose(draws.mean(axis=0), 0.0, atol=0.03)
    np.testing.assert_allclose(draws.std(axis=0), 1.0, atol=0.05)


def test_there_is_one_length_in_each_equally_likely_range():
    squares = np.sum(spread_normals(3, 1000, 4) ** 2, axis=1)
    found = np.sort(scipy.stats.chi2.cdf(squares, 4)) * 1000
    np.testing.assert_array_equal(np.floor(found), np.arange(1000))


def test_another_seed_gives_other_draws_and_the_same_one_the_same():
    first, again, other = (spread_normals(seed, 64, 2) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0.1


def test_the_tail_of_a_narrow_q_is_told_apart_in_a_thousand_draws():
    """The weights of a q of half the width are Pareto with shape 3/4 in two dimensions."""
    shapes = []
    for seed in range(20):
        squares = np.sum(spread_normals(seed, 1000, 2) ** 2, axis=1)
        shapes.append(smoothed_weights(0.5 * (1 - 0.25) * squares).k_hat)
    assert np.std(shapes) < 0.05  # independent draws scatter by 0.12
    assert np.mean(shapes) == pytest.approx(0.74, abs=0.02)  # 3/4, drawn to 1/2 by its prior
    assert np.mean(np.array(shapes) > 0.7) >= 0.9


@pytest.mark.parametrize("size", [64, 400])
def test_no_two_coordinates_are_correlated(size):
    """A Sobol sequence of a thousand points has pairs that are, from some hundreds on."""
    correlations = np.corrcoef(spread_normals(0, 1000, size).T) - np.eye(size)
    assert np.abs(correlations).max() < 0.2  # six standard errors


def test_seeds_below_zero_are_seeds_too():
    """As they are for JAX: a check must not stop at what the fit before it took."""
    assert spread_normals(-1, 8, 2).shape == (8, 2)


@pytest.mark.parametrize(("count", "gap"), [(512, 0.01), (64, 0.06), (300, 1.36 / 300**0.5)])
def test_draws_that_are_kept_by_equal_weights_are_even(count, gap):
    """As even as all where they are a power of two, and at least as independent ones elsewhere."""
    draws = spread_normals(3, 1024, 4)
    kept = systematic_resample(np.full(1024, 1 / 1024), count, order=resampling_order(1024, 4))
    assert len(np.unique(kept)) == count
    levels = np.sort(ndtr(draws[kept]), axis=0)
    even = (np.arange(count) + 0.5)[:, None] / count
    assert np.abs(levels - even).max() < gap  # every other draw of the sequence has 0.5


def test_draws_are_kept_as_often_as_their_weights_say():
    kept = systematic_resample(np.array([0.1, 0.0, 0.5, 0.4]), 10, order=resampling_order(4, 2))
    assert np.bincount(kept, minlength=4).tolist() == [1, 0, 5, 4]


@pytest.mark.parametrize(
    ("count", "first", "kept"), [(120, 75, 64), (128, 64, 64), (1024, 256, 256)]
)
def test_of_draws_in_blocks_each_block_keeps_its_share(count, first, kept):
    """Of two peaks one after the other, say: strides of powers of two must not miss one."""
    order = resampling_order(count, 4)
    found = systematic_resample(np.full(count, 1 / count), kept, order=order)
    assert (found < first).sum() == pytest.approx(kept * first / count, abs=2)
