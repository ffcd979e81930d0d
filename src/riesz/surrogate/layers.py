"""Small smooth networks, written so that a batch of places is one product of matrices."""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray


class Layers(eqx.Module):
    """Hyperbolic tangents of affine maps, one after the other, the last one included."""

    weights: tuple[Float[Array, "_ _"], ...]
    biases: tuple[Float[Array, " _"], ...]

    def __call__(self, x: Float[Array, " input"]) -> Float[Array, " output"]:
        for weight, bias in zip(self.weights, self.biases, strict=True):
            x = jnp.tanh(x @ weight + bias)
        return x


def layers(sizes: tuple[int, ...], key: PRNGKeyArray, dtype: np.dtype) -> Layers:
    """Layers of given sizes, inputs first; inputs and outputs of size one stay so.

    Biases spread the bends of the first layer over the inputs.
    """
    weights, biases = [], []
    for inputs, outputs, one in zip(sizes, sizes[1:], jr.split(key, len(sizes) - 1), strict=False):
        weight_key, bias_key = jr.split(one)
        scale = np.asarray(1 / np.sqrt(max(inputs, 1)), dtype)
        weights.append(scale * jr.normal(weight_key, (inputs, outputs), dtype))
        biases.append(scale * jr.normal(bias_key, (outputs,), dtype))
    return Layers(tuple(weights), tuple(biases))
