"""Fields given by a small neural network with random weights."""

import itertools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from riesz.errors import RieszError
from riesz.latent.field import (
    AbstractPlaceField,
    GaussianField,
    Mean,
    Transform,
    check_mean,
    mean_at,
    mean_at_nodes,
    over_nodes,
    range_text,
    transformed,
)
from riesz.latent.latent import AbstractFieldPrior
from riesz.mesh.mesh import Mesh

DRAWS_OF_REPORT = 200
PLACES_OF_REPORT = 50


class NetworkFunction(AbstractPlaceField):
    """A multilayer perceptron with tanh units; a function of the place alone.

    Its weights stand in one vector; each layer divides its own by the root of the number of
    inputs, so that all layers have values of order one when the weights are standard normal.
    """

    centre: Float[Array, " dim"]
    half_width: Float[Array, ""]  # of the domain, so that inputs lie within -1 .. 1
    sd: Float[Array, ""]
    nodes: Float[Array, "node dim"]
    sizes: tuple[int, ...] = eqx.field(static=True)
    mean: Mean = eqx.field(static=True)
    transform: Transform | None = eqx.field(static=True)

    def at_place(
        self, x: Float[Array, " dim"], weights: Float[Array, " weight"]
    ) -> Float[Array, ""]:
        gaussian = mean_at(self.mean, x) + self.sd * self.output(x, weights)
        return transformed(self.transform, gaussian)

    def output(self, x: Float[Array, " dim"], weights: Float[Array, " weight"]) -> Float[Array, ""]:
        """The network before scaling: of order one, and about Gaussian for many units."""
        hidden, start = (x - self.centre) / self.half_width, 0
        *inner, last = itertools.pairwise(self.sizes)
        for num_in, num_out in inner:
            end = start + num_in * num_out
            matrix = weights[start:end].reshape(num_out, num_in) / math.sqrt(num_in)
            hidden = jnp.tanh(matrix @ hidden + weights[end : end + num_out])
            start = end + num_out
        return hidden @ weights[start:] / math.sqrt(last[0])

    def nodal(self, weights: Float[Array, " weight"]) -> Float[Array, " node"]:
        return over_nodes(lambda x: self.at_place(x, weights), self.nodes)


class NetworkField(AbstractFieldPrior):
    """A smooth field given by a network of `depth` layers of `width` tanh units.

    All weights and biases are standard normal, divided by the root of the number of inputs; `sd`
    scales the output. `mean` and `transform` are as in `GP`.
    """

    width: int = eqx.field(static=True, default=16)
    depth: int = eqx.field(static=True, default=2)
    sd: float = eqx.field(static=True, default=1.0)
    mean: Mean = eqx.field(static=True, default=0.0)
    transform: Transform | None = eqx.field(static=True, default=None)

    def __check_init__(self):
        check_mean(self.mean)
        if self.width < 1 or self.depth < 1:
            raise RieszError(
                f"the network has {self.depth} layers of {self.width} units: give at least one."
            )
        if not (np.isfinite(self.sd) and self.sd > 0):
            raise RieszError(f"the sd of a network field is {self.sd}: it must be positive.")

    def on(self, mesh: Mesh) -> GaussianField:
        low, high = mesh.nodes.min(axis=0), mesh.nodes.max(axis=0)
        field = NetworkFunction(
            centre=jnp.asarray((low + high) / 2),
            half_width=jnp.asarray(np.max(high - low) / 2),
            sd=jnp.asarray(float(self.sd)),
            nodes=jnp.asarray(mesh.nodes),
            sizes=(mesh.dim, *(self.width,) * self.depth, 1),
            mean=self.mean,
            transform=self.transform,
        )
        description = (
            f"network field, {self.depth} layers of {self.width} tanh units, "
            f"{range_text(mean_at_nodes(self.mean, mesh), typical_sd(field), self.transform)}"
        )
        return GaussianField(field, description, num_weights(field.sizes))


def num_weights(sizes: tuple[int, ...]) -> int:
    """Matrices and biases of all layers; the last has no bias, for the mean is given."""
    *inner, last = itertools.pairwise(sizes)
    return sum(num_in * num_out + num_out for num_in, num_out in inner) + last[0]


def typical_sd(field: NetworkFunction) -> Float[np.ndarray, " 1"]:
    """How far values lie from the mean before the data are seen, from draws of the weights."""
    places = field.nodes[:: max(1, len(field.nodes) // PLACES_OF_REPORT)]
    shape = (DRAWS_OF_REPORT, num_weights(field.sizes))
    draws = jnp.asarray(np.random.default_rng(0).normal(size=shape), places.dtype)
    over_places = jax.vmap(field.output, in_axes=(0, None))
    outputs = jax.jit(jax.vmap(over_places, in_axes=(None, 0)))(places, draws)
    return np.atleast_1d(float(field.sd) * np.std(np.asarray(outputs)))
