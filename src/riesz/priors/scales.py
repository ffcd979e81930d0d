"""Kernels whose sd and lengths are learned, and covariances by them.

No prior is needed for them, so that predictions from kept draws import none.
"""

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from riesz.arrays import AnyArray, numpy_of
from riesz.errors import RieszError
from riesz.priors.kernels import AbstractKernel, length_scale_of

Scales = Float[AnyArray, " scale"]

Places = Float[np.ndarray, "inducing dim"]


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

    def scales(self, kernel: AbstractKernel, coordinates: Scales) -> Scales:
        """The sd and the lengths of a kernel at standard normal coordinates."""
        xp = numpy_of(coordinates)
        medians = xp.hstack([kernel.sd, length_scale_of(kernel)])
        spreads = [self.sd] + [self.length] * (len(coordinates) - 1)
        return medians * xp.exp(xp.asarray(spreads, coordinates.dtype) * coordinates)

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


def with_scales(kernel: AbstractKernel, scales: Scales) -> AbstractKernel:
    """The kernel with another sd and other lengths."""
    # Not by `tree_at`, which takes longer than the matrices of few points.
    return jax.tree.unflatten(jax.tree.structure(kernel), (scales[1:], scales[0]))


def covariance_factor(
    kernel: AbstractKernel, places: Float[AnyArray, "inducing dim"]
) -> Float[AnyArray, "inducing inducing"]:
    """The Cholesky factor of the covariance of the values at places."""
    matrix, xp = kernel.matrix(places, places), numpy_of(places)
    jitter = JITTER * matrix[0, 0] * xp.eye(len(places), dtype=matrix.dtype)
    return xp.linalg.cholesky(matrix + jitter)
