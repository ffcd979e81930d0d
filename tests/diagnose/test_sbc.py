"""Prior to data to posterior and back: right posteriors pass, a wrong surrogate is told."""

import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import pytest

from riesz.diagnose.simulation import sbc
from riesz.engines.amortise.simulate import PriorSurrogate
from riesz.engines.emulate.start import initial_surrogate
from riesz.errors import RieszError
from riesz.fem.terms.weakform import diffusion, source
from riesz.mesh.refine import hierarchy
from riesz.mesh.shapes import rectangle
from riesz.observe.likelihood import Gaussian
from riesz.observe.observations import observations
from riesz.problem.posing import inverse_problem

POINTS = np.random.default_rng(1).uniform(0.1, 0.9, (6, 2))
SMALL = PriorSurrogate(width=32, features=16, readout_batches=24)


@pytest.fixture(scope="module")
def problem():
    """One unknown source in a small square."""
    return inverse_problem(
        hierarchy(rectangle((2, 2)), 2),
        diffusion(1.0) - source("f"),
        latents={"f": dist.Normal(10.0, 5.0)},
        observations=observations(POINTS, np.full(6, 0.5)),
        likelihood=Gaussian(0.1),
        dirichlet={"boundary": 0.0},
    )


@pytest.mark.slow
def test_posteriors_of_a_linear_problem_are_calibrated(problem):
    found = sbc(problem, num_data_sets=100, sizes=SMALL)
    assert found.calibrated, found.warnings()
    assert found.num_data_sets == 100
    assert 0.5 < found.contraction[0] < 1.0
    assert found.sensor_errors.max() < 0.1
    assert found.start_gaps.max() < 1e-6  # a Gaussian has one mode


@pytest.mark.slow
def test_a_wrong_surrogate_is_told(problem):
    untrained = initial_surrogate(problem, jr.key(0), width=SMALL.width, features=SMALL.features)
    found = sbc(problem, num_data_sets=100, surrogate=untrained)
    assert found.p_values[0] < 0.01
    assert any("the surrogate is off" in note for note in found.warnings())


def test_a_handful_of_data_sets_is_refused(problem):
    with pytest.raises(RieszError, match="fewer than 20 tell nothing"):
        sbc(problem, num_data_sets=5)
