"""Test functions vanish on the boundary, and the state there is its own."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import riesz as rz
from riesz_paper.baselines.gp_physics.model import ample_room

pytestmark = pytest.mark.slow  # quickly: test_penalty.py

MESHES = rz.hierarchy(rz.rectangle((2, 2)), 4)
EQUATION = rz.diffusion(1.0) + rz.advection("tau") - rz.source("f")
PLAIN = {"tau": jnp.zeros((2, 2)), "f": jnp.zeros(2), "tilt": jnp.asarray([1.0, -3.0])}
HARMONIC, BENT = (PLAIN | {"bend": bend * jnp.ones(2)} for bend in (0.0, 1.0))


def problem_with(value, meshes=MESHES):
    return rz.boundary_value_problem(rz.P1(meshes.meshes[-1]), EQUATION, {"boundary": value})


def penalty_with(value, **options):
    settings = {"patch_nodes": 8, "free_boundary": True} | options
    return rz.weak_form_penalty(problem_with(value), MESHES, **settings)


def state(x, z):
    """A harmonic function, bent or not: one function, so that a penalty compiles once."""
    harmonic = z["tilt"] * (x[0] ** 2 - x[1] ** 2 + 3 * x[0] * x[1] - x[1] + 0.5)
    return harmonic + z["bend"] * x[0] ** 2 * jnp.exp(x[1])


@eqx.filter_jit
def whole(penalty, zs):
    return penalty.estimates(penalty.norm.all(), state, zs)


@pytest.mark.parametrize("options", [{}, {"gradients": True}, {"whole_mesh": True}])
def test_a_harmonic_function_has_no_penalty_whatever_its_boundary_values(options):
    penalty = penalty_with(0.0, **options)
    assert (whole(penalty, HARMONIC) < 1e-4 * whole(penalty, BENT)).all()


def test_without_it_the_prescribed_values_are_put_in():
    assert (whole(penalty_with(0.0, free_boundary=False), HARMONIC) > 0.01).all()


def test_the_values_of_the_conditions_do_not_matter():
    zero, other = (whole(penalty_with(value), BENT) for value in (0.0, 7.0))
    np.testing.assert_array_equal(zero, other)


@pytest.mark.slow
def test_with_a_single_patch_it_is_the_dual_norm_of_the_interior_residual():
    meshes = rz.hierarchy(rz.rectangle((2, 2)), 3)
    problem = problem_with(0.0, meshes)
    norm = rz.penalty.schwarz_norm(problem, patch_nodes=problem.num_free)
    penalty = rz.weak_form_penalty(problem, norm=norm, free_boundary=True)
    nodes = jnp.asarray(problem.space.points)
    states = jax.vmap(lambda z: jax.vmap(lambda x: state(x, z))(nodes))(BENT)
    exact = rz.penalty.dual_norm(problem)

    def squared(state, z):
        return exact.squared(rz.fem.residual(problem, state, z)[problem.free])

    wanted = jax.vmap(squared)(states, BENT)
    np.testing.assert_allclose(whole(penalty, BENT), wanted, rtol=1e-10)
    np.testing.assert_allclose(penalty.nodal(jr.key(0), states, BENT), wanted.mean(), rtol=1e-10)


@pytest.mark.slow
def test_draws_of_patches_are_unbiased_for_the_sum_over_all():
    penalty = penalty_with(0.0, num_patches=2)
    draws = eqx.filter_jit(jax.vmap(lambda key: penalty(key, state, BENT)))(
        jr.split(jr.key(1), 2000)
    )
    error = draws.std() / np.sqrt(len(draws))
    assert abs(draws.mean() - whole(penalty, BENT).mean()) < 4 * error


def test_room_to_spare_changes_tables_and_no_value():
    problem = problem_with(0.0)
    room = ample_room(8)
    norm = rz.penalty.schwarz_norm(problem, MESHES, patch_nodes=8, room=room)
    assert norm.fine.table.widths == norm.coarse.table.widths == room
    wide = rz.weak_form_penalty(problem, MESHES, norm=norm, free_boundary=True)
    narrow = penalty_with(0.0)
    assert narrow.norm.fine.table.widths != room
    np.testing.assert_allclose(whole(wide, BENT), whole(narrow, BENT), rtol=1e-12)
