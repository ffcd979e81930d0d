r"""A Gaussian process seen through inducing values with a distribution of their own (SVGP).

With inducing points $Z$, $K_{ZZ} = L L^\top$ and $q(\xi) = N(m, S S^\top)$ of the whitened values
$\xi = L^{-1} f(Z)$, the process at $x$ is normal with mean $\phi^\top m$ and variance
$k(x, x) - \phi^\top (I - S S^\top) \phi$, $\phi = L^{-1} k(Z, x)$. The divergence of $q$ from
the prior is that of $N(m, S S^\top)$ from $N(0, I)$. Source: Hensman et al. (2015).
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from riesz.posterior.family import FullRank, full_rank
from riesz.priors.kernels import JITTER, AbstractKernel
from riesz.priors.representatives import farthest_points

Place = Float[Array, " dim"]
Moments = tuple[Float[Array, ""], Float[Array, ""]]


class Projection(eqx.Module):
    """What the process needs at any place, found once for all of them."""

    family: type[AbstractKernel] = eqx.field(static=True)
    length: Float[Array, " axis"]
    variance: Float[Array, ""]  # of the prior
    inducing: Float[Array, "inducing dim"]
    weights: Float[Array, " inducing"]  # of the kernels that make the mean
    known: Float[Array, "inducing inducing"]  # what q has taken from the prior's variance

    def at(self, x: Place) -> Moments:
        """Mean and variance at one place."""
        squared = jnp.sum(((x[None, :] - self.inducing) / self.length[None, :]) ** 2, axis=1)
        kernels = self.variance * self.family().profile(squared, jnp)
        # Sums of products: mapped over places, inner products would become many tiny calls.
        known = jnp.sum(kernels * (self.known @ kernels))
        return jnp.sum(self.weights * kernels), self.variance - known


class Frame(eqx.Module):
    """A process before anything is known of its inducing values: all that q does not change."""

    family: type[AbstractKernel] = eqx.field(static=True)
    length: Float[Array, " axis"]
    variance: Float[Array, ""]
    inducing: Float[Array, "inducing dim"]
    whitening: Float[Array, "inducing inducing"]  # the inverse of L

    def projection(self, q: FullRank) -> Projection:
        """The process with this distribution of its whitened inducing values."""
        identity = jnp.eye(len(self.inducing), dtype=self.whitening.dtype)
        # One matrix for both parts of the variance, exactly zero at the prior: half the work.
        known = self.whitening.T @ (identity - q.covariance()) @ self.whitening
        return Projection(
            family=self.family,
            length=self.length,
            variance=self.variance,
            inducing=self.inducing,
            weights=q.mean @ self.whitening,
            known=known,
        )


class SparseProcess(eqx.Module):
    """A process with its kernel's scales, its inducing points and their distribution."""

    family: type[AbstractKernel] = eqx.field(static=True)
    log_length: Float[Array, " axis"]
    log_sd: Float[Array, ""]
    inducing: Float[Array, "inducing dim"]
    q: FullRank  # of the whitened inducing values

    def frame(self) -> Frame:
        length = jnp.exp(self.log_length)
        scaled = self.inducing / length[None, :]
        squared = jnp.sum((scaled[:, None, :] - scaled[None, :, :]) ** 2, axis=-1)
        identity = jnp.eye(len(scaled), dtype=scaled.dtype)
        correlations = self.family().profile(squared, jnp) + JITTER * identity
        factor = jnp.exp(self.log_sd) * jnp.linalg.cholesky(correlations)
        whitening = solve_triangular(factor, identity, lower=True)
        return Frame(self.family, length, jnp.exp(2 * self.log_sd), self.inducing, whitening)

    def moments(
        self, places: Float[Array, "place dim"]
    ) -> tuple[Float[Array, " place"], Float[Array, " place"]]:
        """Means and variances at places."""
        return jax.vmap(self.frame().projection(self.q).at)(places)


def sparse_process(
    family: type[AbstractKernel],
    inducing: Float[np.ndarray, "inducing dim"],
    *,
    length: float = 1.0,
    sd: float = 1.0,
    one_length: bool = False,
) -> SparseProcess:
    """The prior itself, to start from."""
    num_axes = 1 if one_length else inducing.shape[1]
    return SparseProcess(
        family=family,
        log_length=jnp.full(num_axes, jnp.log(length)),
        log_sd=jnp.log(jnp.asarray(sd, float)),
        inducing=jnp.asarray(inducing, float),
        q=full_rank(len(inducing), jnp.zeros(0).dtype),
    )


def inducing_among(
    places: Float[np.ndarray, "place dim"], count: int
) -> Float[np.ndarray, "inducing dim"]:
    """Some of the places, far from each other; all that differ where there are few."""
    distinct = np.unique(places, axis=0)
    return distinct[farthest_points(distinct, min(count, len(distinct)))]
