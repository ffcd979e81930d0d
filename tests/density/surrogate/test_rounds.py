"""The density surrogate: right posteriors without a solve, in any precision, and guarded."""

import dataclasses
from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import pytest
from tests.pairs import pair
from tests.stopping import check_same, stopped_and_resumed

import riesz as rz
from riesz.density.surrogate import rounds
from riesz.density.surrogate.least_squares import gauss_newton_readout, normal_equations
from riesz.density.surrogate.rounds import REACH, SETTLED, interpolate_gaussians, localise, reach
from riesz.density.surrogate.start import (
    default_penalty,
    equation_inputs,
    fitting_batches,
    initial_surrogate,
    surrogate_at_sensors,
)
from riesz.density.surrogate.surrogate import check_capacity
from riesz.density.surrogate.variational import match_normals
from riesz.errors import EngineError, RieszError
from riesz.method.training import TrainingError, train
from riesz.posterior.family import full_rank_of

KEY = jr.key(5)
ENGINE = pair(
    "gaussian-vi(surrogate)",
    features=32,
    num_bends=8,
    num_patches=2,
    patch_nodes=25,
    readout_batches=20,
    refining_draws=256,
)


@pytest.fixture(scope="module")
def problem():
    """Transport on 9^2 nodes with two unknowns."""
    rng = np.random.default_rng(3)
    hierarchy = rz.hierarchy(rz.rectangle((4, 4)), 2)
    equation = rz.diffusion(1.0) + rz.advection("tau") - rz.source(1.0)
    points = rng.uniform(0.1, 0.9, (20, 2))
    forward = rz.boundary_value_problem(rz.P1(hierarchy.meshes[-1]), equation, {"boundary": 0.0})
    truth = rz.solve(forward, {"tau": jnp.asarray([2.0, -1.0])})
    clean = np.asarray(rz.fem.point_operator(forward.space, points) @ truth)
    noise = 0.02 * clean.max()
    return rz.inverse_problem(
        hierarchy,
        equation,
        latents={"tau": dist.Normal(0.0, 3.0).expand([2])},
        dirichlet={"boundary": 0.0},
        observations=rz.observations(points, clean + noise * rng.normal(size=20)),
        likelihood=rz.Gaussian(float(noise)),
    )


@pytest.fixture(scope="module")
def posterior(problem):
    return ENGINE.run(problem, seed=1)


def exact_moments(problem, near):
    """Mean and covariance by a grid of exact solves around a Gaussian."""
    sd = np.sqrt(np.diag(np.asarray(near.covariance())))
    axis = np.linspace(-5, 5, 21)
    grid = np.asarray(near.mean) + np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2) * sd
    logs = np.asarray(jax.jit(lambda g: jax.lax.map(problem.log_prob, g))(jnp.asarray(grid)))
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    mean = weights @ grid
    return mean, (grid - mean).T @ (weights[:, None] * (grid - mean))


def test_the_posterior_is_the_exact_one(problem, posterior):
    q = posterior.distribution
    mean, covariance = exact_moments(problem, q)
    sd = np.sqrt(np.diag(covariance))
    assert np.abs((np.asarray(q.mean) - mean) / sd).max() < 0.1
    ratios = np.sqrt(np.diag(np.asarray(q.covariance()))) / sd
    assert np.abs(ratios - 1).max() < 0.05, ratios


@pytest.fixture(scope="module")
def draws_and_states(problem, posterior):
    draws = posterior.sample(jr.key(0), 3)
    return draws, posterior.states(problem, jr.key(1), draws)


def test_its_states_are_those_of_exact_solves(problem, draws_and_states):
    draws, states = draws_and_states
    exact = jnp.stack([problem.state(one) for one in draws])
    assert jnp.linalg.norm(states - exact) < 0.01 * jnp.linalg.norm(exact)


def test_rounds_give_the_data_their_weight_bit_by_bit_until_nothing_moves(posterior):
    history = {name: np.asarray(curve) for name, curve in posterior.history.items()}
    assert (np.diff(history["share"]) >= 0).all()
    assert history["share"][0] < 0.5
    assert history["share"][-1] == 1.0
    assert history["moved"][-1] < SETTLED
    assert history["physics"][-1] < 1e-3
    assert posterior.notes == ()


@pytest.mark.slow
def test_rounds_that_are_stopped_go_on_to_the_same_posterior(problem, posterior, tmp_path):
    again, stops = stopped_and_resumed(
        lambda checkpoint: ENGINE.run(problem, seed=1, checkpoint=checkpoint),
        tmp_path / "checkpoint",
    )
    assert stops == len(posterior.history["share"]) > 2
    check_same(again, posterior)


@pytest.mark.slow
def test_rounds_that_grow_and_add_up_go_on_to_the_same_posterior(problem, tmp_path, monkeypatch):
    monkeypatch.setattr(rounds, "HIDDEN_BY_NOISE", 0.0)  # nothing is good enough
    monkeypatch.setattr(rounds, "LARGEST", 1000)
    monkeypatch.setattr(rounds, "SETTLED", 0.0)
    monkeypatch.setattr(rounds, "PATIENCE", 1)
    engine = ENGINE.with_settings(rounds=8)

    def fit(**given):
        return engine.run(problem, seed=1, **given)

    posterior = fit()
    added = []

    def counted(checkpoint):
        kept = checkpoint.restore("rounds")
        added.append(kept is not None and kept["sums"] is not None)
        return fit(checkpoint=checkpoint)

    again, stops = stopped_and_resumed(counted, tmp_path / "checkpoint")
    assert stops == 8
    assert sum(added) > 1
    assert posterior.states.surrogate.network.readout.shape[1] == 64  # from 32
    check_same(again, posterior)


def test_a_posterior_that_has_not_settled_is_told(problem):
    with pytest.warns(UserWarning, match="has not settled|leaves .* of the equation") as told:
        posterior = rz.fit(problem, ENGINE.with_settings(rounds=1), check=False, progress=False)
    assert posterior.notes[0].code == "emulate_unsettled"
    assert posterior.notes == tuple(one.message.note for one in told)
    assert str(told[0].message).startswith("gaussian-vi(surrogate): ")


@pytest.mark.slow
def test_functions_around_a_place_take_over_what_was_there(problem):
    """As closely as linear functions and bends can: exactly on few draws."""
    surrogate = initial_surrogate(problem, jr.key(0), width=8, features=8)
    draws = jr.normal(jr.key(1), (10, 2))
    moved = localise(surrogate, draws, 8, jr.key(2))
    for one in draws:
        np.testing.assert_allclose(
            surrogate_at_sensors(problem, moved, one),
            surrogate_at_sensors(problem, surrogate, one),
            atol=1e-6,
        )


def many_unknowns(count: int):
    """A source whose strength is a sum of so many unknowns."""
    return rz.inverse_problem(
        rz.hierarchy(rz.rectangle((2, 2)), 2),
        rz.diffusion(1.0) - rz.source(lambda x, z: jnp.sum(z["f"])),
        latents={"f": dist.Normal(0.0, 1.0).expand([count])},
        dirichlet={"boundary": 0.0},
        observations=rz.observations([[0.5, 0.5]], [0.1]),
        likelihood=rz.Gaussian(0.01),
    )


def is_taken(count: int) -> bool:
    try:
        pair("gaussian-vi(surrogate)").check(many_unknowns(count))
    except RieszError:
        return False
    return True


def test_tens_of_unknowns_are_taken_and_hundreds_are_not():
    assert [is_taken(count) for count in (20, 64, 390)] == [True, True, False]


@pytest.mark.parametrize("count", [390, 1089])
def test_hundreds_of_unknowns_are_refused_before_any_work(count):
    problem = many_unknowns(count)
    with pytest.raises(RieszError, match="a surrogate cannot carry so many unknowns"):
        pair("gaussian-vi(surrogate)").check(problem)
    with pytest.raises(RieszError, match="a surrogate cannot carry so many unknowns"):
        pair("gaussian-vi(surrogate)").run(problem)


@pytest.mark.parametrize(
    ("settings", "advice"),
    [
        ({"refining_draws": 128}, "set refining_draws to 129 or more"),
        ({"readout_batches": 8}, "set readout_batches to 9 or more"),
    ],
)
def test_fixed_draws_that_leave_directions_out_are_refused(settings, advice):
    with pytest.raises(RieszError, match=f"has 128 draws for 64 unknowns .*{advice}"):
        pair("gaussian-vi(surrogate)", **settings).check(many_unknowns(64))


@pytest.mark.slow
def test_functions_of_place_are_tried_on_exact_states(problem, monkeypatch):
    """More functions than nodes leave nothing; four leave more than the noise."""
    check_capacity(problem, initial_surrogate(problem, jr.key(0), width=32, features=64), 8, KEY)
    few = initial_surrogate(problem, jr.key(0), width=8, features=4)
    monkeypatch.setattr("riesz.density.surrogate.surrogate.LARGEST", 1)  # no room for more
    with pytest.raises(RieszError, match=r"4 functions of place, .* Use the density exact"):
        check_capacity(problem, few, 8, KEY)


def test_a_matrix_without_a_factor_ends_with_advice(problem, monkeypatch):
    def broken(*_):
        raise np.linalg.LinAlgError("not positive definite")

    monkeypatch.setattr(rounds, "localise", broken)
    with pytest.raises(EngineError, match=r"has no factor .*use the density exact"):
        ENGINE.run(problem)


def test_reach_is_measured_along_the_axes_of_the_distribution_before():
    normals = match_normals(jr.key(0), 64, 2, np.dtype(float))
    factor = jnp.asarray([[2.0, 0.0], [1.0, 0.1]])
    before = full_rank_of(jnp.zeros(2), factor)
    after = full_rank_of(factor @ jnp.asarray([0.5, -3.0]), factor)
    found = reach(before, after, normals) * np.sqrt(64 / 63)  # of a sample's covariance
    np.testing.assert_allclose(found, 3.0, rtol=1e-10)
    assert found > REACH


def test_a_part_of_the_way_keeps_within_reach():
    normals = match_normals(jr.key(0), 64, 2, np.dtype(float))
    before, after = (
        full_rank_of(jnp.zeros(2), jnp.eye(2)),
        full_rank_of(10 * jnp.ones(2), jnp.eye(2)),
    )
    part = interpolate_gaussians(before, after, REACH / reach(before, after, normals))
    np.testing.assert_allclose(reach(before, part, normals), REACH, rtol=1e-10)


@pytest.mark.slow
def test_one_gauss_newton_step_lowers_the_penalty_of_a_fresh_network(problem):
    penalty = default_penalty(problem, ENGINE.density.with_settings(num_samples=8))
    surrogate = initial_surrogate(problem, jr.key(0), width=16, features=16)
    draws = jr.normal(jr.key(1), (30, 8, 2))
    stepped = gauss_newton_readout(problem, penalty, surrogate, jr.key(2), draws)
    zs = equation_inputs(problem, jr.normal(jr.key(3), (32, 2)))
    before, after = (
        float(np.mean([penalty(key, s, zs) for key in jr.split(jr.key(4), 5)]))
        for s in (surrogate, stepped)
    )
    assert after < 0.01 * before


@pytest.mark.slow  # quickly, the posterior that they lead to
def test_normal_equations_of_a_linear_problem_do_not_depend_on_the_readout_they_are_about(problem):
    """So that those of several rounds may be added."""
    penalty = default_penalty(problem, ENGINE.density)
    surrogate = initial_surrogate(problem, jr.key(0), width=8, features=6)
    bare = eqx.tree_at(lambda s: s.network.readout, surrogate, replace_fn=jnp.zeros_like)
    draws = jr.normal(jr.key(1), (2, 4, 2))
    here, there = (
        normal_equations(problem, penalty, one, jr.key(2), draws) for one in (surrogate, bare)
    )
    np.testing.assert_allclose(here.matrix, there.matrix, rtol=1e-10)
    np.testing.assert_allclose(
        here.gradient, there.gradient, atol=1e-10 * np.abs(there.gradient).max()
    )


def test_sensors_see_the_surrogate_as_they_see_exact_states(problem, posterior, draws_and_states):
    draws, states = draws_and_states
    seen = eqx.filter_jit(surrogate_at_sensors)(problem, posterior.states.surrogate, draws[0])
    np.testing.assert_allclose(seen, problem.operator @ states[0], rtol=1e-12)


def test_matched_draws_have_the_moments_of_a_standard_normal():
    draws = match_normals(jr.key(0), 64, 3, np.dtype(float))
    np.testing.assert_allclose(draws.mean(axis=0), jnp.zeros(3), atol=1e-12)
    np.testing.assert_allclose(draws.T @ draws / 64, jnp.eye(3), atol=1e-12)


def test_a_problem_without_a_hierarchy_is_refused(problem):
    flat = dataclasses.replace(problem, hierarchy=None)
    with pytest.raises(RieszError, match="hierarchy of meshes"):
        ENGINE.run(flat)


def falling(state, key, data):
    after = state - 1
    return after, {"height": jnp.log(after)}


def test_training_stops_at_the_step_and_term_that_broke_and_keeps_the_last_good_state():
    with pytest.raises(TrainingError, match=r"'height' became NaN or infinite at step 6") as error:
        train(
            falling,
            jnp.asarray(7.0),
            jr.key(0),
            None,
            num_steps=20,
            block_steps=5,
            label="x",
            progress=False,
        )
    assert error.value.state == 2.0


def standing(state, key, data):
    return state, {"height": state}


def test_training_stops_early_when_nothing_is_gained():
    _, history = train(
        standing,
        jnp.asarray(1.0),
        jr.key(0),
        None,
        num_steps=100,
        block_steps=5,
        label="x",
        progress=False,
        patience=3,
        watched="height",
    )
    assert len(history["height"]) == 20


@pytest.mark.parametrize(
    ("platform", "memory", "expected"),
    [
        ("cpu", 0, (4, 16, 48)),
        ("gpu", 140e9, (64, 256, 3)),
        ("gpu", 16e9, (16, 64, 12)),
        ("gpu", 0, (16, 64, 12)),
    ],
)
def test_batches_follow_the_device_and_its_memory(platform, memory, expected):
    device = SimpleNamespace(platform=platform, memory_stats=lambda: {"bytes_limit": memory})
    assert tuple(fitting_batches(device)) == expected


def test_batches_that_are_given_stay():
    assert tuple(rz.Surrogate(num_patches=2, readout_batches=5).batches()) == (2, 16, 5)
