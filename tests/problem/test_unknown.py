"""Boundary values that are not known: refused without a prior, inferred with one."""

import dataclasses
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from tests.pairs import pair

from riesz.errors import RieszError
from riesz.fem.assembly import dirichlet_values
from riesz.fem.terms.weakform import diffusion, reaction, source
from riesz.mesh.refinement import hierarchy
from riesz.mesh.shapes import rectangle
from riesz.observe.likelihood import Gaussian
from riesz.observe.observations import observations
from riesz.prediction.predict import predict
from riesz.priors.gaussian_process import GP, BoundaryGP
from riesz.priors.kernels import Matern52
from riesz.problem.posing import inverse_problem
from riesz.problem.unknowns import Unknown
from riesz.surrogate.surrogate import boundary_values

NOISE = 0.1
MESHES = hierarchy(rectangle((3, 3)), 2)
POINTS = np.random.default_rng(0).uniform(0.1, 0.9, (12, 2))


def posed(dirichlet, equation=None, latents=None):
    return inverse_problem(
        MESHES,
        diffusion(1.0) - source("f") if equation is None else equation,
        latents={"f": dist.Normal(0.0, 5.0)} if latents is None else latents,
        observations=observations(POINTS, np.ones(12)),
        likelihood=Gaussian(NOISE),
        dirichlet=dirichlet,
    )


@lru_cache
def rim_problem():
    """A source and all boundary values are unknown: linear, so that the posterior is known."""
    prior = BoundaryGP(Matern52(0.8, 0.5), mean=2.0, trend_sd=1.0, inducing=3)
    problem = posed({"boundary": Unknown(prior)})
    rng = np.random.default_rng(1)
    truth = jnp.asarray(rng.normal(size=problem.num_coordinates))
    seen = np.asarray(problem.operator @ problem.state(truth)) + NOISE * rng.normal(size=12)
    return dataclasses.replace(
        problem, observed=jnp.asarray(seen), observations=observations(POINTS, seen)
    )


@lru_cache
def known_posterior():
    problem = rim_problem()

    def sensed(coordinates):
        return problem.operator @ problem.state(coordinates)

    origin = jnp.zeros(problem.num_coordinates)
    matrix, offset = np.asarray(jax.jacfwd(sensed)(origin)), np.asarray(sensed(origin))
    covariance = np.linalg.inv(np.eye(len(origin)) + matrix.T @ matrix / NOISE**2)
    mean = covariance @ matrix.T @ (np.asarray(problem.observed) - offset) / NOISE**2
    return mean, np.sqrt(np.diag(covariance))


def test_the_unknown_is_named_after_the_stretch_and_described():
    problem = rim_problem()
    assert problem.latents.names == ("f", "u_boundary")
    assert "boundary: unknown field 'u_boundary'" in str(problem)
    assert problem.num_coordinates == 1 + 3 + 3


@pytest.mark.slow
def test_surrogates_take_the_boundary_from_their_lifting():
    problem = rim_problem()
    lifted = boundary_values(problem.forward, problem.latents)
    coordinates = jnp.asarray(np.random.default_rng(2).normal(size=problem.num_coordinates))
    wanted = dirichlet_values(problem.forward, problem.z(coordinates))
    columns = lifted.functions.values[problem.forward.fixed]
    np.testing.assert_array_equal(lifted.moving, np.arange(1, 7))  # all but the source's
    np.testing.assert_allclose(columns[:, 0], 0.0)
    np.testing.assert_allclose(columns[:, 1] + columns[:, 2:] @ coordinates[1:], wanted)


@pytest.mark.slow
def test_emulate_infers_the_boundary():
    posterior = pair("gaussian-vi(surrogate)", width=8, features=8, readout_batches=30).run(
        rim_problem()
    )
    mean, sd = known_posterior()
    np.testing.assert_allclose((posterior.coordinate_mean() - mean) / sd, 0.0, atol=0.05)
    found = np.sqrt(np.diag(posterior.coordinate_covariance()))
    np.testing.assert_allclose(found / sd, 1.0, atol=0.03)
    corners = np.array([[0.0, 0.0], [1.0, 1.0]])
    there = predict(posterior, "u_boundary", corners, num_draws=50)
    state = predict(posterior, "u", corners, num_draws=50)
    np.testing.assert_allclose(there.mean, state.mean, rtol=1e-6)


@pytest.mark.slow
def test_nuts_infers_the_boundary():
    posterior = pair("mcmc", kernel="nuts", num_warmup=300, num_samples=500).run(rim_problem())
    mean, sd = known_posterior()
    error = sd / np.sqrt(np.asarray(posterior.history["effective_draws"]))
    assert (abs(posterior.coordinate_mean() - mean) < 4 * error).all()


def test_a_number_may_stand_for_a_stretch():
    problem = posed({"left": 0.0, "right": Unknown(dist.Normal(1.0, 2.0))})
    values = dirichlet_values(problem.forward, problem.z(jnp.ones(2)))
    np.testing.assert_array_equal(np.unique(values), [0.0, 3.0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: posed({"left": Unknown()}),
            r"the values on 'left' are Unknown\(\) without a prior.* as in rz.Unknown\(rz.Bound",
        ),
        (lambda: posed({"left": Unknown(3.0)}), "the prior of 'u_left' is a float: give"),
        (
            lambda: posed({"left": Unknown(dist.Normal(0.0, 1.0).expand([2]))}),
            r"the prior of 'u_left' has shape \(2,\), but the Dirichlet value on 'left' needs \(\)",
        ),
        (
            lambda: posed({"left": Unknown(GP(Matern52()))}, latents={"u_left": GP(Matern52())}),
            "are to be the unknown 'u_left', which latents has already",
        ),
        (
            lambda: posed({"left": GP(Matern52())}),
            r"the Dirichlet value on 'left' is a prior, a GP: write rz.Unknown\(prior\)",
        ),
        (lambda: posed({"left": dist.Normal(0.0, 1.0)}), "is a prior, a Normal: write"),
        (lambda: posed({"left": None}), "on 'left' is None: leave the tag out where nothing"),
        (lambda: posed({}), "no value of u is prescribed anywhere and no term holds its level"),
    ],
)
def test_boundaries_of_which_nothing_is_known_are_refused(make, message):
    with pytest.raises(RieszError, match=message):
        make()


def test_a_reaction_holds_the_level_where_nothing_is_prescribed():
    assert posed({}, diffusion(1.0) + reaction(1.0) - source("f")).forward.num_free == 49
