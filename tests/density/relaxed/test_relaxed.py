"""The density relaxed against the posterior of the relaxed model in closed form."""

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from tests.pairs import pair
from tests.source_strengths import averaged_posterior, errors, source_problem
from tests.stopping import check_same, stopped_and_resumed

from riesz.density.relaxed.relaxed import Learned
from riesz.diagnose.importance import importance_check
from riesz.errors import RieszError
from riesz.fem.terms.weakform import diffusion, source
from riesz.mesh.shapes import rectangle
from riesz.method.base import Work
from riesz.observe.likelihood import StudentT
from riesz.observe.observations import observations
from riesz.prediction.predict import predict
from riesz.problem.posing import inverse_problem

SHORT = pair("gaussian-vi(relaxed)", num_draws=8, num_curved=2)


@lru_cache
def fitted(epsilon_rel, model_error=1.0):
    return fit(epsilon_rel, model_error)


def fit(epsilon_rel, model_error=1.0, **given):
    engine = SHORT.with_settings(epsilon_rel=epsilon_rel)
    return engine.run(source_problem(model_error=model_error), seed=0, **given)


@pytest.mark.slow  # quickly, all methods on it in test_methods.py
@pytest.mark.parametrize("epsilon_rel", [0.3, 1.0, 2.0])
def test_the_posterior_is_the_closed_form(epsilon_rel):
    posterior = fitted(epsilon_rel)
    means, ratios = errors(posterior, epsilon_rel)
    assert abs(means).max() < 0.01, means
    assert abs(ratios - 1).max() < 0.01, ratios
    assert posterior.engine == "gaussian-vi(relaxed)"
    assert posterior.notes == ()


LEARNED = Learned()


@pytest.fixture(scope="module")
def averaged():
    """A problem with an error of the equation, and its posterior over all values of epsilon."""
    problem = source_problem(model_error=3.0)
    return problem, averaged_posterior(problem, LEARNED.scales())


@pytest.mark.slow
def test_a_learned_epsilon_is_averaged_over(averaged):
    """By quadrature of the density."""
    problem, (mean, sd) = averaged
    engine = pair("gaussian-vi(relaxed)", epsilon_rel=LEARNED)
    density = engine.density.prepare(problem, engine.method, Work()).target.density
    axis = np.linspace(-8, 8, 61)
    grid = mean + np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2) * sd
    logs = np.asarray(jax.jit(lambda places: jax.lax.map(density, places))(jnp.asarray(grid)))
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    found = weights @ grid
    spread = np.sqrt(weights @ (grid - found) ** 2)
    assert abs((found - mean) / sd).max() < 0.01
    assert abs(spread / sd - 1).max() < 0.01


@pytest.mark.slow
def test_q_of_a_learned_epsilon_is_corrected_by_its_weights(averaged):
    """Tails are longer than those of a normal distribution, of which the nearest is too narrow."""
    _, (mean, sd) = averaged
    posterior = fitted(LEARNED, 3.0)
    check = importance_check(posterior, num_draws=8000)
    shift, ratio = (check.mean - mean) / sd, check.sd / sd
    assert abs(shift).max() < 0.01, shift
    assert abs(ratio - 1).max() < 0.03, ratio
    assert np.sqrt(np.diag(posterior.coordinate_covariance())).max() < sd.max()
    (note,) = (note for note in posterior.notes if note.code == "epsilon_range")
    assert note.values["low"] < 3.0 < note.values["high"]


@pytest.mark.slow
def test_chains_sample_the_posterior_over_all_values_of_epsilon(averaged):
    problem, (mean, sd) = averaged
    engine = pair("mcmc(relaxed)", epsilon_rel=LEARNED, num_warmup=100, num_samples=500)
    posterior = engine.run(problem, seed=0)
    assert [note.code for note in posterior.notes] == ["epsilon_range"]
    assert abs((np.asarray(posterior.coordinate_mean()) - mean) / sd).max() < 0.1
    ratio = np.sqrt(np.diag(posterior.coordinate_covariance())) / sd
    assert abs(ratio - 1).max() < 0.1, ratio


@pytest.mark.slow  # quickly: fits that are stopped, in the command's tests
@pytest.mark.parametrize(("epsilon_rel", "model_error"), [(1.0, 1.0), (LEARNED, 3.0)])
def test_a_fit_that_is_stopped_after_each_step_goes_on_to_the_same_q(
    epsilon_rel, model_error, tmp_path
):
    again, stops = stopped_and_resumed(
        lambda checkpoint: fit(epsilon_rel, model_error, checkpoint=checkpoint),
        tmp_path / "checkpoint",
    )
    assert stops > 2
    check_same(again, fitted(epsilon_rel, model_error))


@pytest.mark.slow
def test_a_wrong_equation_leaves_predictions_uncertain_away_from_the_sensors():
    prediction = predict(fitted(2.0), "u", num_draws=100)
    trusted = predict(fitted(0.3), "u", num_draws=100)
    assert np.mean(prediction.sd) > 1.3 * np.mean(trusted.sd)


def permeability(likelihood):
    return inverse_problem(
        rectangle((3, 3)),
        diffusion("a") - source(10.0),
        latents={"a": dist.LogNormal(0.0, 0.5)},
        observations=observations([[0.3, 0.4], [0.7, 0.6]], [0.5, 0.6]),
        likelihood=likelihood,
        dirichlet={"left": 0.0},
    )


def test_noise_that_is_not_normal_is_refused():
    with pytest.raises(RieszError, match="relaxed needs independent normal noise"):
        pair("gaussian-vi(relaxed)").check(permeability(StudentT(0.1)))
