"""Covariance functions of Gaussian fields (Rasmussen & Williams 2006, chapter 4).

Each is a profile of the distance in length scales. One formula serves the device, where fields
are evaluated in the problem's precision, and the host, where matrices are factorised in float64. No
prior is needed for kernels with learned scales either, so that predictions from kept draws import
none.
"""

import dataclasses
from abc import abstractmethod
from functools import partial
from types import ModuleType
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.spatial.distance import cdist

from riesz.arrays import AnyArray, numpy_of, on_device
from riesz.errors import RieszError
from riesz.fem.terms.coefficient import is_traced
from riesz.mesh.mesh import Mesh

DOMAIN_SHARE = 0.25
"""The length scale, as a share of the domain's longest side, where none is given."""

TINY = 1e-30
"""Added to squared distances, so that the derivative of a distance is zero where it is zero."""


def as_length_scale(value: Any) -> Float[Array, " axis"] | None:
    if value is None or isinstance(value, jax.Array):
        return None if value is None else jnp.atleast_1d(value)
    return on_device(np.atleast_1d(value), float)


class AbstractKernel(eqx.Module):
    """The covariance of a stationary field: `sd` squared times a profile of the distance.

    `length_scale` is a length in the mesh's unit, one for all axes or one for each; None stands
    for a quarter of the domain's longest side.
    """

    length_scale: Float[Array, " axis"] | None = eqx.field(default=None, converter=as_length_scale)
    sd: Float[Array, ""] = eqx.field(default=1.0, converter=partial(on_device, dtype=float))

    def __check_init__(self):
        for name, value in (("length_scale", self.length_scale), ("sd", self.sd)):
            if value is None or is_traced(value):
                continue
            array = np.asarray(value)
            if not (np.isfinite(array).all() and (array > 0).all()):
                raise RieszError(
                    f"the {name} of {type(self).__name__} is {array.tolist()}: it must be positive."
                )

    @abstractmethod
    def profile(self, squared: Any, xp: ModuleType) -> Any:
        """The correlation at a squared distance in length scales; `xp` is NumPy or JAX's."""

    def __call__(self, x: Float[Array, " dim"], y: Float[Array, " dim"]) -> Float[Array, ""]:
        """The covariance of the field's values at two points."""
        return self.matrix(x[None], y[None])[0, 0]

    def matrix(
        self, points: Float[AnyArray, "point dim"], others: Float[AnyArray, "other dim"]
    ) -> Float[AnyArray, "point other"]:
        """Covariances between points: those of NumPy's arrays in float64."""
        xp, sd, lengths = numpy_of(points), self.sd, length_scale_of(self)
        if xp is np:
            sd, lengths = float(sd), np.asarray(lengths, float)
            squared = cdist(points / lengths, others / lengths, "sqeuclidean")
        else:
            scaled = (points[:, None] - others[None]) / lengths[None, None]
            squared = xp.sum(scaled**2, axis=-1)
        return sd**2 * self.profile(squared, xp)

    def describe(self) -> str:
        scales = " x ".join(f"{scale:.4g}" for scale in np.asarray(length_scale_of(self)))
        return f"{type(self).__name__} with length scale {scales} and sd {float(self.sd):.4g}"


class Matern12(AbstractKernel):
    r"""$\sigma^2 e^{-r}$: continuous, nowhere smooth; the exponential covariance."""

    def profile(self, squared: Any, xp: ModuleType) -> Any:
        return xp.exp(-xp.sqrt(squared + TINY))


class Matern32(AbstractKernel):
    r"""$\sigma^2 (1 + \sqrt3\,r)\,e^{-\sqrt3\,r}$: once differentiable."""

    def profile(self, squared: Any, xp: ModuleType) -> Any:
        distance = xp.sqrt(3 * squared + TINY)
        return (1 + distance) * xp.exp(-distance)


class Matern52(AbstractKernel):
    r"""$\sigma^2 (1 + \sqrt5\,r + \tfrac53 r^2)\,e^{-\sqrt5\,r}$: twice differentiable."""

    def profile(self, squared: Any, xp: ModuleType) -> Any:
        distance = xp.sqrt(5 * squared + TINY)
        return (1 + distance + distance**2 / 3) * xp.exp(-distance)


class RBF(AbstractKernel):
    r"""$\sigma^2 e^{-r^2/2}$: smooth to any order."""

    def profile(self, squared: Any, xp: ModuleType) -> Any:
        return xp.exp(-squared / 2)


def length_scale_of(kernel: AbstractKernel) -> Float[AnyArray, " axis"]:
    if kernel.length_scale is None:
        raise RieszError(
            f"{type(kernel).__name__} has no length scale: give length_scale=..., or use it in a "
            "prior over fields, which takes it from the domain."
        )
    return kernel.length_scale


def length_scale_on(mesh: Mesh) -> float:
    """What is taken where none is given."""
    return DOMAIN_SHARE * float(np.ptp(mesh.nodes, axis=0).max())


def kernel_on(kernel: AbstractKernel, mesh: Mesh) -> AbstractKernel:
    """The kernel with a length scale for this domain, found to fit its dimension."""
    if kernel.length_scale is None:
        return dataclasses.replace(kernel, length_scale=length_scale_on(mesh))
    if len(kernel.length_scale) not in (1, mesh.dim):
        raise RieszError(
            f"the kernel has {len(kernel.length_scale)} length scales, but the mesh has "
            f"{mesh.dim} dimensions: give one for all axes or one for each."
        )
    return kernel


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
