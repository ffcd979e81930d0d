"""Numbers are read as they were meant: by their own marks, and by those of their neighbours."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from riesz.io.tables.numbers import number_in, number_or_limit, plain_columns


def read(*cells, by_commas=False):
    (column,), _ = plain_columns([cells], by_commas=by_commas)
    return [number_or_limit(cell) for cell in column]


@pytest.mark.parametrize(
    ("cell", "number"),
    [
        ("12,5", 12.5),
        ("-0,123", -0.123),
        ("1.234,5", 1234.5),
        ("1,234.5", 1234.5),
        ("1.234.567", 1234567.0),
        ("1 234,5", 1234.5),
        ("1\u202f234\u202f567,25", 1234567.25),
        ("1'234'567.25", 1234567.25),
        ("\u22127,5", -7.5),
        ("1,5E-3", 0.0015),
        ("<0,5", 0.5),
        ("< 0,05", 0.05),
        (",5", 0.5),
        ("12.5", 12.5),
    ],
)
def test_a_number_that_can_be_read_in_one_way_is_read_so(cell, number):
    assert read(cell) == [number]
    assert read(cell, by_commas=True) == [number]


def test_three_digits_after_a_mark_are_read_as_the_column_is():
    assert read("1.234", "0,5", "2.000") == [1234.0, 0.5, 2000.0]
    assert read("1,234", "0.5") == [1234.0, 0.5]
    assert read("1.234", "2.345") == [1.234, 2.345]


def test_where_a_column_does_not_tell_its_table_does():
    columns, mark = plain_columns([("1.234", "2.345"), ("0,5", "7,25")], by_commas=False)
    assert mark == ","
    assert columns[0] == ["1234", "2345"]


def test_where_nothing_tells_the_separator_of_columns_does():
    assert read("1,234", "2,345", by_commas=False) == [1.234, 2.345]
    assert read("1,234", "2,345", by_commas=True) == [1234.0, 2345.0]


def test_words_keep_their_letters():
    columns, _ = plain_columns([("a, 1,5 km", "b"), ("17.04.2003", "1,5,2")], by_commas=False)
    assert columns == [("a, 1,5 km", "b"), ("17.04.2003", "1,5,2")]


@pytest.mark.parametrize("cell", ["1_0", "0x10", "inf", "1.2.3", "1,2,3", "12 34", "1. 234", ""])
def test_what_is_no_number_stays_none(cell):
    assert math.isnan(read(cell, "12,5", "13,5")[0])


@given(st.lists(st.floats(-1e9, 1e9).map(lambda one: round(one, 2)), min_size=2, max_size=5))
def test_german_numbers_come_back(numbers):
    written = [f"{one:,.2f}".translate(str.maketrans(",.", ".,")) for one in numbers]
    assert read(*written) == numbers


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=5))
def test_numbers_of_programs_are_left_alone(numbers):
    (column,), mark = plain_columns([[repr(one) for one in numbers]], by_commas=True)
    assert [number_in(cell) for cell in column] == numbers
    assert mark == "."
