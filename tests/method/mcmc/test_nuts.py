"""The kernel nuts against a posterior known in closed form, and what it costs and warns of."""

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from tests.linear_gaussian import exact_posterior, known_posterior, linear_problem
from tests.pairs import pair
from tests.stopping import check_same, stopped_and_resumed

from riesz.density.exact import ExactDensity
from riesz.errors import RieszError, SolveError
from riesz.fem.linear import host_lu
from riesz.fem.linear.linear_solve import Dense, SparseLU
from riesz.fem.terms.weakform import advection, diffusion, source
from riesz.mesh.shapes import rectangle
from riesz.method.mcmc import diagnostics
from riesz.method.mcmc.diagnostics import sampler_warnings
from riesz.method.mcmc.nuts import draw_starts, shrink_correlations
from riesz.notes import Note
from riesz.observe.likelihood import Gaussian
from riesz.observe.observations import observations
from riesz.posterior.checks import Limits
from riesz.problem.posing import inverse_problem

# One warm-up and solver everywhere: each is a compilation. That the densities by dense and sparse
# solves are one is tested below; on few nodes the dense ones take less time.
SHORT = pair("mcmc", kernel="nuts", num_warmup=100, num_chains=2, linear_solver=Dense())


def three_hundred(**given):
    return SHORT.with_settings(num_samples=300).run(linear_problem(), seed=1, **given)


@pytest.fixture(scope="module")
def sampled():
    return three_hundred()


def test_a_linear_gaussian_posterior_is_met_within_monte_carlo_error(sampled):
    mean, covariance = known_posterior()
    sd = np.sqrt(np.diag(covariance))
    effective = np.asarray(sampled.history["effective_draws"])
    errors = (np.asarray(sampled.coordinate_mean()) - mean) / sd
    assert (abs(errors) < 3 / np.sqrt(effective)).all(), errors
    ratios = np.sqrt(np.diag(sampled.coordinate_covariance())) / sd
    assert (abs(ratios - 1) < 3 / np.sqrt(2 * effective)).all(), ratios


def test_the_chains_agree_and_every_gradient_is_counted(sampled):
    history = sampled.history
    assert sampled.notes == ()
    assert (history["r_hat"] < 1.01).all()
    assert not history["diverging"].any()
    assert sampled.distribution.by_chain.shape == (2, 300, 3)
    assert history["num_gradients"] > history["num_steps"].sum() >= 600


@pytest.fixture(scope="module")
def from_itself(sampled):
    """A warm-up in which nothing but the step size is found; after one that adapts the mass."""
    engine = SHORT.with_settings(num_samples=300, start=exact_posterior())
    return engine.run(linear_problem())


@pytest.mark.slow
def test_from_a_posterior_the_same_one_is_met(from_itself):
    mean, covariance = known_posterior()
    sd = np.sqrt(np.diag(covariance))
    effective = np.asarray(from_itself.history["effective_draws"])
    errors = (np.asarray(from_itself.coordinate_mean()) - mean) / sd
    assert (abs(errors) < 3 / np.sqrt(effective)).all(), errors


@pytest.mark.slow
def test_a_gaussian_whitened_by_its_own_covariance_takes_the_steps_of_a_standard_one(from_itself):
    """Its trajectories turn after half a period: a few steps of about one."""
    assert from_itself.history["step_size"].min() > 0.5
    assert from_itself.history["num_steps"].max() <= 7


def test_a_covariance_of_fewer_draws_than_unknowns_is_made_regular():
    draws = np.random.default_rng(0).normal(size=(5, 20))
    singular = jnp.cov(draws, rowvar=False)
    found = shrink_correlations(singular, 5)
    np.testing.assert_allclose(np.diag(found), np.diag(singular))
    assert np.linalg.eigvalsh(found)[0] > 0.5 * np.diag(singular).min()


def test_the_log_density_told_is_that_of_the_posterior_up_to_a_constant(sampled):
    mean, covariance = known_posterior()
    offsets = np.asarray(sampled.distribution.all()) - mean
    exact = -0.5 * np.einsum("di,ij,dj->d", offsets, np.linalg.inv(covariance), offsets)
    constant = np.asarray(sampled.history["log_density"]).ravel() - exact
    np.testing.assert_allclose(constant, constant[0], rtol=1e-8)


@pytest.mark.slow
def test_chains_that_are_stopped_go_on_to_the_same_draws(sampled, tmp_path):
    again, stops = stopped_and_resumed(
        lambda checkpoint: three_hundred(checkpoint=checkpoint), tmp_path / "checkpoint", blocks=5
    )
    assert stops == 3  # of sixteen blocks
    check_same(again, sampled)


def test_chains_that_disagree_are_told(monkeypatch):
    monkeypatch.setattr(diagnostics, "EFFECTIVE_DRAWS", Limits(0, 0))
    monkeypatch.setattr(diagnostics, "R_HAT", Limits(0.5, 0.5))
    short = SHORT.with_settings(num_samples=4, num_chains=1).run(linear_problem())
    note = short.notes[0]
    assert note.code == "r_hat"
    assert note.values["unknown"].startswith("w[")
    assert note.values["limit"] == 0.5


@pytest.mark.slow
def test_chains_start_apart_where_there_is_a_density():
    def on_one_side(place):
        return bool(place[0] > -0.5)

    key = jax.random.key(0)
    starts = np.asarray(draw_starts(on_one_side, None, 8, key, 2))
    assert (starts[:, 0] > -0.5).all()
    assert starts.std(axis=0).min() > 0.4
    known = exact_posterior().distribution
    around = np.asarray(draw_starts(lambda place: True, known, 400, key, 3))
    mean, covariance = known_posterior()
    ratio = (around - mean).std(axis=0) / np.sqrt(np.diag(covariance))
    assert (abs(ratio - 2) < 0.3).all(), ratio
    given = draw_starts(on_one_side, jnp.ones(2), 3, key, 2)
    np.testing.assert_array_equal(given, np.ones((3, 2)))


def test_chains_that_lie_apart_are_told_to_be_looked_at_one_by_one():
    apart = {"r_hat": jnp.array([1.0, 2.0]), "effective_draws": jnp.array([500.0, 500.0])}
    (note,) = sampler_warnings({"diverging": jnp.zeros((4, 200), bool), **apart}, ("a", "b"))
    assert note == Note("chains_apart", value=2.0, unknown="b", limit=1.01)


def test_few_draws_in_the_tails_are_told():
    found = {name: jnp.array([500.0]) for name in ("effective_draws", "tail_draws")}
    history = {"diverging": jnp.zeros((2, 2), bool), "r_hat": jnp.array([1.0])} | found
    assert sampler_warnings(history, ("a",)) == ()
    (note,) = sampler_warnings(history | {"tail_draws": jnp.array([50.0])}, ("a",))
    assert note == Note("tail_draws", value=50.0, unknown="a", limit=100)


def test_divergences_are_told():
    agreed = {"r_hat": jnp.array([1.0]), "effective_draws": jnp.array([500.0])}
    history = {"diverging": jnp.array([[True, False]]), **agreed}
    (note,) = sampler_warnings(history, ("a",))
    assert note == Note("divergences", count=1, total=2)


def test_few_effective_draws_and_too_few_to_tell_are_told():
    calm = {"diverging": jnp.array([[False, False]])}
    few = {"r_hat": jnp.array([1.0, 1.0]), "effective_draws": jnp.array([500.0, 25.0])}
    (note,) = sampler_warnings(calm | few, ("a", "b"))
    assert note == Note("effective_draws", value=25.0, error=0.2, unknown="b", limit=100)
    (note,) = sampler_warnings(calm, ("a", "b"))
    assert note == Note("too_few_draws")


@pytest.fixture(scope="module")
def transport():
    """An unsymmetric matrix that depends on the unknowns."""
    return inverse_problem(
        rectangle((6, 6)),
        diffusion("a") + advection("tau") - source(10.0),
        latents={"a": dist.LogNormal(0.0, 1.0), "tau": dist.Normal(jnp.zeros(2), 5.0)},
        observations=observations([[0.3, 0.4], [0.7, 0.6]], [0.5, 0.6]),
        likelihood=Gaussian(0.05),
        dirichlet={"boundary": 0.0},
    )


@lru_cache
def gradient(problem, solver):
    density = ExactDensity(problem, solver)
    return jax.jit(jax.value_and_grad(lambda c: density(c)))  # noqa: PLW0108 (a module is none)


@pytest.mark.slow
def test_a_gradient_costs_one_sparse_factorisation(transport, monkeypatch):
    calls = []
    factorise = host_lu.factorise
    monkeypatch.setattr(host_lu, "factorise", lambda *a: (calls.append(1), factorise(*a))[1])
    for i in range(4):
        jax.block_until_ready(gradient(transport, SparseLU())(jnp.array([0.1, 0.2, 0.3 + i])))
    assert len(calls) == 4


def test_dense_and_sparse_solves_give_one_density_and_gradient(transport):
    place = jnp.array([0.3, -0.2, 0.5])
    (dense, sparse) = (gradient(transport, solver)(place) for solver in (Dense(), SparseLU()))
    np.testing.assert_allclose(dense[0], sparse[0], rtol=1e-10)
    np.testing.assert_allclose(dense[1], sparse[1], rtol=1e-8)


def test_where_there_is_no_solution_the_density_is_nan_and_nothing_stops(transport):
    density, _ = gradient(transport, SparseLU())(jnp.array([1e4, 0.0, 0.0]))
    assert np.isnan(density)


def test_float32_is_refused_with_the_line_to_add():
    problem = inverse_problem(
        rectangle((2, 2)),
        diffusion("a") - source(1.0),
        latents={"a": dist.LogNormal(0.0, 1.0)},
        observations=observations([[0.5, 0.5]], [0.5]),
        likelihood=Gaussian(0.1),
        dirichlet={"left": 0.0},
        dtype=jnp.float32,
    )
    with pytest.raises(SolveError, match="jax_enable_x64"):
        pair("mcmc", kernel="nuts").run(problem)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_samples": 0}, "num_samples of mcmc is 0: give a whole number"),
        ({"start": jnp.zeros(2)}, "start has shape"),
        ({"start": jnp.full(3, 1e308)}, "NaN or infinite"),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(RieszError, match=message):
        SHORT.with_settings(**settings).run(linear_problem())
