"""A Gaussian by a surrogate, by gradients: for norms whose readout cannot be solved for."""

import numpy as np
import pytest
from tests.source_strengths import source_problem

import riesz as rz
from riesz_paper.baselines.by_gradients import GradientSettings, emulate_by_gradients


@pytest.mark.slow
def test_gradients_train_what_cannot_be_solved_for():
    """The exact norm is no sum over patches: its surrogate is trained, and q with it."""
    settings = GradientSettings(
        width=16, features=16, prior_steps=100, steps=100, block_steps=50, refining_draws=64
    )
    problem = source_problem()
    posterior = emulate_by_gradients(
        problem, rz.penalty.exact_penalty(problem.forward), settings=settings
    )
    physics = np.asarray(posterior.history["physics"])
    assert physics.shape == (200,)
    assert physics[-20:].mean() < 0.1 * physics[:10].mean()
    assert posterior.history["bound"].shape == (100,)
