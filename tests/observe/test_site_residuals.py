"""What new readings of a site share with earlier ones: against the dense normal distribution."""

import numpy as np
import pytest

from riesz.observe.sites import UNREAD, ErrorsGiven, SiteErrors

# Unequal gaps, two readings of site 1 at one time, site 2 read once.
GROUP = np.array([1, 0, 1, 2, 0, 1, 1, 0, 3, 3, 0])
TIMES = np.array([3.0, 0.0, 3.0, 7.0, 9.5, 3.5, -4.0, 0.1, 2.0, 2.0, 40.0])
PLACES = np.array([[0.0, 0.0], [5.0, 1.0], [2.0, 8.0], [9.0, 9.0]])
NEW_SITE = np.array([0, 0, 0, 0, 1, 1, 1, 2, 3, UNREAD])
NEW_TIMES = np.array([-3.0, 0.05, 9.5, 99.0, 3.0, 3.2, -9.0, 8.0, 2.0, 2.0])

SCALES = {
    "level": ("level_sd",),
    "drift": ("drift_sd", "correlation_time"),
    "both": ("level_sd", "drift_sd", "correlation_time"),
}


def shared_covariance(scales, site, when, other_site, other_when):
    same = (site[:, None] == other_site) & (site[:, None] != UNREAD)
    level, drift, memory = (scales.get(name, 0.0) for name in SCALES["both"])
    apart = np.abs(when[:, None] - other_when)
    return np.where(same, level**2 + drift**2 * np.exp(-apart / (memory or 1.0)), 0.0)


@pytest.mark.parametrize("names", SCALES.values(), ids=SCALES)
def test_errors_given_residuals_are_those_of_the_normal_distribution(names):
    rng = np.random.default_rng(0)
    residuals = rng.normal(size=(3, len(GROUP)))
    sd = rng.uniform(0.05, 0.5, size=(3, len(GROUP)))
    parameters = {name: rng.uniform(0.5, 3.0, size=(3, 1)) for name in names}
    times = TIMES if "drift_sd" in names else None
    sites = SiteErrors(GROUP, PLACES, times, 100.0)  # the problem's clock is 100 ahead
    found = ErrorsGiven(sites, residuals, sd, parameters).at(NEW_SITE, NEW_TIMES + 100.0)
    for draw in range(3):
        scales = {name: values[draw, 0] for name, values in parameters.items()}
        readings = shared_covariance(scales, GROUP, TIMES, GROUP, TIMES) + np.diag(sd[draw] ** 2)
        new = shared_covariance(scales, NEW_SITE, NEW_TIMES, GROUP, TIMES)
        own = sum(scales.get(name, 0.0) ** 2 for name in ("level_sd", "drift_sd"))
        variance = own - np.sum(new * np.linalg.solve(readings, new.T).T, axis=1)
        mean = new @ np.linalg.solve(readings, residuals[draw])
        np.testing.assert_allclose(found.mean[draw], mean, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(found.sd[draw], np.sqrt(variance), rtol=1e-9)


def test_without_a_time_the_level_is_known_and_the_drift_is_not():
    parameters = {"level_sd": 2.0, "drift_sd": 0.5, "correlation_time": 3.0}
    parameters = {name: np.array([[value]]) for name, value in parameters.items()}
    told = np.ones((1, len(GROUP))), np.full((1, 1), 0.1), parameters
    given = ErrorsGiven(SiteErrors(GROUP, PLACES, TIMES, None), *told)
    far = ErrorsGiven(SiteErrors(GROUP, PLACES, TIMES, 0.0), *told)
    found, wanted = given.at(np.arange(4)), far.at(np.arange(4), np.full(4, 1e6))
    np.testing.assert_allclose(found.mean, wanted.mean)
    np.testing.assert_allclose(found.sd, wanted.sd)


def test_sites_are_known_by_their_places():
    places = np.vstack([PLACES, PLACES[3], [[np.nan, np.nan]]])  # two at one place, one nowhere
    sites = SiteErrors(np.arange(6), places, None, None)
    asked = np.array([[5.0, 1.0 + 1e-9], [0.0, 0.0], [5.0, 1.1], [9.0, 9.0]])
    np.testing.assert_array_equal(sites.numbers_at(asked), [1, 0, UNREAD, UNREAD])
