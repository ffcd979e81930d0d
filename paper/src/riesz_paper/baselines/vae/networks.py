"""Encoder and decoder of a conditional variational autoencoder."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float, PRNGKeyArray

from riesz.amortise.encoder import as_encoded, num_outputs
from riesz.posterior.family import FullRank
from riesz_paper.baselines.vae.settings import VaeSettings

Place = Float[Array, " dim"]
Code = Float[Array, " code"]

ACTIVATIONS = {
    "relu": jax.nn.relu,
    "sigmoid": jax.nn.sigmoid,
    "silu": jax.nn.silu,
    "tanh": jnp.tanh,
}
LIKELIHOODS = {"gaussian": dist.Normal, "laplace": dist.Laplace}

SMALLEST_SCALE = 0.01
"""Of the noise, in standard deviations of the target: a likelihood without bound is no aim."""


class Perceptron(eqx.Module):
    """Affine maps with activations between them; the last one is linear."""

    weights: tuple[Float[Array, "_ _"], ...]
    biases: tuple[Float[Array, " _"], ...]
    activation: str = eqx.field(static=True)

    def __call__(self, inputs: Float[Array, " input"]) -> Float[Array, " output"]:
        *hidden, last = zip(self.weights, self.biases, strict=True)
        for weight, bias in hidden:
            inputs = ACTIVATIONS[self.activation](inputs @ weight + bias)
        return inputs @ last[0] + last[1]


def perceptron(
    sizes: tuple[int, ...], activation: str, key: PRNGKeyArray, dtype: np.dtype
) -> Perceptron:
    """Glorot's uniform weights, and biases of zero, as in Keras."""
    weights = []
    for inputs, outputs, one in zip(sizes, sizes[1:], jr.split(key, len(sizes) - 1), strict=False):
        limit = np.sqrt(6 / (inputs + outputs))
        weights.append(jr.uniform(one, (inputs, outputs), dtype, -limit, limit))
    biases = tuple(jnp.zeros(size, dtype) for size in sizes[1:])
    return Perceptron(tuple(weights), biases, activation)


class Networks(eqx.Module):
    r"""$q(z \mid x, s)$ and $p(y \mid x, z)$, with inputs and outputs of size one."""

    encoder: Perceptron
    decoder: Perceptron
    likelihood: str = eqx.field(static=True)

    def encoded(self, x: Place, known: Float[Array, " known"]) -> FullRank:
        """The Gaussian of z, any covariance, from what is known at one place."""
        found = as_encoded(self.encoder(jnp.concatenate([x, known])))
        return FullRank(found.mean, found.log_diagonal, found.below)

    def mean(self, x: Place, code: Code) -> Float[Array, ""]:
        """The state u(x, z) on which equations are put."""
        return self.decoder(jnp.concatenate([x, code]))[0]

    def observed(
        self, x: Float[Array, "sample dim"], codes: Float[Array, "sample code"]
    ) -> dist.Distribution:
        """Of the target as it would be measured, at one place for each code."""
        mean, raw = jax.vmap(self.decoder)(jnp.concatenate([x, codes], axis=1)).T
        return LIKELIHOODS[self.likelihood](mean, SMALLEST_SCALE + jax.nn.softplus(raw))


def fresh_networks(
    num_known: int, settings: VaeSettings, key: PRNGKeyArray, dtype: np.dtype, dim: int = 2
) -> Networks:
    """Networks to start from, for so many columns beside the coordinates."""
    encoder_key, decoder_key = jr.split(key)
    codes = settings.num_codes
    encoder = (dim + num_known, *settings.encoder, num_outputs(codes))
    decoder = (dim + codes, *settings.decoder, 2)
    return Networks(
        encoder=perceptron(encoder, settings.activation, encoder_key, dtype),
        decoder=perceptron(decoder, settings.activation, decoder_key, dtype),
        likelihood=settings.likelihood,
    )
