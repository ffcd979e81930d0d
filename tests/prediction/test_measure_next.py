"""Where to measure next under a posterior, held against the formulas of a linear problem."""

import numpy as np
import pytest
from tests.linear_gaussian import (
    NOISE,
    affine_states,
    exact_posterior,
    known_posterior,
    linear_problem,
)

from riesz.errors import RieszError
from riesz.mesh.location import locate
from riesz.posterior.posterior import ExactStates
from riesz.prediction.draws import interpolation
from riesz.prediction.measure_next import measure_next
from riesz.priors.representatives import node_volumes

PLACES = np.random.default_rng(1).uniform(0.05, 0.95, (20, 2))


def left_after(rows):
    """The mean variance of the state after measurements at some of the places."""
    mesh, slopes = linear_problem().forward.space.mesh, np.asarray(affine_states().slopes)
    read = (interpolation(mesh, locate(mesh, PLACES)) @ slopes)[rows]
    covariance = np.linalg.inv(np.linalg.inv(known_posterior()[1]) + read.T @ read / NOISE**2)
    volumes = node_volumes(mesh)
    variance = np.einsum("nr,rs,ns->n", slopes, covariance, slopes)
    return float(volumes @ variance / volumes.sum())


@pytest.fixture(scope="module")
def refits():
    return np.array([left_after([]) - left_after([place]) for place in range(len(PLACES))])


def test_of_a_normal_posterior_no_draw_is_needed(refits):
    found = measure_next(exact_posterior(ExactStates()), "u", PLACES, count=2)
    np.testing.assert_allclose(found.reduction, refits, rtol=1e-4)
    assert found.before == pytest.approx(left_after([]), rel=1e-4)
    assert found.cumulative[1] == pytest.approx(left_after([]) - left_after(found.chosen), rel=1e-4)
    assert found.num_draws == 6
    assert found.error.max() == 0


def test_draws_find_the_same_within_their_errors(refits):
    posterior = exact_posterior()
    found = measure_next(posterior, "u", PLACES, num_draws=4000)
    shares = refits / left_after([])
    assert (np.abs(found.share - shares) < 4 * found.error).all()
    assert (found.error < 0.1 * shares.max()).all()
    with pytest.raises(RieszError, match="outside"):
        measure_next(posterior, "u", [[2.0, 2.0]])
