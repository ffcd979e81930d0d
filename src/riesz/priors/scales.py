"""Kernels whose sd and lengths are learned, and covariances by them: on the device and on the host.

No prior is needed for them, so that predictions from kept draws import none.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from riesz.errors import RieszError
from riesz.priors.kernels import AbstractKernel, HostKernel, length_scale_of

Places = Float[np.ndarray, "inducing dim"]


Factor = Float[np.ndarray, "inducing inducing"]


JITTER = 1e-6
"""Added to the correlations' diagonal; without it the weights of smooth kernels would be so large
that they cancel only in float64."""


class LearnedScales(eqx.Module):
    """How far each scale may be from the kernel's own, its median: the sd of its logarithm.

    With 0.5, 95 % lie within a factor of 2.7 either way.
    """

    sd: float = eqx.field(static=True, default=1.0)
    length: float = eqx.field(static=True, default=0.5)

    def __check_init__(self):
        for name, value in (("sd", self.sd), ("length", self.length)):
            if not 0 < value < np.inf:
                raise RieszError(
                    f"the spread of the logarithm of a field's {name} is {value}: it must be "
                    "positive and finite."
                )

    def describe(self) -> str:
        return (
            f"within factors of {np.exp(1.96 * self.sd):.3g} and {np.exp(1.96 * self.length):.3g}"
        )


def scale_labels(num_lengths: int) -> tuple[str, ...]:
    if num_lengths == 1:
        return ("log_sd", "log_length")
    return ("log_sd", *(f"log_length_{axis}" for axis in range(num_lengths)))


def num_scales(kernel: AbstractKernel) -> int:
    """One sd, and a length for all axes or one for each."""
    return 1 + len(length_scale_of(kernel))


def rescale_kernel(
    kernel: AbstractKernel, spread: LearnedScales, scales: Float[np.ndarray, " scale"]
) -> HostKernel:
    """The kernel at given coordinates of its scales, on the host."""
    own = kernel.on_host()
    return own._replace(
        sd=own.sd * np.exp(spread.sd * scales[0]),
        lengths=own.lengths * np.exp(spread.length * scales[1:]),
    )


def with_scales(kernel: AbstractKernel, scales: Float[Array, " scale"]) -> AbstractKernel:
    """The kernel with another sd and other lengths."""
    return eqx.tree_at(lambda k: (k.sd, k.length_scale), kernel, (scales[0], scales[1:]))


def covariance_factor(
    kernel: AbstractKernel, places: Float[Array, "inducing dim"]
) -> Float[Array, "inducing inducing"]:
    """The Cholesky factor of the covariance of the values at places, on the device."""
    matrix = covariances(kernel, places, places)
    jitter = JITTER * kernel.sd**2
    return jnp.linalg.cholesky(matrix + jitter * jnp.eye(len(places), dtype=matrix.dtype))


def covariances(
    kernel: AbstractKernel, places: Float[Array, "place dim"], others: Float[Array, "other dim"]
) -> Float[Array, "place other"]:
    return jax.vmap(lambda x: jax.vmap(lambda y: kernel(x, y))(others))(places)


def inducing_factor(kernel: AbstractKernel | HostKernel, places: Places) -> Factor:
    """The Cholesky factor of the covariance of the values at the inducing points."""
    jitter = JITTER * float(kernel.sd) ** 2 * np.eye(len(places))
    return np.linalg.cholesky(kernel.matrix(places, places) + jitter)
