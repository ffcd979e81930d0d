"""Add the weak-form penalty to the loss of a Flax network that is fitted to a few readings.

The state u(x, z) solves -div(a grad u) = 1 on a square plate, u = 0 on its rim, with a
diffusivity a that differs from plate to plate. Thirty noisy readings of three plates are all there
is; the penalty fills in what lies between the sensors and between the plates. The one number
printed at the end compares the network with exact solves for plates not seen before.
"""

import argparse

import jax
import jax.numpy as jnp
import jax.random as jr
import optax
from flax import nnx

import riesz as rz

NOISE_STD, EPSILON = 1e-3, 1e-2
RANGE = (0.5, 2.0)  # of the diffusivity


class Network(nnx.Module):
    """trunk(x) . branch(log a), zero on the rim."""

    def __init__(self, width: int, rngs: nnx.Rngs):
        def linear(num_in, num_out):
            return nnx.Linear(num_in, num_out, rngs=rngs, param_dtype=float)

        self.trunk = nnx.Sequential(
            linear(2, width), nnx.tanh, linear(width, width), nnx.tanh, linear(width, width)
        )
        self.branch = nnx.Sequential(linear(1, width), nnx.tanh, linear(width, width))

    def __call__(self, x, z):
        bubble = x[0] * (1 - x[0]) * x[1] * (1 - x[1])
        return bubble * jnp.dot(self.trunk(2 * x - 1), self.branch(jnp.log(z["a"])[None]))


def readings(problem, key):
    """Places, diffusivities and noisy values at ten sensors on each of three plates."""
    plates, noise = jnp.asarray([0.6, 1.0, 1.7]), jr.normal(key, (30,))
    chosen = jr.choice(key, problem.free, (10,), replace=False)
    values = [rz.solve(problem, {"a": a})[chosen] for a in plates]
    places = jnp.tile(jnp.asarray(problem.space.points)[chosen], (3, 1))
    return places, jnp.repeat(plates, 10), jnp.concatenate(values) + NOISE_STD * noise


def main(num_steps: int = 3000, levels: int = 4) -> float:
    """Train, and return the relative energy error for fresh plates."""
    # Adding the penalty takes these lines ...
    meshes = rz.hierarchy(rz.rectangle((4, 4)), levels)
    equation = rz.diffusion("a") - rz.source(1.0)
    problem = rz.boundary_value_problem(rz.P1(meshes.meshes[-1]), equation, {"boundary": 0.0})
    penalty = rz.weak_form_penalty(problem, meshes)

    places, diffusivities, values = readings(problem, jr.key(0))
    network = Network(24, nnx.Rngs(0))
    optimiser = nnx.Optimizer(
        network, optax.adam(optax.cosine_decay_schedule(5e-3, num_steps)), wrt=nnx.Param
    )

    def loss(network, key):
        found = jax.vmap(lambda x, a: network(x, {"a": a}))(places, diffusivities)
        misfit = jnp.sum((found - values) ** 2) / (2 * NOISE_STD**2)
        # ... and these.
        draw, plates = jr.split(key)
        zs = {"a": jr.uniform(plates, (8,), minval=RANGE[0], maxval=RANGE[1])}
        return misfit + penalty(draw, network, zs) / (2 * EPSILON**2)

    @nnx.jit
    def train(network, optimiser, keys):
        @nnx.scan(in_axes=(nnx.Carry, 0), out_axes=nnx.Carry)
        def steps(carry, key):
            network, optimiser = carry
            optimiser.update(network, nnx.grad(loss)(network, key))
            return network, optimiser

        steps((network, optimiser), keys)

    train(network, optimiser, jr.split(jr.key(1), num_steps))
    return energy_error(problem, network)


def energy_error(problem, u) -> float:
    """The energy norm of the error over that of the solution, at four diffusivities."""
    gram = rz.penalty.dual_norm(problem).gram
    nodes = jnp.asarray(problem.space.points)
    squares = []
    for a in jr.uniform(jr.key(2), (4,), minval=RANGE[0], maxval=RANGE[1]):
        exact = rz.solve(problem, {"a": a})[problem.free]
        found = jax.vmap(lambda x, a=a: u(x, {"a": a}))(nodes)[problem.free]
        squares.append([e @ (gram @ e) for e in (found - exact, exact)])
    error, size = jnp.mean(jnp.asarray(squares), axis=0)
    return float(jnp.sqrt(error / size))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=3000)
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    print(f"relative energy error for fresh plates: {main(options.steps):.4f}")  # noqa: T201
