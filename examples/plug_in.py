"""Teach a hand-written network the solutions of a family of equations, without any data.

The network u(x, z) learns -lap u + tau . grad u = 1 on the unit square, u = 0 on its boundary, for
all winds tau within [-3, 3]^2 at once. The loss is the weak-form penalty alone; no equation is
solved. The one number printed at the end compares it with exact solves at winds not seen before.
"""

import argparse

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax

import riesz as rz

WIDTHS = {"trunk": (2, 32, 32, 24), "branch": (2, 32, 24)}


def fresh(key):
    """Weights and biases of both networks."""

    def layers(key, widths):
        keys = jr.split(key, len(widths) - 1)
        pairs = zip(keys, widths[:-1], widths[1:], strict=True)
        return [(jr.normal(k, (m, n)) / jnp.sqrt(m), jnp.zeros(n)) for k, m, n in pairs]

    keys = jr.split(key, len(WIDTHS))
    return {name: layers(k, WIDTHS[name]) for k, name in zip(keys, WIDTHS, strict=True)}


def network(layers, values):
    *hidden, (last, shift) = layers
    for weights, bias in hidden:
        values = jnp.tanh(values @ weights + bias)
    return values @ last + shift


def state(params, x, z):
    """u(x, z) = bubble(x) trunk(x) . branch(z): zero on the boundary whatever the weights."""
    bubble = x[0] * (1 - x[0]) * x[1] * (1 - x[1])
    return bubble * jnp.dot(network(params["trunk"], x), network(params["branch"], z["tau"] / 3))


def main(num_steps: int = 4000, levels: int = 4) -> float:
    """Train, and return the relative energy error at fresh winds."""
    # Adding the penalty takes these lines ...
    meshes = rz.hierarchy(rz.rectangle((4, 4)), levels)
    equation = rz.diffusion(1.0) + rz.advection("tau") - rz.source(1.0)
    problem = rz.boundary_value_problem(rz.P1(meshes.meshes[-1]), equation, {"boundary": 0.0})
    penalty = rz.weak_form_penalty(problem, meshes)

    def loss(params, key, penalty):
        draw, winds = jr.split(key)
        zs = {"tau": jr.uniform(winds, (16, 2), minval=-3.0, maxval=3.0)}
        return penalty(draw, lambda x, z: state(params, x, z), zs)  # + your own misfit

    # ... and the rest is training as ever.
    optimiser = optax.adam(optax.cosine_decay_schedule(5e-3, num_steps))

    @eqx.filter_jit  # the penalty is an argument, so that its arrays are no constants
    def train(params, keys, penalty):
        def step(carry, key):
            params, moments = carry
            updates, moments = optimiser.update(jax.grad(loss)(params, key, penalty), moments)
            return (optax.apply_updates(params, updates), moments), None

        (params, _), _ = jax.lax.scan(step, (params, optimiser.init(params)), keys)
        return params

    params = train(fresh(jr.key(0)), jr.split(jr.key(1), num_steps), penalty)
    return energy_error(problem, lambda x, z: state(params, x, z))


def energy_error(problem, u) -> float:
    """The energy norm of the error over that of the solution, at four winds."""
    gram = rz.penalty.dual_norm(problem).gram
    nodes = jnp.asarray(problem.space.points)
    squares = []
    for tau in jr.uniform(jr.key(2), (4, 2), minval=-3.0, maxval=3.0):
        exact = rz.solve(problem, {"tau": tau})[problem.free]
        found = jax.vmap(lambda x, tau=tau: u(x, {"tau": tau}))(nodes)[problem.free]
        squares.append([e @ (gram @ e) for e in (found - exact, exact)])
    error, size = jnp.mean(jnp.asarray(squares), axis=0)
    return float(jnp.sqrt(error / size))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=4000)
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    print(f"relative energy error at fresh winds: {main(options.steps):.4f}")  # noqa: T201
