"""The dual norm of a trajectory: drawn steps and patches tell it, and it bounds the error."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import riesz as rz
from riesz.fem.assembly import residual
from riesz.fem.problem import with_form
from riesz.fem.time.problem import at_time, with_history
from riesz.penalty.in_time import step_penalty
from riesz.penalty.norm import NormSample, PatchSample

TIMES = np.array([0.0, 0.1, 0.2, 0.35, 0.5])
HIERARCHY = rz.hierarchy(rz.interval(4), 3)
CAPACITY, DIFFUSIVITY = 2.0, 0.3
Z = {"f": jnp.asarray(1.5)}


def heat(initial, scheme="sdirk2"):
    form = rz.storage(CAPACITY) + rz.diffusion(DIFFUSIVITY) - rz.source("f")
    space = rz.P1(HIERARCHY.meshes[-1])
    return rz.transient_problem(
        space, form, {"left": 0.0}, times=TIMES, initial=initial, scheme=scheme
    )


def rough(x, z):
    """Some function that solves nothing."""
    return jnp.sin(3 * x[0]) * jnp.cos(2 * z["t"]) + x[0] * z["t"]


def penalty_of(problem, **settings):
    return step_penalty(problem, HIERARCHY, Z, patch_nodes=6, **settings)


def each_step(penalty):
    """Steps whose residuals count, and a sample of the latents for each."""
    steps = jnp.arange(penalty.first, len(penalty.stepping.times))
    return steps, jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (len(steps),)), Z)


@eqx.filter_jit
def estimates(penalty, sample):
    steps, zs = each_step(penalty)
    return penalty.estimates(sample, steps, rough, zs)


def weighed(patches):
    """Every patch with its factor when drawn, times how likely that is: sums are then means."""
    drawn, sizes = patches.sample(jax.random.key(0), 400), np.asarray(patches.level_sizes)
    factors = np.full(patches.num_patches, np.nan)
    factors[np.asarray(drawn.patches)] = drawn.factors
    likely = 1 / np.repeat(sizes, sizes) / len(sizes)
    every = np.arange(patches.num_patches)
    return PatchSample(jnp.asarray(every), jnp.asarray(len(every) * likely * factors))


@eqx.filter_jit
def whole_norm(problem, penalty):
    """Step by step, from nodal states and the equation of a step."""
    nodes, weights = jnp.asarray(problem.space.mesh.nodes), penalty.stepping.weights
    times, fixed = penalty.stepping.times, problem.step.fixed
    states = jax.vmap(lambda t: jax.vmap(lambda x: rough(x, {"t": t}))(nodes))(times)

    def squared(step):
        past = weights.last[step] * states[step - 1] + weights.before[step] * states[step - 2]
        own = with_history(problem.step, weights.now[step], past)
        left = residual(own, states[step].at[fixed].set(0.0), at_time(Z, times[step]))
        return penalty.of_step(rough, step).norm.squared(left.at[fixed].set(0.0))

    return jnp.sum(jax.lax.map(squared, jnp.arange(penalty.first, len(times))))


@pytest.mark.slow
def test_pairs_of_steps_and_patches_tell_the_whole_norm_in_the_mean():
    problem = heat(None)  # a steady state to begin with, which is a step as well
    penalty = penalty_of(problem, whole_mesh=True)
    assert penalty.num_steps == 2 * len(TIMES) - 1  # two stages each
    norm = penalty.own.norm
    pairs = estimates(penalty, NormSample(weighed(norm.fine), weighed(norm.coarse)))
    np.testing.assert_allclose(np.mean(pairs), whole_norm(problem, penalty), rtol=1e-10)


@pytest.mark.slow
def test_patches_alone_see_what_the_whole_mesh_does():
    problem = heat(0.0)
    by_mesh, by_patch = (penalty_of(problem, whole_mesh=whole) for whole in (True, False))
    steps, zs = each_step(by_mesh)
    sample = by_mesh.own.norm.all()

    @eqx.filter_jit
    def rows(penalty):
        def one(step, z):
            alone = jax.tree.map(lambda leaf: leaf[None], penalty.stepping.at(z, step))
            return penalty.of_step(rough, step).rows(sample, rough, alone)

        return jax.vmap(one)(steps, zs)

    (fine, below), (whole, whole_below) = rows(by_patch), rows(by_mesh)
    np.testing.assert_allclose(fine, whole, atol=1e-12)
    # On coarse levels functions are seen themselves, which the interpolant comes near to.
    assert np.abs(below - whole_below).max() < 0.02 * np.abs(whole_below).max()


def test_the_norm_of_all_steps_bounds_the_error_of_each_state():
    """Implicit Euler, whose Gram matrices are those of its steps, by dense matrices."""
    problem = heat(0.0, "euler")
    penalty = penalty_of(problem)
    nothing, steps = jnp.zeros(problem.space.num_dofs), np.diff(TIMES)

    def dense(form):
        return np.asarray(rz.fem.jacobian(with_form(problem.step, form), nothing).to_dense())

    mass, energy = dense(rz.reaction(1.0)), dense(rz.diffusion(1.0))
    rng, total = np.random.default_rng(0), 0.0
    before = np.zeros(len(mass))
    for number, (length, reaction) in enumerate(zip(steps, penalty.reactions[1:], strict=True)):
        matrix = DIFFUSIVITY * (energy + float(reaction) * mass)
        np.testing.assert_allclose(matrix, CAPACITY / length * mass + DIFFUSIVITY * energy)
        error = before + rng.normal(size=len(mass))
        left = matrix @ error - CAPACITY * mass @ before / length
        total += left @ np.linalg.solve(matrix, left)
        assert CAPACITY * error @ mass @ error <= steps[: number + 1].sum() * total
        before = error
