"""A normalising flow over a Gaussian: posteriors that are skewed, heavy-tailed or curved.

Standard normals go through a full-rank Gaussian, then a few coupling layers (one half of the
coordinates is scaled and shifted by functions of the other half: curved ridges), then each
coordinate through a sinh-arcsinh map (Jones & Pewsey 2009: skewness and tails).
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from riesz.errors import RieszError
from riesz.posterior.family import AbstractFamily, Draws, FullRank, full_rank, standard_log_density

Vector = Float[Array, " coordinate"]
Placed = tuple[Vector, Float[Array, ""]]
"""A point, and the logarithm of the volume change on the way to it."""

MAX_LOG_SCALE = 2.0
"""No coupling layer stretches by more than the exponential of this: training stays stable."""


class Coupling(eqx.Module):
    """Coordinates of one half move by functions of the other half, which stays."""

    matrix: Float[Array, "hidden coordinate"]
    bias: Float[Array, " hidden"]
    scale: Float[Array, "coordinate hidden"]
    shift: Float[Array, "coordinate hidden"]
    parity: int = eqx.field(static=True)  # which of every other coordinate moves

    def moves(self) -> Float[np.ndarray, " coordinate"]:
        return (np.arange(self.matrix.shape[1]) % 2 == self.parity).astype(self.matrix.dtype)

    def parts(self, x: Vector) -> tuple[Vector, Vector]:
        """Log-scale and shift of each coordinate, zero for those that stay."""
        moves = jnp.asarray(self.moves())
        hidden = jnp.tanh(self.matrix @ (x * (1 - moves)) + self.bias)
        log_scale = MAX_LOG_SCALE * jnp.tanh(self.scale @ hidden / MAX_LOG_SCALE)
        return moves * log_scale, moves * (self.shift @ hidden)

    def forward(self, x: Vector) -> Placed:
        log_scale, shift = self.parts(x)
        return x * jnp.exp(log_scale) + shift, jnp.sum(log_scale)

    def inverse(self, y: Vector) -> Placed:
        # What stays is the same on both sides, and the parts depend on nothing else.
        log_scale, shift = self.parts(y)
        return (y - shift) * jnp.exp(-log_scale), -jnp.sum(log_scale)


class SinhArcsinh(eqx.Module):
    r"""$\sinh((\operatorname{arcsinh} x + \epsilon) / \delta)$ for each coordinate."""

    skewness: Vector
    log_tail: Vector  # minus log delta: positive for heavy tails

    def forward(self, x: Vector) -> Placed:
        inner = (jnp.arcsinh(x) + self.skewness) * jnp.exp(self.log_tail)
        log_slope = log_cosh(inner) + self.log_tail - 0.5 * jnp.log1p(x**2)
        return jnp.sinh(inner), jnp.sum(log_slope)

    def inverse(self, y: Vector) -> Placed:
        x = jnp.sinh(jnp.arcsinh(y) * jnp.exp(-self.log_tail) - self.skewness)
        return x, -self.forward(x)[1]


class Flow(AbstractFamily):
    """A full-rank Gaussian carried through invertible layers."""

    base: FullRank
    couplings: tuple[Coupling, ...]
    tails: SinhArcsinh

    @property
    def num_coordinates(self) -> int:
        return self.base.num_coordinates

    @property
    def dtype(self) -> np.dtype:
        return self.base.dtype

    def layers(self) -> tuple[Coupling | SinhArcsinh, ...]:
        return (*self.couplings, self.tails)

    def placed(self, normals: Draws) -> tuple[Draws, Float[Array, " draw"]]:
        """Draws from q, and the logarithm of the volume change from the normals to them."""

        def through(x):
            total = self.base.log_volume()
            for layer in self.layers():
                x, change = layer.forward(x)
                total = total + change
            return x, total

        return jax.vmap(through)(self.base.transformed(normals))

    def transformed(self, normals: Draws) -> Draws:
        return self.placed(normals)[0]

    def kl_to_prior(self, normals: Draws | None = None) -> Float[Array, ""]:
        r"""$E_q[\log q - \log p]$ over the draws that come from the normals: unbiased."""
        if normals is None:
            raise RieszError("the KL divergence of a flow is an average over draws: pass normals.")
        draws, change = self.placed(normals)
        log_q = standard_log_density(normals) - change
        return jnp.mean(log_q - standard_log_density(draws))

    def log_prob(self, coordinates: Vector) -> Float[Array, ""]:
        total = jnp.zeros((), self.dtype)
        for layer in reversed(self.layers()):
            coordinates, change = layer.inverse(coordinates)
            total = total + change
        return self.base.log_prob(coordinates) + total


def log_cosh(x: Vector) -> Vector:
    """Without overflow."""
    return jnp.logaddexp(x, -x) - jnp.log(2.0)


def flow(
    num_coordinates: int,
    key: PRNGKeyArray,
    dtype,
    *,
    num_couplings: int = 4,
    num_hidden: int = 16,
) -> Flow:
    """The prior itself, to start from: all layers are the identity at first.

    A single coordinate has no other half, and no coupling layers.
    """
    if num_couplings < 0 or num_hidden < 1:
        raise RieszError(
            f"the flow has {num_couplings} coupling layers of {num_hidden} units: give at least "
            "one unit, and no negative number of layers."
        )
    zeros = jnp.zeros(num_coordinates, dtype)
    keys = jr.split(key, max(num_couplings, 1))[: num_couplings if num_coordinates > 1 else 0]
    return Flow(
        base=full_rank(num_coordinates, dtype),
        couplings=tuple(
            Coupling(
                matrix=jr.normal(k, (num_hidden, num_coordinates), dtype) / num_coordinates**0.5,
                bias=jnp.zeros(num_hidden, dtype),
                scale=jnp.zeros((num_coordinates, num_hidden), dtype),
                shift=jnp.zeros((num_coordinates, num_hidden), dtype),
                parity=i % 2,
            )
            for i, k in enumerate(keys)
        ),
        tails=SinhArcsinh(zeros, zeros),
    )
