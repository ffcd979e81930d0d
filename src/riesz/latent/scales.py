"""Scales of a field that are unknown too: log-normal about those of its kernel."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
from jaxtyping import Array, Float

from riesz.errors import RieszError
from riesz.latent.field import AbstractField, AbstractFieldLatent
from riesz.latent.kernels import AbstractKernel, known_length_scale

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


class ScaledField(AbstractFieldLatent):
    """A field by kernels whose first coordinates are those of its sd and length scales.

    What `z` holds are the scales themselves, the kernels' weights, and the weights of what else
    the field consists of, each with its own sd.
    """

    field: AbstractField
    kernel: AbstractKernel  # at the medians of its scales
    inducing: Float[Array, "inducing dim"]
    rest: Float[Array, " rest"]
    spread: LearnedScales = eqx.field(static=True)
    description: str = eqx.field(static=True)

    @property
    def num_scales(self) -> int:
        return num_scales(self.kernel)

    @property
    def num_coordinates(self) -> int:
        return self.num_scales + len(self.inducing) + len(self.rest)

    def value(self, coordinates: Float[Array, " coordinate"]) -> Float[Array, " weight"]:
        count = self.num_scales
        own = count + len(self.inducing)
        scales = self.scales(coordinates)
        factor = covariance_factor(with_scales(self.kernel, scales), self.inducing)
        weights = jsp.linalg.solve_triangular(factor, coordinates[count:own], lower=True, trans=1)
        return jnp.concatenate([scales, weights, self.rest * coordinates[own:]])

    def scales(self, coordinates: Float[Array, " coordinate"]) -> Float[Array, " scale"]:
        """The sd and the length scales."""
        count = self.num_scales
        moved = coordinates[1:count] * self.spread.length
        lengths = known_length_scale(self.kernel) * jnp.exp(moved)
        return jnp.concatenate(
            [(self.kernel.sd * jnp.exp(coordinates[0] * self.spread.sd))[None], lengths]
        )

    def labels(self) -> tuple[str, ...]:
        return scale_labels(self.num_scales - 1) + tuple(
            map(str, range(len(self.inducing) + len(self.rest)))
        )

    def describe(self) -> str:
        return self.description


class ScaledNodes(AbstractFieldLatent):
    """The same, where `z` holds the field's values at the nodes."""

    field: AbstractField
    weights: ScaledField
    nodes: Float[Array, "node dim"]

    @property
    def num_scales(self) -> int:
        return self.weights.num_scales

    @property
    def num_coordinates(self) -> int:
        return self.weights.num_coordinates

    def value(self, coordinates: Float[Array, " coordinate"]) -> Float[Array, " node"]:
        return self.given(coordinates[: self.num_scales], coordinates[self.num_scales :])

    def given(
        self, scales: Float[Array, " scale"], rest: Float[Array, " rest"]
    ) -> Float[Array, " node"]:
        kernel = with_scales(self.weights.kernel, self.weights.scales(scales))
        factor = covariance_factor(kernel, self.weights.inducing)
        weights = jsp.linalg.solve_triangular(factor, rest, lower=True, trans=1)
        return covariances(kernel, self.nodes, self.weights.inducing) @ weights

    def labels(self) -> tuple[str, ...]:
        return self.weights.labels()

    def describe(self) -> str:
        return self.weights.describe()


def scale_labels(num_lengths: int) -> tuple[str, ...]:
    if num_lengths == 1:
        return ("log_sd", "log_length")
    return ("log_sd", *(f"log_length_{axis}" for axis in range(num_lengths)))


def num_scales(kernel: AbstractKernel) -> int:
    """One sd, and a length for all axes or one for each."""
    return 1 + len(known_length_scale(kernel))


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
