"""Prior to data to posterior and back: right posteriors pass, a wrong surrogate is told."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

import riesz as rz
from riesz.amortise.simulate import PriorSurrogate
from riesz.density.surrogate.start import initial_surrogate
from riesz.diagnose.simulation import sbc
from riesz.errors import RieszError
from riesz.fem.terms.weakform import diffusion, source
from riesz.mesh.refinement import hierarchy
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
    assert found.start_gaps.max() < 0.01  # a Gaussian has one mode; draws are others


@pytest.mark.slow
def test_a_wrong_surrogate_is_told(problem):
    untrained = initial_surrogate(problem, jr.key(0), width=SMALL.width, features=SMALL.features)
    found = sbc(problem, num_data_sets=100, surrogate=untrained)
    assert found.p_values[0] < 0.01
    assert any("the surrogate is off" in note for note in found.warnings())


def test_a_handful_of_data_sets_is_refused(problem):
    with pytest.raises(RieszError, match="fewer than 20 tell nothing"):
        sbc(problem, num_data_sets=5)


@pytest.mark.slow
def test_posteriors_of_an_equation_in_time_are_calibrated():
    """Heat, a conductivity and a source: the surrogate is a trajectory over the prior.

    Posteriors are bent: the best Gaussians are half as wide, and weights have to mend them.
    """
    places, when = np.array([0.25, 0.5, 0.8]), np.array([0.1, 0.3, 0.5])
    points, dated = np.tile(places, len(when)), np.repeat(when, len(places))
    problem = rz.inverse_problem(
        rz.hierarchy(rz.interval(4), 2),
        rz.storage(1.0) + rz.diffusion("k") - rz.source("f"),
        latents={"k": dist.LogNormal(np.log(0.2), 0.3), "f": dist.Normal(0.5, 1.0)},
        dirichlet={"boundary": 0.0},
        observations=rz.observations(points, np.zeros(len(points)), times=dated),
        likelihood=rz.Gaussian(0.02),
        times=np.linspace(0, 0.5, 9),
        initial=lambda x: jnp.sin(np.pi * x[0]),
    )
    found = sbc(problem, num_data_sets=200, seed=0)
    assert np.median(found.sensor_errors) < 0.2
    for ranks in found.ranks.T:
        assert stats.kstest(ranks, "uniform").pvalue > 0.01
