"""Inverse problems whose states are quadratic in each cell."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from tests.pairs import pair

import riesz as rz

SITES = np.random.default_rng(0).uniform(0.1, 0.9, size=(12, 2))
TRUTH = 2.0


def solution(x):
    return np.sin(np.pi * x[:, 0]) * np.sin(2 * np.pi * x[:, 1])


def strength(x):
    return 5 * jnp.pi**2 * TRUTH * jnp.sin(jnp.pi * x[0]) * jnp.sin(2 * jnp.pi * x[1])


def posed(space, seen=None):
    """The diffusivity of a solution that is known, from its values without any noise."""
    return rz.inverse_problem(
        space,
        rz.diffusion("a") - rz.source(strength),
        latents={"a": dist.LogNormal(0.7, 0.5)},
        observations=rz.observations(SITES, solution(SITES)) if seen is None else seen,
        likelihood=rz.Gaussian(0.02),
        dirichlet={"boundary": 0.0},
    )


COORDINATES = jnp.linspace(-1.0, 1.0, 401)[:, None]


def mean(log_prob, values):
    """Of the one unknown, by a sum over its coordinate."""
    weights = jnp.exp(log_prob - log_prob.max())
    return float(weights @ values / weights.sum())


def mean_of(problem):
    log_prob = jax.jit(lambda xs: jax.lax.map(problem.log_prob, xs))(COORDINATES)
    return mean(log_prob, jax.vmap(problem.z)(COORDINATES)["a"])


def exact_mean():
    """The state is the known solution times the true diffusivity by another."""
    values = jnp.exp(0.7 + 0.5 * COORDINATES)
    misfit = jnp.sum((solution(SITES)[None] * (TRUTH / values - 1) / 0.02) ** 2, axis=1)
    return mean(-(misfit + COORDINATES[:, 0] ** 2) / 2, values[:, 0])


@pytest.mark.slow
def test_few_quadratic_cells_give_the_posterior_mean():
    assert abs(mean_of(posed(rz.P2(rz.rectangle((6, 6))))) - exact_mean()) < 5e-3 * TRUTH


@pytest.mark.slow
def test_of_linear_cells_it_takes_many():
    coarse, fine = (mean_of(posed(rz.rectangle((count, count)))) for count in (6, 48))
    assert abs(fine - exact_mean()) < 5e-3 * TRUTH
    assert abs(coarse - exact_mean()) > 5e-2 * TRUTH


@pytest.mark.slow
def test_a_field_in_a_quadratic_problem_is_fitted_mapped_and_kept(tmp_path):
    mesh = rz.rectangle((4, 4))
    problem = rz.inverse_problem(
        rz.P2(mesh),
        rz.diffusion("a") - rz.source(rz.nodal(1 + mesh.nodes[:, 0])),
        latents={"a": rz.priors.LogGP(rz.priors.Matern52(0.5), inducing=3)},
        observations=rz.observations(SITES, np.full(len(SITES), 0.05)),
        likelihood=rz.Gaussian(0.01),
        dirichlet={"boundary": 0.0},
    )
    posterior = rz.fit(problem, "laplace", progress=False, check=False)
    everywhere = rz.predict(posterior, "u", num_draws=20)
    corners = rz.predict(posterior, "u", at=mesh.nodes[6:8], num_draws=20)
    assert everywhere.mean.shape == (mesh.num_nodes,)
    np.testing.assert_allclose(corners.mean, everywhere.mean[6:8])
    rz.io.save_posterior(tmp_path / "posterior", posterior)
    again = rz.io.load_posterior(tmp_path / "posterior", problem)
    np.testing.assert_allclose(again.distribution.mean, posterior.distribution.mean)


@pytest.mark.slow
def test_slopes_of_a_quadratic_state_are_exact():
    direction = np.array([0.6, 0.8])
    seen = rz.observations(rz.observe.GradientAt(SITES, direction), np.zeros(len(SITES)))
    problem = posed(rz.P2(rz.rectangle((3, 3))), seen)
    x, y = problem.forward.space.points.T
    state = jnp.asarray(x * x - 2 * x * y + 3 * y)
    slopes = np.stack([2 * SITES[:, 0] - 2 * SITES[:, 1], 3 - 2 * SITES[:, 0]], axis=1)
    predicted = problem.predict(state, problem.z(jnp.zeros(1)))
    np.testing.assert_allclose(predicted, slopes @ direction)


def test_a_problem_in_words_says_that_its_cells_are_quadratic():
    problem = posed(rz.P2(rz.rectangle((3, 3))))
    assert "16 nodes, 18 quadratic triangles" in problem.describe()


@pytest.mark.parametrize(
    "engine",
    [
        pair("gaussian-vi(surrogate)"),
        pair("gaussian-vi(relaxed)"),
        rz.Amortise(),
    ],
    ids=lambda one: one.name,
)
def test_engines_with_states_at_nodes_refuse_quadratic_cells(engine):
    with pytest.raises(rz.RieszError, match=r"linear in each cell, and these are quadratic: use"):
        engine.check(posed(rz.P2(rz.rectangle((3, 3)))))
