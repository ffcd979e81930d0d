"""Networks n(x, coordinates) with inputs of size one, to be shaped into surrogates.

`TrunkBranch` is a DeepONet (Lu, Jin, Pang, Zhang & Karniadakis 2021): a trunk of functions of place
times a branch of functions of the unknowns. Where both are random features (Rahimi & Recht 2007)
that stay as drawn, only the linear readout is to be found.
"""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

Coordinates = Float[Array, " coordinate"]


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


class LocalFunctions(eqx.Module):
    """Coordinates seen from a centre, in units of a spread, and hyperbolic tangents of them."""

    centre: Float[Array, " coordinate"]
    whitening: Float[Array, "coordinate coordinate"]
    bends: Layers

    def __call__(self, coordinates: Float[Array, " coordinate"]) -> Float[Array, " function"]:
        inside = (coordinates - self.centre) @ self.whitening
        return jnp.concatenate([inside, self.bends(inside)])


def local_functions(
    draws: Float[np.ndarray, "draw coordinate"], num_bends: int, key: PRNGKeyArray, dtype: np.dtype
) -> LocalFunctions:
    """For coordinates distributed like these draws."""
    centre, size = draws.mean(axis=0), draws.shape[1]
    factor = np.linalg.cholesky(np.atleast_2d(np.cov(draws, rowvar=False)))
    return LocalFunctions(
        centre=jnp.asarray(centre, dtype),
        whitening=jnp.asarray(np.linalg.inv(factor).T, dtype),
        bends=layers((size, num_bends), key, dtype),
    )


class TrunkBranch(eqx.Module):
    """A sum of products of functions of place and of functions of the unknowns.

    Much cheaper than one network of both: each factor is evaluated once for all partners. The
    functions of the unknowns are linear in the readout, and exactly affine in the coordinates
    `linear`, in which the state is known to be affine. Of the functions of the `others`, one and
    those of the branch, the first `num_crossed` are also multiplied with each of those coordinates.
    """

    trunk: Layers
    branch: Layers | LocalFunctions
    readout: Float[Array, "hidden feature"]
    linear: Int[Array | np.ndarray, " linear"]
    others: Int[Array | np.ndarray, " other"]
    num_crossed: int = eqx.field(static=True)

    def __call__(self, x: Float[Array, " dim"], coordinates: Coordinates) -> Float[Array, ""]:
        return self.features(x) @ self.mixture(coordinates)

    def features(self, x: Float[Array, " dim"]) -> Float[Array, " feature"]:
        """The functions of place."""
        return self.trunk(x) / np.sqrt(self.readout.shape[1]).astype(x.dtype)

    def mixture(self, coordinates: Coordinates) -> Float[Array, " feature"]:
        """How much of each function of place there is, for given unknowns."""
        return self.hidden(coordinates) @ self.readout

    def hidden(self, coordinates: Coordinates) -> Float[Array, " hidden"]:
        """What the readout combines: functions of the unknowns, affine in some of them."""
        one = jnp.ones(1, coordinates.dtype)
        curved = jnp.concatenate([one, self.branch(coordinates[self.others])])
        affine = jnp.concatenate([one, coordinates[self.linear]])
        crossed = jnp.outer(affine, curved[: self.num_crossed])
        return jnp.concatenate([crossed.ravel(), curved[self.num_crossed :]])


def with_more_features(network: TrunkBranch, features: int, key: PRNGKeyArray) -> TrunkBranch:
    """The same function, with further functions of place that it makes no use of yet."""
    *before, last = network.trunk.weights
    *biases_before, last_bias = network.trunk.biases
    hidden, old = network.readout.shape
    fresh = layers((last.shape[0], features - old), key, last.dtype)
    trunk = Layers(
        (*before, jnp.concatenate([last, fresh.weights[0]], axis=1)),
        (*biases_before, jnp.concatenate([last_bias, fresh.biases[0]])),
    )
    unused = jnp.zeros((hidden, features - old), network.readout.dtype)
    scale = np.sqrt(features / old).astype(network.readout.dtype)  # of `features`
    readout = jnp.concatenate([scale * network.readout, unused], axis=1)
    return dataclasses.replace(network, trunk=trunk, readout=readout)


def trunk_branch(
    dim: int,
    num_coordinates: int,
    key: PRNGKeyArray,
    *,
    linear: Int[np.ndarray, " linear"] | None = None,
    width: int = 32,
    features: int = 32,
    dtype: np.dtype,
) -> TrunkBranch:
    """A factorised network; `linear` are the coordinates in which it is to be affine."""
    linear = np.zeros(0, int) if linear is None else np.asarray(linear)
    others = np.setdiff1d(np.arange(num_coordinates), linear)
    trunk_key, branch_key, readout_key = jr.split(key, 3)
    curved = width if len(others) else 0
    hidden = (1 + curved) * (1 + len(linear))
    scale = jnp.asarray(1 / np.sqrt(hidden), dtype)
    return TrunkBranch(
        trunk=layers((dim, width, width, features), trunk_key, dtype),
        branch=layers((len(others), width, curved), branch_key, dtype),
        readout=scale * jr.normal(readout_key, (hidden, features), dtype),
        linear=linear,
        others=others,
        num_crossed=1 + curved,
    )
