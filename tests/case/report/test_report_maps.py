"""Maps in a page keep what they are made from: means, spreads and probabilities."""

import base64

import numpy as np
from scipy.stats import norm

from riesz.case.report.charts import Scale, curve, data_fit, digits, interval_bar
from riesz.case.report.maps import (
    LEVELS,
    REACH,
    encode_grid,
    encode_map,
    field_map,
    map_grid,
    rings,
    rings_of,
)
from riesz.mesh.shapes import disc


def numbers(part):
    raw = np.frombuffer(base64.b64decode(part["data"]), "<u2")
    return part["low"] + raw / 65535 * (part["high"] - part["low"])


def scores(text, num_pixels):
    raw = np.frombuffer(base64.b64decode(text), "<u1").reshape(num_pixels, -1)
    return (raw / 255 * 2 - 1) * REACH


def exceedance(mean, sd, scores, threshold):
    """The probability of more than a threshold, from standardised quantiles, as the page's script
    computes it."""
    if sd <= 0:
        return float(mean > threshold)
    place, normal = (threshold - mean) / sd, norm.ppf(LEVELS)
    widths = np.maximum(np.diff(scores), 1e-9)
    i = int(np.clip(np.searchsorted(scores, place) - 1, 0, len(widths) - 1))
    score = normal[i] + (place - scores[i]) / widths[i] * (normal[i + 1] - normal[i])
    return float(norm.sf(score))


def normal_map():
    rng = np.random.default_rng(0)
    mean, sd = np.array([-1.0, 0.0, 100.0]), np.array([1.0, 0.2, 3.0])
    return field_map("u", "head", "m", mean + sd * rng.normal(size=(4000, 3)))


def test_means_and_spreads_survive_to_four_digits():
    one = normal_map()
    found = encode_map(one)
    np.testing.assert_allclose(numbers(found["mean"]), one.mean, atol=1e-5 * 200)
    np.testing.assert_allclose(numbers(found["sd"]), one.sd, atol=1e-4)
    assert (found["unit"], found["title"], found["logarithmic"]) == ("m", "head", False)


def test_the_probability_of_more_is_that_of_the_normal_distribution():
    one = normal_map()
    rows = scores(encode_map(one)["scores"], 3)
    for place in (-3.0, -1.0, 0.0, 0.4, 2.5):
        threshold = one.mean[2] + place * one.sd[2]
        found = exceedance(float(one.mean[2]), float(one.sd[2]), rows[2], float(threshold))
        assert abs(found - norm.sf(place)) < 0.03


def test_the_probability_of_more_follows_a_skewed_distribution():
    rng = np.random.default_rng(1)
    draws = np.exp(rng.normal(size=(4000, 1)))
    one = field_map("a", "a", None, draws)
    rows = scores(encode_map(one)["scores"], 1)
    for threshold in (0.2, 0.6, 1.0, 3.0, 6.0):
        found = exceedance(float(one.mean[0]), float(one.sd[0]), rows[0], threshold)
        assert abs(found - np.mean(draws > threshold)) < 0.04


def test_what_is_known_for_certain_is_above_or_below():
    one = field_map("u", "u", None, np.full((10, 2), 5.0))
    found = encode_map(one)
    low, start, high = found["thresholds"]
    assert low < start < high
    assert exceedance(5.0, 0.0, scores(found["scores"], 2)[0], 4.9) == 1.0
    assert exceedance(5.0, 0.0, scores(found["scores"], 2)[0], 5.1) == 0.0


def test_values_over_decades_are_coloured_by_their_logarithm():
    wide = field_map("a", "a", None, np.array([[1.0, 1e3], [1.1, 1.2e3]]))
    assert encode_map(wide)["logarithmic"]


def test_the_grid_tells_which_pixels_lie_inside():
    pixels = map_grid(disc(6))
    found = encode_grid(pixels)
    bits = np.frombuffer(base64.b64decode(found["inside"]), np.uint8)
    inside = np.unpackbits(bits, bitorder="little")[: pixels.inside.size].astype(bool)
    assert max(found["rows"], found["columns"]) == 150
    np.testing.assert_array_equal(inside.reshape(pixels.inside.shape), pixels.inside)


def test_charts_escape_what_users_wrote_and_say_what_they_show():
    ones = np.array([1.0, 2.0, 3.0])
    chart = data_fit(ones, ones, ones - 0.1, ones + np.array([0.1, 0.1, -0.05]), "<script>x")
    assert "<script" not in chart
    assert "&lt;script&gt;x" in chart
    assert "1 lie outside their 95 % interval" in chart
    assert chart.count('class="outside"') == 1
    limits = np.array([False, False, True])  # below three: met by what is predicted lower
    chart = data_fit(ones, ones, ones - 0.1, ones + np.array([0.1, 0.1, -0.05]), "x", limits)
    assert 'class="outside' not in chart
    assert chart.count('class="inside limit"') == chart.count('class="mark"') == 1
    assert "2 measurements against predictions; 0 lie outside" in chart
    assert "1 more are limits, 0 of them below the whole interval" in chart
    chart = data_fit(ones, ones + 1, ones + 0.9, ones + 1.1, "x", limits)
    assert 'class="outside limit"' in chart
    assert "2 measurements against predictions; 2 lie outside" in chart


def test_a_curve_that_falls_by_decades_is_drawn_by_its_logarithm():
    steep = curve("loss", 10.0 ** -np.linspace(0, 6, 1000)[None])
    assert "1e−6" in steep
    assert "loss over 1000 steps" in steep
    assert curve("nothing", np.full((1, 5), np.nan)) == ""
    assert "5" in curve("flat", np.full((1, 5), 5.0))


def test_scales_and_numbers():
    assert Scale(0.0, 2.0, 0.0, 100.0)(1.0) == 50.0
    assert Scale(1.0, 100.0, 0.0, 100.0, logarithmic=True)(10.0) == 50.0
    assert Scale(0.8, 45.0, 0.0, 1.0, logarithmic=True).ticks() == [1, 2, 5, 10, 20]
    assert Scale(0.8, 4500.0, 0.0, 1.0, logarithmic=True).ticks() == [1, 10, 100, 1000]
    assert digits(-1.5e-7) == "−1.5e−7"
    assert digits(1234.5678) == "1235"
    assert 'class="posterior"' in interval_bar((0.0, 1.0, 2.0), (0.5, 0.6, 0.7))


def test_the_rim_of_a_mesh_with_a_hole_is_two_rings():
    edges = np.array([[0, 1], [2, 1], [2, 0], [5, 4], [4, 3], [3, 5]])
    found = rings_of(edges)
    assert [set(ring) for ring in found] == [{0, 1, 2}, {3, 4, 5}]


def test_two_parts_that_touch_in_a_node_are_walked_round_to_the_end():
    edges = np.array([[0, 1], [1, 2], [2, 0], [2, 3], [3, 4], [4, 2]])
    assert sum(len(ring) for ring in rings_of(edges)) == 6
    (ring,) = rings(disc(3))
    np.testing.assert_allclose(np.hypot(*ring.T), 1.0)
