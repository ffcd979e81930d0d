"""The density surrogate for equations in time: against marches, closed forms and refusals."""

import dataclasses

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import pytest
from tests.pairs import pair
from tests.stopping import check_same, stopped_and_resumed

import riesz as rz
from riesz.density.surrogate import rounds
from riesz.errors import RieszError
from riesz.io.store.posterior import load_posterior, save_posterior
from riesz.problem.posing import with_observations

NOISE = 0.03
PLACES, WHEN = np.array([0.2, 0.5, 0.7]), np.array([0.03, 0.12, 0.3, 0.5])
POINTS, DATED = np.tile(PLACES, len(WHEN)), np.repeat(WHEN, len(PLACES))
SMALL = pair(
    "gaussian-vi(surrogate)",
    features=24,
    num_bends=4,
    num_patches=2,
    readout_batches=8,
    refining_draws=128,
)


def heat(form=None, **changed):
    """Heat on an interval, with an initial state and a source to be found."""
    given = {
        "latents": {
            "start": rz.KarhunenLoeve(rz.Matern32(0.3), num_terms=4),
            "f": dist.Normal(0.5, 1.0),
        },
        "dirichlet": {"boundary": 0.0},
        "observations": rz.observations(POINTS, np.zeros(len(POINTS)), times=DATED),
        "likelihood": rz.Gaussian(NOISE),
        "times": np.linspace(0, 0.5, 11),
        "initial": "start",
    }
    form = rz.storage(1.0) + rz.diffusion(0.2) - rz.source("f") if form is None else form
    domain = rz.hierarchy(rz.interval(4), 2)
    return rz.inverse_problem(domain, form, **(given | changed))


def with_data(problem, seed):
    rng = np.random.default_rng(seed)
    truth = jnp.asarray(rng.normal(size=problem.num_coordinates))
    seen = np.asarray(problem.operator @ problem.state(truth))
    values = seen + NOISE * rng.normal(size=len(seen))
    observed = rz.observations(POINTS, values, times=DATED)
    return with_observations(problem, observed, rz.Gaussian(NOISE))


def largest_gap(problem, posterior):
    """Between records of the surrogate and of marches, by the noise."""
    draws = posterior.sample(jr.key(1), 3)
    records = posterior.states(problem, jr.key(0), draws)
    exact = np.stack([np.asarray(problem.state(one)) for one in draws])
    return np.abs(np.asarray(records) - exact).max() / NOISE


WARMING = rz.series([0.0, 0.25], [0.0, 2.0], kind="linear")
CASES = {
    "an initial state": {},
    "steps of many lengths, by Euler": {
        "times": np.array([0.0, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5]),
        "scheme": "euler",
    },
    "a steady state to begin with": {
        "latents": {"f": dist.Normal(0.5, 1.0), "left": dist.Normal(0.0, 1.0)},
        "dirichlet": {"left": "left", "right": WARMING},
        "initial": rz.fem.SteadyState(),
    },
    "a diffusivity that changes and no value prescribed": {
        "form": rz.storage(1.0) + rz.diffusion(rz.series([0.0, 0.2], [0.2, 0.4])) - rz.source("f"),
        "dirichlet": {},
        "times": np.linspace(0, 0.5, 6),
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_functions_that_make_all_states_make_the_march(case):
    """More functions of place than nodes, all unknowns linear: only rounding is left."""
    problem = with_data(heat(**CASES[case]), 0)
    posterior = SMALL.run(problem, seed=0)
    assert largest_gap(problem, posterior) < 1e-3
    exact = rz.inference.assimilate(problem).posterior().distribution
    sd = np.sqrt(np.asarray(exact.variances()))
    shift = np.asarray(posterior.coordinate_mean() - exact.mean) / sd
    assert np.abs(shift).max() < 0.02
    ratio = np.sqrt(np.diag(np.asarray(posterior.coordinate_covariance()))) / sd
    np.testing.assert_allclose(ratio, 1, atol=0.02)


@pytest.mark.slow
def test_a_fit_in_time_that_is_stopped_goes_on_to_the_same_posterior(tmp_path, monkeypatch):
    monkeypatch.setattr(rounds, "SETTLED", 0.0)  # sums of rounds are kept as well
    monkeypatch.setattr(rounds, "PATIENCE", 1)
    problem, engine = with_data(heat(), 0), SMALL.with_settings(rounds=6)

    def fit(**kept):
        return engine.run(problem, seed=0, **kept)

    posterior = fit()
    again, stops = stopped_and_resumed(
        lambda checkpoint: fit(checkpoint=checkpoint), tmp_path / "checkpoint", 3
    )
    assert stops == 2
    check_same(again, posterior)
    save_posterior(tmp_path / "run", posterior)
    check_same(load_posterior(tmp_path / "run", problem), posterior)


@pytest.mark.slow
def test_single_precision_is_enough_for_a_problem_in_time():
    exact = with_data(heat(), 0)
    problem = heat(observations=exact.observations, dtype=jnp.float32)
    posterior = SMALL.run(problem, seed=0)
    draws = posterior.sample(jr.key(1), 3)
    assert draws.dtype == jnp.float32
    records = np.asarray(posterior.states(problem, jr.key(0), draws))
    marched = [np.asarray(exact.state(one)) for one in draws.astype(float)]
    assert np.abs(records - np.stack(marched)).max() < 0.02 * NOISE


@pytest.mark.slow
def test_ten_posteriors_of_an_initial_state_are_exact():
    """On 33 nodes with 30 steps, eight terms of the initial state and a source."""
    latents = {
        "start": rz.KarhunenLoeve(rz.Matern32(0.3), num_terms=8),
        "f": dist.Normal(0.5, 1.0),
    }
    blank = rz.inverse_problem(
        rz.hierarchy(rz.interval(8), 3),
        rz.storage(1.0) + rz.diffusion(0.2) - rz.source("f"),
        latents=latents,
        dirichlet={"boundary": 0.0},
        observations=rz.observations(POINTS, np.zeros(len(POINTS)), times=DATED),
        likelihood=rz.Gaussian(NOISE),
        times=np.linspace(0, 0.5, 31),
        initial="start",
    )
    worst = []
    for seed in range(10):
        problem = with_data(blank, seed)
        posterior = pair("gaussian-vi(surrogate)").run(problem, seed=seed)
        exact = rz.inference.assimilate(problem).posterior().distribution
        sd = np.sqrt(np.asarray(exact.variances()))
        worst.append(np.abs(np.asarray(posterior.coordinate_mean() - exact.mean) / sd).max())
        ratio = np.sqrt(np.diag(np.asarray(posterior.coordinate_covariance()))) / sd
        np.testing.assert_allclose(ratio, 1, atol=0.05)
    assert max(worst) < 0.1
    assert np.median(worst) < 0.05


@pytest.mark.slow
def test_the_history_of_a_point_source_beside_an_unknown_number():
    knots, places = np.linspace(0, 1, 4), np.array([[0.25, 0.5], [0.6, 0.7], [0.7, 0.3]])
    when = np.array([0.2, 0.4, 0.6, 0.8, 1.0])
    points, dated = np.tile(places, (len(when), 1)), np.repeat(when, len(places))

    def posed(values):
        released = rz.series(knots, "q", kind="linear")
        return rz.inverse_problem(
            rz.hierarchy(rz.rectangle((4, 4)), 2),
            rz.storage(1.0) + rz.diffusion("k") - rz.point_source([[0.4, 0.6]], released),
            latents={
                "k": dist.LogNormal(np.log(0.1), 0.5),
                "q": rz.priors.process_in_time(rz.Matern32(0.3), knots, mean=2.0),
            },
            dirichlet={"boundary": 0.0},
            observations=rz.observations(points, values, times=dated),
            likelihood=rz.Gaussian(0.01),
            times=np.linspace(0, 1, 11),
            initial=0.0,
        )

    blank, rng = posed(np.zeros(len(points))), np.random.default_rng(0)
    truth = jnp.asarray(rng.normal(size=blank.num_coordinates))
    seen = np.asarray(blank.operator @ blank.state(truth))
    problem = posed(seen + 0.01 * rng.normal(size=len(seen)))
    posterior = pair("gaussian-vi(surrogate)").run(problem, seed=0)
    exact = rz.fit(problem, pair("laplace(marginal)", num_draws=4000), seed=0, progress=False)
    sd = np.sqrt(np.diag(np.asarray(exact.coordinate_covariance())))
    shift = np.asarray(posterior.coordinate_mean() - exact.coordinate_mean()) / sd
    assert np.abs(shift).max() < 0.1
    ratio = np.sqrt(np.diag(np.asarray(posterior.coordinate_covariance()))) / sd
    np.testing.assert_allclose(ratio, 1, atol=0.05)


def test_what_cannot_be_emulated_in_time_is_refused_before_any_work():
    form = rz.storage(1.0) + rz.diffusion(lambda x, z, u, grad: 0.2 + u**2) - rz.source("f")
    with pytest.raises(RieszError, match="linear in the state, and this one is not"):
        pair("gaussian-vi(surrogate)").check(heat(form))
    problem = heat()
    with pytest.raises(RieszError, match="hierarchy"):
        pair("gaussian-vi(surrogate)").check(dataclasses.replace(problem, hierarchy=None))
    ends = np.append(0.0, np.cumsum(1.01 ** np.arange(400)))
    with pytest.raises(RieszError, match="different steps"):
        pair("gaussian-vi(surrogate)").check(heat(times=ends / ends[-1]))
