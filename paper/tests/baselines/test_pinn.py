"""The strong form: right residuals, fair sampling, and its limits told."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import riesz as rz
from riesz_paper.baselines.strong_form.pinn import pointwise_penalty

SQUARE = rz.rectangle((4, 4))


def problem(equation, value=0.0):
    return rz.boundary_value_problem(rz.P1(SQUARE), equation, {"boundary": value})


def wave(x, z):
    return jnp.sin(z["k"] * x[0]) * x[1] ** 2


@eqx.filter_jit
def inside(penalty, zs):
    return penalty.inside(jr.key(0), wave, zs)


def test_the_strong_residual_is_that_of_the_differential_equation():
    """With coefficients that vary: a = 1 + x as a function, a reaction and a latent velocity."""
    equation = (
        rz.diffusion(lambda x: 1.0 + x[0])
        + rz.advection("tau")
        + rz.reaction(2.0)
        - rz.source(lambda x: x[1])
    )
    penalty = pointwise_penalty(problem(equation), num_inside=2000, num_boundary=1)
    zs = {"k": jnp.array([1.0, 2.0]), "tau": jnp.array([[1.0, -1.0], [0.5, 0.0]])}
    found = inside(penalty, zs)
    x = jr.uniform(jr.key(1), (20_000, 2))

    def strong(x, z):
        k, tau = z["k"], z["tau"]
        s, c = jnp.sin(k * x[0]), jnp.cos(k * x[0])
        grad = jnp.stack([k * c * x[1] ** 2, 2 * s * x[1]])
        laplacian = -(k**2) * s * x[1] ** 2 + 2 * s
        return -(1 + x[0]) * laplacian - grad[0] + tau @ grad + 2 * s * x[1] ** 2 - x[1]

    exact = jax.jit(jax.vmap(lambda z: jax.vmap(lambda x: strong(x, z))(x), out_axes=1))(zs)
    error = np.asarray(jnp.mean(found**2, axis=0) / jnp.mean(exact**2, axis=0)) - 1
    assert np.all(np.abs(error) < 0.08), error


def test_the_exact_solution_has_no_penalty_and_any_other_has():
    """-lap u = 2 (x (1 - x) + y (1 - y)) for u = x (1 - x) y (1 - y)."""
    load = rz.source(lambda x: 2 * (x[0] * (1 - x[0]) + x[1] * (1 - x[1])))
    penalty = pointwise_penalty(problem(rz.diffusion(1.0) - load), boundary_weight=10.0)

    def solution(x, z):
        return x[0] * (1 - x[0]) * x[1] * (1 - x[1])

    penalty = eqx.filter_jit(penalty)
    assert float(penalty(jr.key(0), solution)) < 1e-28
    # A constant more solves the equation, but not the boundary condition.
    raised = float(penalty(jr.key(0), lambda x, z: solution(x, z) + 0.1))
    assert raised == pytest.approx(10.0 * 0.1**2)


def test_nodal_coefficients_are_differentiated_inside_their_cells():
    slope = rz.nodal(1.0 + SQUARE.nodes[:, 0])
    by_nodes = pointwise_penalty(problem(rz.diffusion(slope) - rz.source(1.0)))
    by_function = pointwise_penalty(problem(rz.diffusion(lambda x: 1.0 + x[0]) - rz.source(1.0)))
    zs = {"k": jnp.array([1.0])}
    np.testing.assert_allclose(inside(by_nodes, zs), inside(by_function, zs))


def test_what_the_strong_form_cannot_do_is_told():
    form = rz.diffusion(1.0) + rz.neumann(1.0) - rz.source(1.0)
    with pytest.raises(rz.RieszError, match="knows Dirichlet conditions only"):
        pointwise_penalty(rz.boundary_value_problem(rz.P1(SQUARE), form))
    penalty = pointwise_penalty(problem(rz.diffusion(1.0) - rz.source(1.0)))
    with pytest.raises(rz.RieszError, match="needs second derivatives"):
        penalty.nodal(jr.key(0), jnp.zeros((1, SQUARE.num_nodes)))
