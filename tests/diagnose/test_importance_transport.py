"""On the transport problem, whose posterior is known by quadrature: wrong q are told."""

import jax.numpy as jnp
import numpy as np
import pytest

from riesz.diagnose.importance import importance_check
from riesz.fem.elements.space import point_operator
from riesz.observe.likelihood import Gaussian
from riesz.observe.observations import observations
from riesz.posterior.checks import K_HAT
from riesz.posterior.family import full_rank_of
from riesz.posterior.posterior import ExactStates, Posterior
from riesz.problem.posing import with_observations
from riesz_paper.experiments.transport.data import (
    NUM_SENSORS,
    PRIOR_SD,
    RELATIVE_NOISE,
    random_points,
    template,
)
from riesz_paper.experiments.transport.exact import exact_posterior

NUM_DRAWS = 1000


def posed(seed, levels):
    """A data set from a finer mesh, and the exact posterior."""
    rng = np.random.default_rng([seed, 11])
    coarse, fine = (template("square", n) for n in (levels, levels + 1))
    points = random_points(rng, "square", NUM_SENSORS)
    state = fine.state(jnp.asarray(rng.standard_normal(2)))
    clean = np.asarray(point_operator(fine.forward.space, points) @ state)
    noise = RELATIVE_NOISE * np.abs(clean).max()
    values = clean + noise * rng.standard_normal(NUM_SENSORS)
    likelihood = Gaussian(np.full(NUM_SENSORS, noise))
    problem = with_observations(coarse, observations(points, values), likelihood)
    return problem, exact_posterior(problem, problem.operator)


def checked(problem, exact, seed, *, shift=0.0, scale=1.0):
    """The check of a q with the exact moments, but for a shift of the first unknown and a scale."""
    offsets = exact.lattice - exact.mean
    factor = np.linalg.cholesky((exact.weights[:, None] * offsets).T @ offsets)
    mean = exact.mean + shift * exact.sd * np.eye(2)[0]
    family = full_rank_of(jnp.asarray(mean), jnp.asarray(scale * factor))
    posterior = Posterior(problem, family, ExactStates(), engine="gaussian-vi(surrogate)")
    return importance_check(posterior, num_draws=NUM_DRAWS, seed=seed)


def check_corrected(found, exact):
    """Corrected moments agree with the exact ones as well as they say, and to a tenth of an sd."""
    gaps = np.abs(found.mean - exact.mean) / exact.sd
    growth = np.abs(np.log(found.sd / exact.sd))
    for gap, error in ((gaps, found.mean_shift_error), (growth, found.sd_ratio_error)):
        assert np.all(gap <= 3 * error)
        assert np.all(gap <= 0.1)


def told_apart(seed, levels):
    """Everything that must hold on each data set; k-hat of the narrow q, which may miss once."""
    problem, exact = posed(seed, levels)
    good = checked(problem, exact, seed)
    assert good.k_hat < K_HAT.good
    assert good.warnings == ()
    check_corrected(good, exact)
    wide = checked(problem, exact, seed, scale=2.0)
    assert any(note.code == "importance_wide" for note in wide.warnings)
    check_corrected(wide, exact)
    moved = checked(problem, exact, seed, shift=1.0)
    (shift,) = [note.values for note in moved.warnings if note.code == "importance_shift"]
    assert shift["unknown"] == "tau[0]"
    assert shift["shift"] < 0
    check_corrected(moved, exact)
    narrow = checked(problem, exact, seed, scale=0.5)
    assert narrow.warnings
    return narrow.k_hat


@pytest.mark.slow
def test_wrong_posteriors_are_told_apart():
    assert PRIOR_SD == 3.0  # the problem of the experiment
    assert told_apart(0, levels=2) > K_HAT.bad


@pytest.mark.slow
def test_half_the_width_is_distrusted_in_nine_of_ten_runs():
    shapes = [told_apart(seed, levels=3) for seed in range(10)]
    assert np.sum(np.array(shapes) > K_HAT.bad) >= 9, shapes
