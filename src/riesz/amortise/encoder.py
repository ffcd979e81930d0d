r"""The encoder: from the observations of one data set to a Gaussian $q(z \mid y)$, at once.

A residual network reads observations of size one and gives a mean $m$ and a lower triangular $R$
with a positive diagonal; $q$ is the Gaussian in which $R\,(z - m)$ is standard normal. With the
inverse factor of the covariance instead of the factor itself, the log-density needs no solve, and
it is concave in $R$. Which values are missing, and noise that differs between data sets, are read
beside the values where training has met them.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from riesz.amortise.simulate import Coordinates, Observed, SensorData
from riesz.penalty.norm import solve_positive
from riesz.posterior.family import FullRank, standard_log_density

Examples = Float[Array, "example sensor"]


class Encoded(eqx.Module):
    """A Gaussian by its mean and the inverse factor of its covariance."""

    mean: Coordinates
    log_diagonal: Coordinates
    below: Float[Array, "coordinate coordinate"]  # strictly below the diagonal, zero elsewhere

    def inverse_factor(self) -> Float[Array, "coordinate coordinate"]:
        return self.below + jnp.diag(jnp.exp(self.log_diagonal))

    def factor(self) -> Float[Array, "coordinate coordinate"]:
        """The lower triangular factor of the covariance."""
        # Elimination without pivots is right for triangular matrices too, and safe in batches.
        identity = jnp.eye(len(self.mean), dtype=self.mean.dtype)
        return solve_positive(self.inverse_factor(), identity)

    def log_prob(self, coordinates: Coordinates) -> Float[Array, ""]:
        white = self.inverse_factor() @ (coordinates - self.mean)
        return standard_log_density(white) + jnp.sum(self.log_diagonal)

    def family(self) -> FullRank:
        """The same Gaussian as fits give it."""
        return FullRank(self.mean, -self.log_diagonal, jnp.tril(self.factor(), -1))


class ResidualNetwork(eqx.Module):
    """Layers that add to what they read, with a linear map from inputs to outputs beside them."""

    first: Float[Array, "input hidden"]
    inner: Float[Array, "layer hidden hidden"]
    biases: Float[Array, "layer_plus_one hidden"]
    readout: Float[Array, "hidden output"]
    direct: Float[Array, "input output"]
    offset: Float[Array, " output"]

    def __call__(self, inputs: Float[Array, " input"]) -> Float[Array, " output"]:
        hidden = jax.nn.silu(inputs @ self.first + self.biases[0])
        for weight, bias in zip(self.inner, self.biases[1:], strict=True):
            hidden = hidden + jax.nn.silu(hidden @ weight + bias)
        return hidden @ self.readout + inputs @ self.direct + self.offset


class Encoder(eqx.Module):
    """A Gaussian for each data set."""

    network: ResidualNetwork
    centre: Observed  # of the observations, as the model makes them up
    scale: Observed
    noise_sd: Observed | None = None  # of the problem, where training has met other noise
    reads_gaps: bool = eqx.field(static=True, default=False)  # whether values may be missing

    def __call__(self, observed: Observed | SensorData) -> Encoded:
        data = observed if isinstance(observed, SensorData) else SensorData(observed)
        inputs = [(jnp.asarray(data.values) - self.centre) / self.scale]
        if self.reads_gaps:
            there = jnp.ones_like(inputs[0])
            there = there if data.present is None else jnp.asarray(data.present, there.dtype)
            inputs = [inputs[0] * there, 1 - there]
        if self.noise_sd is not None:
            sd = self.noise_sd if data.noise_sd is None else data.noise_sd
            inputs.append(jnp.log(sd / self.noise_sd))
        return as_encoded(self.network(jnp.concatenate(inputs)))


def num_outputs(num_coordinates: int) -> int:
    """A mean and a triangle."""
    return num_coordinates + num_coordinates * (num_coordinates + 1) // 2


def as_encoded(outputs: Float[Array, " output"]) -> Encoded:
    size = int((np.sqrt(9 + 8 * len(outputs)) - 3) / 2 + 0.5)
    below = jnp.zeros((size, size), outputs.dtype)
    return Encoded(
        mean=outputs[:size],
        log_diagonal=outputs[size : 2 * size],
        below=below.at[np.tril_indices(size, -1)].set(outputs[2 * size :]),
    )


def encoder(
    examples: Examples,
    num_coordinates: int,
    key: PRNGKeyArray,
    *,
    width: int,
    num_layers: int,
    noise_sd: Observed | None = None,
    reads_gaps: bool = False,
) -> Encoder:
    """The prior itself for all data, to start from; `examples` tell the size of observations."""
    dtype = examples.dtype
    num_inputs = examples.shape[1] * (1 + reads_gaps + (noise_sd is not None))
    first_key, inner_key, bias_key = jr.split(key, 3)
    size = num_outputs(num_coordinates)
    network = ResidualNetwork(
        first=jr.normal(first_key, (num_inputs, width), dtype) / num_inputs**0.5,
        inner=jr.normal(inner_key, (num_layers - 1, width, width), dtype) / width**0.5,
        biases=0.5 * jr.normal(bias_key, (num_layers, width), dtype),
        readout=jnp.zeros((width, size), dtype),
        direct=jnp.zeros((num_inputs, size), dtype),
        offset=jnp.zeros(size, dtype),
    )
    centre, scale = jnp.mean(examples, axis=0), jnp.std(examples, axis=0)
    return Encoder(network, centre, scale, noise_sd, reads_gaps)
