"""The paper's models of an aquifer, on a made-up one."""

import dataclasses
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.stats

from riesz.diagnose.taylor import taylor_test
from riesz.errors import RieszError
from riesz.mesh.refinement import hierarchy
from riesz.mesher.polygon import mesh_from_polygon
from riesz.posterior.family import FullRank
from riesz_paper.baselines.gp_physics.drawn_fields import DrawnField, place_noise
from riesz_paper.baselines.gp_physics.model import gp_d, gp_dt, physics_on, prior_fields
from riesz_paper.baselines.gp_physics.settings import PAPER
from riesz_paper.baselines.gp_physics.spatial_network import spatial_network
from riesz_paper.baselines.gp_physics.spatial_surrogate import spatial_surrogate, units_of
from riesz_paper.baselines.gp_physics.training import Task, Trained, epsilon_at, objective
from riesz_paper.data.synthetic import aquifer_outline, aquifer_wells
from riesz_paper.regression.covariates import Covariates
from riesz_paper.regression.method import Method, Predictor

WELLS = aquifer_wells(60)
HEADS = 4500 + 300 * np.sin(WELLS[:, 0] / 6e4) - 2e-3 * WELLS[:, 1]
PLACES = Covariates(WELLS, {}, {})
UNITS = units_of(PLACES, HEADS)
QUICK = dataclasses.replace(PAPER, num_epochs=60, cycle=30, num_inducing=12, patch_nodes=12)
WITHOUT = dataclasses.replace(QUICK, first_epsilon=math.inf, last_epsilon=math.inf)


@pytest.fixture(scope="module")
def meshes():
    # A quarter of the vertices: few nodes, and nothing here depends on the wells being inside.
    return hierarchy(mesh_from_polygon(aquifer_outline()[::4], max_edge=60e3), 2)


@pytest.fixture(scope="module")
def physics(meshes):
    return physics_on(meshes, UNITS, QUICK, transport=True)


@pytest.fixture(scope="module")
def trained(physics):
    """A surrogate and fields away from their priors."""

    def away(q, key):
        mean, below = jr.normal(key, q.mean.shape), 0.1 * jr.normal(key, q.below.shape)
        return FullRank(0.3 * mean, -0.5 + 0.1 * mean, below)

    fields = prior_fields(physics.frame, transport=True)
    keys = jr.split(jr.key(1), 3)
    parts = map(away, (fields.log_diffusivity, fields.source, fields.transport), keys)
    return Trained(spatial_surrogate(jr.key(0)), type(fields)(*parts))


@pytest.fixture(scope="module")
def task(physics):
    places = jnp.asarray(UNITS.places(WELLS))
    return Task(places, UNITS.values.scaled(HEADS), physics, QUICK)


def test_the_surrogate_is_the_papers():
    surrogate = spatial_surrogate(jr.key(0))
    sizes = [leaf.size for leaf in jax.tree.leaves(surrogate.network)]
    assert sum(sizes) == 6433
    assert [weight.shape for weight in surrogate.network.weights] == [
        (2, 32),
        (32, 64),
        (64, 64),
        (64, 1),
    ]
    assert surrogate.network.activation == "sigmoid"


def test_epsilon_falls_from_a_tenth_to_a_hundredth_and_starts_anew():
    epochs = jnp.arange(2500)
    found = np.asarray(epsilon_at(epochs, PAPER))
    np.testing.assert_allclose(found[[0, 999, 1000, 1999, 2000]], [0.1, 0.01, 0.1, 0.01, 0.1])
    assert (np.diff(found[:1000]) < 0).all()
    np.testing.assert_allclose(found[:1000], found[1000:2000])


def test_at_the_priors_nothing_diverges(physics):
    for transport in (False, True):
        assert prior_fields(physics.frame, transport=transport).divergence() == 0


def test_noise_belongs_to_a_place_and_is_standard_normal_and_independent():
    x = jr.uniform(jr.key(0), (4000, 2))
    near = x + 1e-9
    noise = jax.jit(jax.vmap(lambda x: place_noise(jr.key(3), x)))
    values, beside = np.asarray(noise(x)), np.asarray(noise(near))
    np.testing.assert_array_equal(values, noise(x))
    assert scipy.stats.kstest(values, "norm").pvalue > 1e-3
    assert abs(np.corrcoef(values, beside)[0, 1]) < 0.06
    mirrored = np.asarray(noise(x[:, ::-1]))
    assert abs(np.corrcoef(values, mirrored)[0, 1]) < 0.06
    grid = jnp.stack(jnp.meshgrid(jnp.arange(64.0), jnp.arange(64.0)), axis=-1).reshape(-1, 2)
    on_grid = np.asarray(noise(grid / 64)).reshape(64, 64)
    assert abs(np.corrcoef(on_grid[:, 1:].ravel(), on_grid[:, :-1].ravel())[0, 1]) < 0.06
    other = jax.vmap(lambda x: place_noise(jr.key(4), x))(x)
    assert abs(np.corrcoef(values, other)[0, 1]) < 0.06


def test_drawn_fields_have_the_moments_of_their_process(physics, trained):
    projection = physics.frame.projection(trained.fields.source)
    x = jnp.asarray([0.3, -0.2])
    draw = jax.jit(jax.vmap(lambda key: DrawnField(projection, key)(x)))
    draws = np.asarray(draw(jr.split(jr.key(5), 4000)))
    mean, variance = projection.at(x)
    assert abs(draws.mean() - mean) < 4 * np.sqrt(variance / 4000)
    assert abs(draws.var() / variance - 1) < 4 * np.sqrt(2 / 4000)


@pytest.mark.slow
def test_patches_are_unbiased_for_all_of_them_under_the_fields_draws(physics, trained):
    """Means over few patches and over all patches, each with fresh draws of the fields."""
    penalty, surrogate = physics.penalty, trained.surrogate

    def u(x, z):
        return 5 * surrogate.mean(x)

    def few(key):
        draw_key, patch_key = jr.split(key)
        return penalty(patch_key, u, trained.fields.draws(physics.frame, draw_key, 1))

    def whole(key):
        zs = trained.fields.draws(physics.frame, key, 1)
        return penalty.estimates(penalty.norm.all(), u, zs)[0]

    some = np.asarray(jax.jit(lambda keys: jax.lax.map(few, keys))(jr.split(jr.key(6), 600)))
    every = np.asarray(jax.jit(lambda keys: jax.lax.map(whole, keys))(jr.split(jr.key(7), 60)))
    assert some.min() > 0
    error = np.hypot(some.std() / np.sqrt(600), every.std() / np.sqrt(60))
    assert abs(some.mean() - every.mean()) < 4 * error


@pytest.mark.slow
def test_gradients_of_the_objective_are_right(trained, task):
    arrays, rest = eqx.partition(trained, eqx.is_array)

    @jax.jit
    def cost(arrays):
        epsilon, key = jnp.asarray(0.1), jr.key(8)
        return objective(eqx.combine(arrays, rest), epsilon, key, task)[0]

    found = taylor_test(cost, arrays, largest_step=1e-3)
    assert found.passed, str(found)


def test_with_an_infinite_epsilon_it_is_the_network_alone(meshes):
    alone = spatial_network(QUICK)(PLACES, HEADS, seed=3)
    free = gp_dt(meshes, WITHOUT)(PLACES, HEADS, seed=3)
    assert eqx.tree_equal(alone.surrogate, free.surrogate)
    np.testing.assert_array_equal(alone(PLACES), free(PLACES))
    np.testing.assert_allclose(free.source(WELLS[:3]), 0, atol=1e-20)
    np.testing.assert_allclose(free.diffusivity(WELLS[:3]), np.exp(0.5), rtol=1e-10)


@pytest.mark.parametrize("build", [gp_d, gp_dt])
def test_a_step_moves_surrogate_and_fields_and_tells_three_terms(meshes, build, only_traced):
    only_traced("riesz_paper.baselines.gp_physics.training")
    found = build(meshes, QUICK)(PLACES, HEADS, seed=0)
    assert isinstance(found, Predictor)
    assert set(found.history) == {"misfit", "kl", "penalty"}
    assert found.source(WELLS[:5]).shape == (5,)


@pytest.mark.slow
@pytest.mark.parametrize("build", [gp_d, gp_dt])
def test_a_training_lowers_the_bound_and_gives_maps(meshes, build):
    same = dataclasses.replace(QUICK, num_epochs=300, cycle=100, last_epsilon=0.1)
    method = build(meshes, same)
    assert isinstance(method, Method)
    found = method(PLACES, HEADS, seed=0)
    assert isinstance(found, Predictor)
    terms = found.history
    cost = terms["misfit"] + terms["kl"] + terms["penalty"] / (2 * 0.1**2)
    # Medians: draws of a diffusivity have long tails, and so have penalties.
    assert np.median(cost[-100:]) < np.median(cost[:50])
    noise = UNITS.values.spread * float(found.surrogate.noise)
    np.testing.assert_allclose(found(PLACES).std(axis=0), noise, rtol=0.01)
    assert found.source(WELLS[:5]).shape == (5,)
    assert (found.diffusivity(WELLS[:5]) > 0).all()
    assert (found.transport() != 0).all() == (build is gp_dt)


def test_maps_are_in_the_units_of_the_equation(meshes):
    """With lengths in kilometres, source and transport change as the equation says."""
    found = gp_dt(meshes, WITHOUT)(PLACES, HEADS, seed=0)
    fields = dataclasses.replace(
        found.fields,
        source=dataclasses.replace(found.fields.source, mean=found.fields.source.mean + 1),
        transport=dataclasses.replace(found.fields.transport, mean=jnp.asarray([1.0, 2.0])),
    )
    metres = dataclasses.replace(found, fields=fields)
    shorter = dataclasses.replace(
        found.units, centre=tuple(np.array(UNITS.centre) / 1e3), length=UNITS.length / 1e3
    )
    kilometres = dataclasses.replace(metres, units=shorter)
    np.testing.assert_allclose(kilometres.source(WELLS / 1e3), 1e6 * metres.source(WELLS))
    np.testing.assert_allclose(kilometres.transport(), 1e3 * metres.transport())


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(RieszError, match="do not grow"):
        dataclasses.replace(PAPER, last_epsilon=1.0)
    with pytest.raises(RieszError, match="one epsilon is infinite"):
        dataclasses.replace(PAPER, first_epsilon=math.inf)
    with pytest.raises(RieszError, match="num_patches is 0"):
        dataclasses.replace(PAPER, num_patches=0)
