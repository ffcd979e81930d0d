"""Measurements are checked before anything else happens."""

import numpy as np
import pytest

from riesz.errors import RieszError
from riesz.observe.observations import observations

POINTS = [[0.1, 0.2], [0.5, 0.5], [0.9, 0.1]]


def test_points_on_an_interval_may_be_numbers():
    assert observations([0.1, 0.5], [1.0, 2.0]).points.shape == (2, 1)
    assert observations([[0.1, 0.5]], [1.0]).points.shape == (1, 2)


def test_several_different_values_at_one_place_are_told():
    with pytest.warns(UserWarning, match=r"1 places .* first \[0.1, 0.2\] with 1 .. 2"):
        seen = observations([*POINTS, POINTS[0]], [1.0, 5.0, 5.0, 2.0])
    assert seen.num_sensors == 4


def test_the_same_value_twice_is_no_cause_for_alarm():
    seen = observations([*POINTS, POINTS[0]], [1.0, 5.0, 5.0, 1.0])  # a warning would be an error
    assert seen.num_sensors == 4


@pytest.mark.parametrize(
    ("points", "values", "message"),
    [
        (POINTS, [1.0, 2.0], r"shape \(3, 2\), but there are 2 values"),
        (POINTS, [[1.0], [2.0], [3.0]], r"values have shape \(3, 1\)"),
        (np.zeros((0, 2)), [], "there are no observations"),
        (POINTS, [1.0, np.nan, np.inf], "2 of the observed values .* first in observation 1"),
        ([[0, 0], [np.inf, 1], [2, 2]], [1, 2, 3], "1 of the observed coordinates"),
        (POINTS, ["a", "b", "c"], "values are not all numbers"),
        (POINTS, [1.0, None, 3.0], "1 of the observed values are NaN or infinite, first in obs"),
        (
            POINTS,
            np.ma.array([1.0, 2.0, 3.0], mask=[False, False, True]),
            "1 of the observed values .* first in observation 2",
        ),
        (POINTS, np.array([1.0, 2.0j, 3.0]), "the observed values are complex"),
    ],
)
def test_bad_measurements_are_refused(points, values, message):
    with pytest.raises(RieszError, match=message):
        observations(points, values)
