"""Columns of times: read in one way only, or refused by one message with the row."""

import numpy as np
import pytest

from riesz.errors import FileFormatError
from riesz.io.tables.dates import DAY_FIRST, MONTH_FIRST, YEARS, format_dates, moments_at, times_in
from riesz.io.tables.layers import read_csv


def read(*cells, **words):
    return times_in(cells, "when", lambda row: f"table.csv, line {row + 2}", **words)


@pytest.mark.parametrize(
    ("cells", "moments"),
    [
        (["1971-09-21", "1971-12-01"], ["1971-09-21", "1971-12-01"]),
        (["1971/9/21", "1971/12/1"], ["1971-09-21", "1971-12-01"]),
        (["19710921", "19711201"], ["1971-09-21", "1971-12-01"]),
        (
            ["1971-09-21T14:30", "1971-09-21 14:30:59.9"],
            ["1971-09-21T14:30", "1971-09-21T14:30:59"],
        ),
        (["1971-09-21", "1971-09-21 14:30"], ["1971-09-21", "1971-09-21T14:30"]),
        (["1971-09-21 24:00"], ["1971-09-22"]),
        (["1972-02-29"], ["1972-02-29"]),
        (["21.09.1971", "01.12.1971"], ["1971-09-21", "1971-12-01"]),
        (["01.12.1971"], ["1971-12-01"]),
        (["21/9/1971", "1/12/1971 8:05"], ["1971-09-21", "1971-12-01T08:05"]),
        (["9/21/1971", "1/12/1971"], ["1971-09-21", "1971-01-12"]),
        (["9-21-1971"], ["1971-09-21"]),
        (["09.21.1971"], ["1971-09-21"]),
        (["3/3/1971", "4/4/1971"], ["1971-03-03", "1971-04-04"]),
        (["9/21/1971 2:30 PM", "9/21/1971, 12:05 am"], ["1971-09-21T14:30", "1971-09-21T00:05"]),
        (["1600-01-01", "9999-12-31"], ["1600-01-01", "9999-12-31"]),
    ],
)
def test_dates_are_read(cells, moments):
    found = read(*cells)
    assert found.moments.dtype == np.dtype("datetime64[s]")
    np.testing.assert_array_equal(found.moments, np.array(moments, "datetime64[s]"))
    assert not found.zone


@pytest.mark.parametrize(
    ("cells", "zone"),
    [
        (["1971-09-21T14:30Z", "1971-09-21T15:30+00:00"], "+00:00"),
        (["1971-09-21T14:30+01:00", "1971-09-21T15:30+0100", "1971-09-22"], "+01:00"),
        (["1971-09-21 14:30 UTC"], "+00:00"),
        (["1971-09-21T14:30-03"], "-03:00"),
    ],
)
def test_one_time_zone_is_told_and_times_are_kept_as_written(cells, zone):
    found = read(*cells)
    assert found.zone == zone
    assert found.moments[0] == np.datetime64("1971-09-21T14:30")


def test_the_order_is_told():
    assert read("21/09/1971").order == DAY_FIRST
    assert read("9/21/1971").order == MONTH_FIRST
    assert read("1971-09-21").order == ""
    assert read("3/4/1971", order=MONTH_FIRST).moments[0] == np.datetime64("1971-03-04")
    assert read("3.4.1971", order=MONTH_FIRST).moments[0] == np.datetime64("1971-03-04")


def test_days_are_counted_from_the_first_midnight_or_an_origin():
    found = read("1971-09-23T12:00", "1971-09-21T06:00")
    np.testing.assert_allclose(found.numbers, [2.5, 0.25], rtol=1e-12)
    assert found.origin == np.datetime64("1971-09-21")
    again = read("1971-09-23T12:00", origin=np.datetime64("1971-09-24"))
    np.testing.assert_allclose(again.numbers, [-0.5], rtol=1e-12)


def test_numbers_are_days_and_have_dates_once_there_is_an_origin():
    found = read("0.0153", "1e1", "-2", "1971")
    assert found.moments is None
    assert found.origin is None
    np.testing.assert_array_equal(found.numbers, [0.0153, 10, -2, 1971])
    dated = read("0.5", "31", origin=np.datetime64("1971-01-01"))
    np.testing.assert_array_equal(
        dated.moments, np.array(["1971-01-01T12:00", "1971-02-01"], "datetime64[s]")
    )


def test_years_have_the_length_of_their_calendar():
    found = read("1971", "1971.5", "1972.5", numbers=YEARS)
    wanted = ["1971-01-01", "1971-07-02T12:00", "1972-07-02"]
    np.testing.assert_array_equal(found.moments, np.array(wanted, "datetime64[s]"))
    assert found.numbers[0] == 0


@pytest.mark.parametrize(
    "cells",
    [
        ["1971-09-21", "1871-12-01"],
        ["1971-09-21T14:30", "1971-09-21T00:00"],
        ["1971-09-21T14:30:59", "2024-02-29T00:00:00"],
    ],
)
def test_dates_are_written_as_they_were_read(cells):
    found = read(*cells)
    assert format_dates(found.moments) == cells
    assert format_dates(moments_at(found.numbers, found.origin)) == cells


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["1971-09-21", "", "n/a"], r"line 3: when is empty \(2 of 3 rows are like that\): every"),
        (["1971-09-21", None], "line 3: when is empty: every row needs its time"),
        (["1971-09-21", "soon"], "line 3: when is 'soon', no date: write 1971-09-21 or"),
        (["1950-05"], "line 2: when is '1950-05', no date"),
        (["1971-09-21", "21.09.1971"], "line 3: .* '21.09.1971', but table.csv, line 2 has '1971-"),
        (["21/09/1971", "21.09.1971"], "line 3: .*: write all in one way"),
        (["1971-09-21", "1971.7"], "line 3: when is '1971.7', a number, but other rows have dates"),
        (["12", "19710921"], "line 2: when is '12', a number, but .* '19710921'"),
        (["21/09/71"], "'21/09/71', which leaves the century open: write years with four"),
        (
            ["3/4/1971", "5/6/1971"],
            "'3/4/1971', day 3 of month 4 or day 4 of month 3, and no other",
        ),
        (
            ["13/4/1971", "4/13/1971"],
            "line 3: .* month first, but table.csv, line 2 has '13/4/1971",
        ),
        (["1971-02-29"], "'1971-02-29', and there is no such day: correct it"),
        (["31.04.1971"], "'31.04.1971', and there is no such day with the day first"),
        (["1971-09-21", "1971-13-01", "1971-14-01"], r"line 3: .*\(2 of 3 rows are like that\)"),
        (["1971-09-21 25:00"], "'1971-09-21 25:00', which has no time of day"),
        (["1971-09-21 14.30 h"], "which has no time of day: write 1971-09-21 or 1971-09-21T14:30"),
        (["9/21/1971 13:00 PM"], "which has no time of day"),
        (
            ["1971-07-21T14:30+02:00", "1971-12-21T14:30+01:00"],
            "line 3: .* in the time zone .01:00, but .* line 2 has .* in the time zone .02:00: wr",
        ),
        (["1971-09-21T14:30Z", "1971-09-21T14:30"], "line 3: .*, without a time zone, but"),
    ],
)
def test_what_can_be_read_in_two_ways_or_none_is_refused(cells, message):
    with pytest.raises(FileFormatError, match=message):
        read(*cells)


def test_orders_and_years_that_cannot_be_are_refused():
    with pytest.raises(FileFormatError, match="'21/9/1971', not month first: correct the order"):
        read("3/4/1971", "21/9/1971", order=MONTH_FIRST)
    with pytest.raises(FileFormatError, match=r"line 3: when is '-5', no year: give years such"):
        read("1971.2", "-5", numbers=YEARS)


def test_a_table_has_times(tmp_path):
    path = tmp_path / "levels.csv"
    path.write_text("site,date\nA,1971-09-21\nA,1971-11-22\n")
    found = read_csv(path).times("date")
    assert format_dates(found.moments) == ["1971-09-21", "1971-11-22"]
    path.write_text("site,date\nA,1971-09-21\n\nA,\n")
    with pytest.raises(FileFormatError, match=r"levels.csv, line 4: date is empty"):
        read_csv(path).times("date")
