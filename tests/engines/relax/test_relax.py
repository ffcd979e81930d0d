"""The engine relax against the posterior of the relaxed model in closed form."""

import dataclasses
from functools import lru_cache

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import pytest
from tests.source_strengths import averaged_posterior, errors, most_likely, source_problem
from tests.stopping import check_same, stopped_and_resumed

from riesz.engines.emulate.start import initial_surrogate
from riesz.engines.relax.engine import Relax, fit_relaxed
from riesz.engines.relax.schedule import Annealed, Learned
from riesz.engines.relax.training import objective_terms
from riesz.errors import RieszError
from riesz.fem.terms.weakform import diffusion, source
from riesz.mesh.shapes import rectangle
from riesz.observe.likelihood import Gaussian, StudentT
from riesz.observe.observations import observations
from riesz.penalty.penalty import exact_penalty
from riesz.posterior.family import full_rank
from riesz.prediction.predict import predict
from riesz.problem.posing import inverse_problem
from riesz.surrogate import surrogate

SHORT = Relax(
    surrogate="nodal",
    norm="exact",
    steps=40,
    block_steps=20,
    tail=0.5,
    num_samples=8,
    polishing_draws=8,
)


@lru_cache
def norm(problem):
    return exact_penalty(problem.forward)


@lru_cache
def nodal_fit(epsilon_rel, problem=None, engine=SHORT, **given):
    problem = source_problem(model_error=1.0) if problem is None else problem
    # With one penalty for all: what is compiled for it is shared.
    return fit_relaxed(
        problem, engine.with_settings(epsilon_rel=epsilon_rel), norm(problem), seed=0, **given
    )


@pytest.mark.slow  # quickly, what a wrong equation leaves uncertain, below
@pytest.mark.parametrize("epsilon_rel", [0.3, 1.0, 2.0])
def test_exact_norm_and_nodal_surrogate_reproduce_the_closed_form(epsilon_rel):
    means, ratios = errors(nodal_fit(epsilon_rel), epsilon_rel)
    assert abs(means).max() < 0.01, means
    assert abs(ratios - 1).max() < 0.01, ratios


@pytest.mark.slow
def test_learned_epsilon_is_the_most_likely_one_in_training_and_averaged_over_in_the_end():
    posterior = nodal_fit(Learned(), source_problem(model_error=3.0))
    found = float(posterior.history["epsilon_rel"][-1])
    assert abs(found / most_likely(posterior.problem) - 1) < 0.2
    mean, sd = averaged_posterior(posterior.problem, Learned().scales())
    shift = (np.asarray(posterior.coordinate_mean()) - mean) / sd
    ratio = np.sqrt(np.diag(posterior.coordinate_covariance())) / sd
    assert abs(shift).max() < 0.01, shift
    assert abs(ratio - 1).max() < 0.03, ratio


@pytest.mark.slow  # quickly: a value that is given
def test_annealing_ends_at_the_posterior_of_its_end_value():
    posterior = nodal_fit(Annealed(0.3, cycles=2))
    path = np.asarray(posterior.history["epsilon_rel"])
    np.testing.assert_allclose(path[[0, 10]], 1.0)
    np.testing.assert_allclose(path[20:], 0.3)
    means, ratios = errors(posterior, 0.3)
    assert abs(means).max() < 0.01, means
    assert abs(ratios - 1).max() < 0.01, ratios


@pytest.mark.slow  # quickly: fits that are stopped, in the command's tests
@pytest.mark.parametrize(("epsilon_rel", "model_error"), [(1.0, 1.0), (Learned(), 3.0)])
def test_training_that_is_stopped_after_each_block_goes_on_to_the_same_q(
    epsilon_rel, model_error, tmp_path
):
    problem = source_problem(model_error=model_error)
    again, stops = stopped_and_resumed(
        lambda checkpoint: nodal_fit(epsilon_rel, problem, checkpoint=checkpoint),
        tmp_path / "checkpoint",
    )
    assert stops > 2  # two blocks of training, and rounds of exact solves
    check_same(again, nodal_fit(epsilon_rel, problem))


@pytest.mark.slow
def test_the_terms_of_the_objective_are_told_apart_step_by_step():
    posterior = nodal_fit(1.0)
    assert posterior.engine == "relax"
    assert {*posterior.history} == {"misfit", "kl", "penalty", "epsilon_rel"}
    assert {len(curve) for curve in posterior.history.values()} == {40}


@pytest.mark.slow  # quickly: the polished q in test_polish.py
def test_a_wrong_equation_leaves_predictions_uncertain_away_from_the_sensors():
    prediction = predict(nodal_fit(2.0), "u", num_draws=100)
    trusted = predict(nodal_fit(0.3), "u", num_draws=100)
    assert np.mean(prediction.sd) > 1.3 * np.mean(trusted.sd)


@pytest.mark.slow
def test_training_that_makes_no_progress_stops_and_q_is_still_read_at_the_end():
    engine = SHORT.with_settings(steps=80, block_steps=20, tail=0.25, patience=1)
    posterior = nodal_fit(0.3, engine=engine)
    assert len(posterior.history["kl"]) < 80
    assert abs(errors(posterior, 0.3)[1] - 1).max() < 0.01


@pytest.mark.slow  # quickly: the posterior of its model
def test_the_gradient_of_the_penalty_reaches_q_and_the_surrogate():
    problem = source_problem()
    surrogate = initial_surrogate(problem, jr.key(0), width=4, features=4)
    normals, exact = jnp.array([[1.0, 0.5], [-1.0, -0.5]]), norm(problem)

    def penalty(moving):
        network, family = moving
        moved = dataclasses.replace(surrogate, network=network)
        terms = objective_terms(problem, exact, moved, family, jr.key(0), normals, jnp.ones(()))
        return terms.penalty

    moving = (surrogate.network, full_rank(2, jnp.float64))
    network, family = eqx.filter_jit(eqx.filter_grad(penalty))(moving)
    assert abs(network.readout).max() > 0
    assert abs(family.mean).max() > 0
    assert abs(family.log_diagonal).max() > 0


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
    with pytest.raises(RieszError, match="relax needs independent normal noise"):
        Relax().check(permeability(StudentT(0.1)))


def test_without_levels_a_penalty_is_asked_for():
    with pytest.raises(RieszError, match="relax works on mini-patches"):
        Relax().check(permeability(Gaussian(0.1)))


def test_a_nodal_surrogate_on_a_large_mesh_is_refused(monkeypatch):
    monkeypatch.setattr(surrogate, "LARGEST", 10)
    with pytest.raises(RieszError, match="63 free nodes needs too large a matrix"):
        nodal_fit(0.7)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon_rel", [0.3, 1.0])
def test_networks_on_mini_patches_come_close_to_the_closed_form(epsilon_rel):
    engine = Relax(epsilon_rel=epsilon_rel, steps=1000)
    posterior = engine.run(source_problem(model_error=1.0))
    means, ratios = errors(posterior, epsilon_rel)
    assert abs(means).max() < 0.15, means
    assert abs(ratios - 1).max() < 0.12, ratios
