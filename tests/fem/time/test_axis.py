"""Time axes and series: what they take, and what they refuse."""

import datetime

import numpy as np
import pytest

import riesz as rz
from riesz.errors import FormError

SPACE = rz.P1(rz.interval(4))


def test_dates_are_counted_in_days_from_the_first():
    axis = rz.fem.time_axis(["2000-01-01", "2000-01-02", "2000-03-01T12:00"])
    assert axis.times.tolist() == [0.0, 1.0, 60.5]
    assert str(axis.dates(axis.times[[2]])[0]) == "2000-03-01T12:00:00"
    there = axis.numbers([datetime.datetime(2000, 1, 31)], "times")
    assert there.tolist() == [30.0]


def test_periods_have_steps_that_grow_from_their_starts():
    times = rz.fem.period_times([0.0, 7.0, 14.0], [3, 1], growth=2.0)
    np.testing.assert_allclose(times, [0, 1, 3, 7, 14])


@pytest.mark.parametrize(
    ("times", "told"),
    [
        ([0.0], "at least two times"),
        ([0.0, 2.0, 1.0], "1.0 in entry 3 comes after 2.0"),
        ([0.0, np.nan], "entry 2 of the time axis is nan"),
        (["2000-01-01", "2000-13-01"], "no dates"),
        (["2000-01-02", "2000-01-01"], "2000-01-01 in entry 2 comes after 2000-01-02"),
        (["2000-01-01", "NaT"], "no date in row 2"),
    ],
)
def test_an_axis_that_does_not_rise_is_refused_by_its_entry(times, told):
    with pytest.raises(FormError, match=told):
        rz.fem.time_axis(times)


def test_a_time_zone_is_refused():
    first = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
    with pytest.raises(FormError, match="time zone"):
        rz.fem.time_axis([first, first + datetime.timedelta(days=1)])


def test_numbers_and_dates_do_not_mix():
    with pytest.raises(FormError, match="the time axis has dates"):
        rz.fem.time_axis(["2000-01-01", "2000-01-02"]).numbers([1.0], "times of observations")
    with pytest.raises(FormError, match="the time axis has numbers"):
        rz.fem.time_axis([0.0, 1.0]).numbers(["2000-01-01"], "times of observations")


@pytest.mark.parametrize(
    ("times", "values", "told"),
    [
        ([0.0, 2.0, 1.0], [1.0, 2.0, 3.0], "1 in row 3 comes after 2"),
        ([0.0, 0.0], [1.0, 2.0], "do not rise"),
        ([0.0, 1.0], [1.0, 2.0, 3.0], "one row a time"),
        ([0.0, 1.0], [1.0, np.nan], "NaN"),
    ],
)
def test_a_series_with_gaps_or_out_of_order_is_refused(times, values, told):
    with pytest.raises(FormError, match=told):
        rz.series(times, values)


def posed(form=None, **given):
    equation = rz.storage(1.0) + rz.diffusion(1.0) if form is None else form
    settings = {"times": [0.0, 1.0], "initial": 0.0} | given
    return rz.transient_problem(SPACE, equation, {"boundary": 0.0}, **settings)


@pytest.mark.parametrize(
    ("form", "given", "told"),
    [
        (rz.diffusion(1.0), {}, "no storage term"),
        (rz.storage(-1.0) + rz.diffusion(1.0), {}, "capacity of storage is -1"),
        (None, {"scheme": "leapfrog"}, "'leapfrog'"),
        (None, {"scheme": "bdf2"}, "give 'euler' or 'sdirk2'"),
        (None, {"initial": [1.0, 2.0]}, "initial state"),
    ],
)
def test_what_makes_no_sense_in_time_is_refused(form, given, told):
    with pytest.raises(FormError, match=told):
        posed(form, **given)


def test_a_series_needs_a_time_axis():
    form = rz.diffusion(1.0) - rz.source(rz.series([0.0], [1.0]))
    with pytest.raises(FormError, match="no time axis"):
        rz.solve(rz.boundary_value_problem(SPACE, form, {"boundary": 0.0}))
