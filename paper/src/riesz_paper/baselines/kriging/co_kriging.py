r"""Ordinary co-kriging with a linear model of coregionalisation.

$$\mathrm{cov}(y_p(x), y_q(x')) = B^0_{pq}\,[x = x'] + B^1_{pq}\,e^{-h/a_1} + B^2_{pq}\,e^{-h/a_2}$$

Each $B = LL^\top$ is any covariance between the quantities: a nugget that they share where they are
sampled together, a short and a long structure. Source: Goovaerts (1997), Geostatistics for Natural
Resources Evaluation, chapters 4 and 6; parameters by likelihood instead of by eye.
"""

import jax.numpy as jnp

from riesz.priors.kernels import TINY
from riesz_paper.baselines.kriging.multi_output import (
    AbstractOutputs,
    Blocks,
    Measured,
    Parameters,
    Points,
    multi_output,
)
from riesz_paper.regression.effects import squared_distances
from riesz_paper.regression.method import Method

RANGE_SHARES = (0.04, 0.25)
"""Where searches for the short and the long range start, as shares of the places' extent."""
RIDGE = 1e-3
"""Added to correlations at the start: quantities may be equal."""


class Coregionalised(AbstractOutputs):
    """Nugget, short and long structure; each starts with a third of the sample's covariance."""

    def initial(self, points: Points, measured: Measured) -> Parameters:
        extent = jnp.max(jnp.ptp(points, axis=0))
        count = measured.shape[1]
        sample = measured.T @ measured / len(measured) + RIDGE * jnp.eye(count)
        share = jnp.linalg.cholesky(sample / 3)
        return {
            "log_ranges": jnp.log(jnp.array(RANGE_SHARES) * extent),
            "factors": jnp.tile(share[None], (3, 1, 1)),  # L of nugget, short and long structure
        }

    def covariance(self, parameters: Parameters, points: Points) -> Blocks:
        distance = jnp.sqrt(squared_distances(points, points) + TINY)
        ranges = jnp.exp(parameters["log_ranges"])
        structures = jnp.exp(-distance[None] / ranges[:, None, None])
        correlations = jnp.concatenate([jnp.eye(len(points))[None], structures])
        factors = jnp.tril(parameters["factors"])
        shares = factors @ factors.transpose(0, 2, 1)
        return jnp.einsum("kpq,kij->pqij", shares, correlations)


def co_kriging() -> Method:
    """Co-kriging of a quantity with all other numbers, each in its own units."""
    return multi_output(Coregionalised())
