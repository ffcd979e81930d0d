"""Series in time: their volumes are those of the table, and jumps do not harm the order."""

import jax.numpy as jnp
import numpy as np
import pytest

import riesz as rz

RNG = np.random.default_rng(0)
DAYS = np.arange(364.0)
RAIN = np.where(RNG.random(364) < 0.25, RNG.exponential(8e-3, 364), 0.0)
SCHEMES = ("euler", "sdirk2")


def even(source, times, scheme="sdirk2", decay=None, z=None):
    """A state that is the same everywhere, u' + decay u = f from zero on, at all times."""
    form = rz.storage(1.0) + rz.diffusion(1.0) - rz.source(source)
    form = form if decay is None else form + rz.reaction(decay)
    problem = rz.transient_problem(
        rz.P1(rz.interval(2)), form, times=times, initial=0.0, scheme=scheme
    )
    return np.asarray(rz.solve(problem, z))[:, 0]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("length", [7.0, 10.3])
def test_steps_of_any_length_store_the_rain_that_fell(scheme, length):
    times = np.append(np.arange(0.0, 364.0, length), 364.0)
    stored = even(rz.series(DAYS, RAIN), times, scheme)
    fallen = np.interp(times, np.append(DAYS, 364.0), np.append(0.0, np.cumsum(RAIN)))
    np.testing.assert_allclose(stored, fallen, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_lines_between_rows_have_their_volume_too(scheme):
    rng = np.random.default_rng(1)
    rows, values = np.sort(rng.uniform(0.0, 364.0, 40)), rng.normal(size=40)
    times = np.arange(0.0, 365.0, 14.0)
    stored = even(rz.series(rows, values, kind="linear"), times, scheme)
    fine = np.union1d(rows, times)
    heights = np.interp(fine, rows, values)
    volumes = np.append(0.0, np.cumsum(np.diff(fine) * (heights[1:] + heights[:-1]) / 2))
    np.testing.assert_allclose(stored, np.interp(times, fine, volumes), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("begun", [0.3, 0.6, 0.7])
def test_a_row_at_the_end_of_a_step_begins_with_the_next_one(begun):
    """`linspace` has 0.30000000000000004 in place of 0.3."""
    stored = even(rz.series([0.0, begun], [0.0, 1.0]), np.linspace(0, 1, 11))
    np.testing.assert_allclose(stored[-1], 1 - begun, rtol=1e-12)


def test_an_unknown_history_has_the_values_of_a_known_one():
    times, rows = np.linspace(0, 364, 53), rz.series(DAYS, "q", factor="a")
    known = even(rz.series(DAYS, 2.0 * RAIN), times)
    found = even(rows, times, z={"q": jnp.asarray(RAIN), "a": jnp.asarray(2.0)})
    np.testing.assert_allclose(found, known, rtol=1e-12)


def test_errors_fall_by_four_though_the_stress_jumps_with_each_step():
    """Monthly rates by one step a month, two and four, against the closed form."""
    rates, decay = np.random.default_rng(2).exponential(size=12), 1.3
    exact = np.zeros(13)
    for month, rate in enumerate(rates):
        exact[month + 1] = rate / decay + (exact[month] - rate / decay) * np.exp(-decay / 12)

    def error(steps):
        times = np.linspace(0, 1, 12 * steps + 1)
        found = even(rz.series(np.arange(12) / 12, rates), times, decay=decay)
        return np.abs(found[::steps] - exact).max()

    errors = np.array([error(steps) for steps in (1, 2, 4)])
    np.testing.assert_allclose(np.log2(errors[:-1] / errors[1:]), 2, atol=0.1)
    assert errors[0] < 1e-3 * exact.max()


def test_prescribed_values_along_lines_hold_at_their_times():
    problem = rz.transient_problem(
        rz.P1(rz.interval(2)),
        rz.storage(1.0) + rz.diffusion(1.0),
        {"left": rz.series([0.0, 0.55, 1.0], [0.0, 2.0, 1.0], kind="linear")},
        times=np.linspace(0, 1, 6),
        initial=0.0,
    )
    left = np.asarray(rz.solve(problem))[:, 0]
    wanted = np.interp(problem.axis.times, [0.0, 0.55, 1.0], [0.0, 2.0, 1.0])
    np.testing.assert_allclose(left, wanted, atol=1e-14)
