r"""A Gaussian process with the kernel of diffusion: each output is a latent state that has spread.

Latent initial states $u_r \sim GP(0, e^{-\frac12 d^\top\Lambda_r d})$ are smoothed by each output's
own heat kernel, $y_p = \sum_r S_{pr}\,N(0, P_p^{-1}) * u_r$, where $P_p^{-1} = 2 D_p t$ per axis:

$$k_{pq}(d) = \sum_r S_{pr} S_{qr}\,N(d;\,0,\,P_p^{-1} + P_q^{-1} + \Lambda_r^{-1})$$

Source: Alvarez, Luengo & Lawrence (2009), Latent force models. Where we differ: each $S_{pr}$ is
measured in sds of the output it makes, so that $k_{pp}(0) = \sum_r S_{pr}^2$; outputs have constant
means that are integrated out; parameters have weak priors.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from riesz_paper.baselines.kriging.multi_output import (
    AbstractOutputs,
    Blocks,
    Measured,
    Parameters,
    Points,
    multi_output,
)
from riesz_paper.regression.method import Method

LENGTH_SHARES = (0.03, 0.25)
"""Where searches for the lengths of the first and last latent state start, of the extent."""
SPREAD_SHARE = 0.02
"""Where searches for the widths of heat kernels start."""


class Diffused(AbstractOutputs):
    """Outputs that are smoothed sums of a few latent states, each with noise of its own."""

    num_latent: int = eqx.field(static=True, default=2)

    def initial(self, points: Points, measured: Measured) -> Parameters:
        log_extent = jnp.log(jnp.max(jnp.ptp(points, axis=0)))
        count = measured.shape[1]
        log_shares = jnp.log(jnp.geomspace(*LENGTH_SHARES, self.num_latent))
        return {
            "sensitivity": jnp.full((count, self.num_latent), 0.6),
            "log_spread": jnp.full((count, 2), jnp.log(SPREAD_SHARE) + log_extent),
            "log_length": jnp.tile(log_shares[:, None] + log_extent, (1, 2)),
            "log_noise": jnp.full(count, jnp.log(0.5)),
        }

    def covariance(self, parameters: Parameters, points: Points) -> Blocks:
        smooth = diffused_covariance(
            parameters["sensitivity"],
            jnp.exp(2 * parameters["log_spread"]),
            jnp.exp(2 * parameters["log_length"]),
            (points[:, None, :] - points[None, :, :]) ** 2,
        )
        noise = jnp.diag(jnp.exp(2 * parameters["log_noise"]))
        return smooth + jnp.einsum("pq,ij->pqij", noise, jnp.eye(len(points)))


def diffused_covariance(
    sensitivity: Float[Array, "output latent"],
    spread: Float[Array, "output axis"],
    length: Float[Array, "latent axis"],
    squared: Float[Array, "place other axis"],
) -> Float[Array, "output output place other"]:
    """Between outputs, from squared widths of heat kernels and latent states along each axis."""
    added = spread[:, None, None, :] + spread[None, :, None, :] + length[None, None, :, :]
    own = 2 * spread[:, None, :] + length[None, :, :]
    peak = sensitivity * jnp.prod(own, axis=-1) ** 0.25
    peaks = peak[:, None, :] * peak[None, :, :] / jnp.sqrt(jnp.prod(added, axis=-1))
    exponent = jnp.einsum("ijd,pqrd->pqrij", squared, -0.5 / added)
    return jnp.sum(peaks[..., None, None] * jnp.exp(exponent), axis=2)


def diffusion_kernel(num_latent: int = 2) -> Method:
    """GPDK: a quantity and all other numbers as diffused latent states, each in its own units."""
    return multi_output(Diffused(num_latent))
