r"""Gaussian processes through a few inducing points: the projected process.

With inducing points $Z$, $K_{ZZ} = L L^\top$ and standard normal $\xi$,
$g(x) = m(x) + k(x, Z)\,w$ with $w = L^{-\top}\xi$ has the covariance
$k(x, Z)\,K_{ZZ}^{-1}\,k(Z, y)$: exactly the kernel at the inducing points, and never more than it
elsewhere (Quinonero-Candela & Rasmussen 2005, "subset of regressors").

Scales of a field that are unknown too: log-normal about those of its kernel.
"""

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
import scipy.linalg as sla
from jaxtyping import Array, Float, Int

from riesz.arrays import on_device
from riesz.errors import RieszError
from riesz.mesh.mesh import Mesh
from riesz.priors.field import (
    ALL,
    AbstractField,
    AbstractFieldLatent,
    AbstractPlaceField,
    Chosen,
    GaussianField,
    Mean,
    NodalField,
    Scalar,
    Transform,
    Weights,
    apply_transform,
    apply_transform_on_host,
    as_mean,
    mean_at,
    mean_at_nodes,
    mean_at_places,
    over_nodes,
    range_text,
)
from riesz.priors.kernels import AbstractKernel, kernel_on, length_scale_of
from riesz.priors.latent import AbstractFieldPrior
from riesz.priors.representatives import format_request, spread_nodes
from riesz.priors.scales import (
    Factor,
    LearnedScales,
    Places,
    covariance_factor,
    covariances,
    inducing_factor,
    num_scales,
    rescale_kernel,
    scale_labels,
    with_scales,
)

PLACES_OF_REPORT = 500
"""At so many nodes the variance that the inducing points keep is measured."""


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

    def value(self, coordinates: Float[Array, " coordinate"]) -> Weights:
        return self.value_given(coordinates[: self.num_scales], coordinates[self.num_scales :])

    def value_given(self, scales: Float[Array, " scale"], rest: Float[Array, " others"]) -> Weights:
        result, own = self.scales(scales), len(self.inducing)
        factor = covariance_factor(with_scales(self.kernel, result), self.inducing)
        weights = jsp.linalg.solve_triangular(factor, rest[:own], lower=True, trans=1)
        return jnp.concatenate([result, weights, self.rest * rest[own:]])

    def of_draws(
        self, draws: Float[np.ndarray, "draw coordinate"]
    ) -> Float[np.ndarray, "draw weight"]:
        count, own = self.num_scales, len(self.inducing)
        result = np.empty(draws.shape)
        result[:, count + own :] = np.asarray(self.rest) * draws[:, count + own :]
        places = np.asarray(self.inducing, float)
        for scales, rows in by_scales(draws[:, :count]):
            kernel = rescale_kernel(self.kernel, self.spread, scales)
            factor = inducing_factor(kernel, places)
            result[rows, 0], result[rows, 1:count] = kernel.sd, kernel.lengths
            rest = draws[rows, count : count + own]
            result[rows, count : count + own] = sla.solve_triangular(
                factor, rest.T, lower=True, trans=1
            ).T
        return result

    def scales(self, coordinates: Float[Array, " coordinate"]) -> Float[Array, " scale"]:
        """The sd and the length scales."""
        count = self.num_scales
        moved = coordinates[1:count] * self.spread.length
        lengths = length_scale_of(self.kernel) * jnp.exp(moved)
        return jnp.concatenate(
            [(self.kernel.sd * jnp.exp(coordinates[0] * self.spread.sd))[None], lengths]
        )

    def growth(self) -> Float[np.ndarray, " others"]:
        """By how much the logarithm of what each other coordinate adds grows with the first."""
        return np.repeat([self.spread.sd, 0.0], [len(self.inducing), len(self.rest)])

    def labels(self) -> tuple[str, ...]:
        return scale_labels(self.num_scales - 1) + tuple(
            map(str, range(len(self.inducing) + len(self.rest)))
        )

    def describe(self) -> str:
        return self.description


class ScaledNodes(AbstractFieldLatent):
    """The same, where `z` holds the field's values at the nodes."""

    field: AbstractField  # nodal
    weights: ScaledField
    nodes: Float[Array, "node dim"]

    @property
    def num_scales(self) -> int:
        return self.weights.num_scales

    @property
    def num_coordinates(self) -> int:
        return self.weights.num_coordinates

    def value(self, coordinates: Float[Array, " coordinate"]) -> Float[Array, " node"]:
        return self.value_given(coordinates[: self.num_scales], coordinates[self.num_scales :])

    def value_given(
        self, scales: Float[Array, " scale"], rest: Float[Array, " rest"]
    ) -> Float[Array, " node"]:
        kernel = with_scales(self.weights.kernel, self.weights.scales(scales))
        factor = covariance_factor(kernel, self.weights.inducing)
        weights = jsp.linalg.solve_triangular(factor, rest, lower=True, trans=1)
        return covariances(kernel, self.nodes, self.weights.inducing) @ weights

    def responses(
        self, rows: Float[np.ndarray, "row node"], scales: Float[np.ndarray, " scale"]
    ) -> Float[np.ndarray, "row rest"]:
        """What each of the other coordinates adds to sums over the nodes, on the host."""
        factor, near = self.on_host(scales)
        return sla.solve_triangular(factor, near @ rows.T, lower=True).T

    def of_draws(
        self, draws: Float[np.ndarray, "draw coordinate"]
    ) -> Float[np.ndarray, "draw node"]:
        result = np.empty((len(draws), len(self.nodes)))
        for scales, rows in by_scales(draws[:, : self.num_scales]):
            factor, near = self.on_host(scales)
            rest = draws[rows, self.num_scales :]
            result[rows] = sla.solve_triangular(factor, rest.T, lower=True, trans=1).T @ near
        return result

    def on_host(
        self, scales: Float[np.ndarray, " scale"]
    ) -> tuple[Factor, Float[np.ndarray, "inducing node"]]:
        """The factor of the inducing points' covariance, and their covariances with the nodes."""
        kernel = rescale_kernel(self.weights.kernel, self.weights.spread, scales)
        places = np.asarray(self.weights.inducing, float)
        return inducing_factor(kernel, places), kernel.matrix(places, np.asarray(self.nodes, float))

    def at_some(self, chosen: Int[np.ndarray, " chosen"]) -> "ScaledNodes":
        """The same unknown at some of the nodes only."""
        nodes = on_device(np.asarray(self.nodes)[chosen])
        field = eqx.tree_at(
            lambda own: own.mean,
            self.field,
            replace_fn=lambda mean: on_device(np.asarray(mean)[chosen]),
        )
        return ScaledNodes(field, self.weights, nodes)

    def labels(self) -> tuple[str, ...]:
        return self.weights.labels()

    def describe(self) -> str:
        return self.weights.describe()


def by_scales(
    scales: Float[np.ndarray, "draw scale"],
) -> Iterator[tuple[Float[np.ndarray, " scale"], Int[np.ndarray, " row"]]]:
    """Scales that occur, and the draws that share them."""
    every, which = np.unique(scales, axis=0, return_inverse=True)
    for number, own in enumerate(every):
        yield own, np.flatnonzero(which.reshape(-1) == number)


class KernelField(AbstractPlaceField):
    """Kernels centred at inducing points, with a weight each; a function of the place alone."""

    kernel: AbstractKernel
    inducing: Float[Array, "inducing dim"]
    nodes: Float[Array, "node dim"]
    mean: Mean = eqx.field(static=True)
    transform: Transform | None = eqx.field(static=True)
    learned: bool = eqx.field(static=True, default=False)  # the first weights are the scales

    @property
    def num_weights(self) -> int:
        return len(self.inducing) + (num_scales(self.kernel) if self.learned else 0)

    def at_place(self, x: Float[Array, " dim"], weights: Weights) -> Scalar:
        kernel = self.kernel
        if self.learned:
            count = num_scales(kernel)
            kernel, weights = with_scales(kernel, weights[:count]), weights[count:]
        covariances = jax.vmap(lambda inducing: kernel(x, inducing))(self.inducing)
        return apply_transform(self.transform, mean_at(self.mean, x) + covariances @ weights)

    @property
    def is_log(self) -> bool:
        return self.transform is jnp.exp

    def nodal(self, weights: Weights) -> Float[Array, " node"]:
        return over_nodes(lambda x: self.at_place(x, weights), self.nodes)

    def nodal_draws(
        self, weights: Float[np.ndarray, "draw weight"], some: Chosen = ALL
    ) -> Float[np.ndarray, "draw chosen"]:
        return self.draws_at(np.asarray(self.nodes, float)[some], weights)

    def draws_at(
        self, points: Float[np.ndarray, "point dim"], weights: Float[np.ndarray, "draw weight"]
    ) -> Float[np.ndarray, "draw point"]:
        """Anywhere, on the host."""
        weights, places = np.asarray(weights, float), np.asarray(self.inducing, float)
        count = num_scales(self.kernel) if self.learned else 0
        values = np.tile(mean_at_places(self.mean, points), (len(weights), 1))
        own = self.kernel.on_host()
        for scales, rows in by_scales(weights[:, :count]):
            kernel = own._replace(sd=scales[0], lengths=scales[1:]) if self.learned else own
            values[rows] += weights[rows, count:] @ kernel.matrix(places, points)
        return apply_transform_on_host(self.transform, values)


def as_inducing(value: Any) -> int | Places:
    if isinstance(value, int | np.integer):
        return int(value)
    return np.atleast_2d(np.asarray(value, float))


class GP(AbstractFieldPrior):
    """A Gaussian process with the given covariance, represented by inducing points.

    `inducing` is how many nodes of the mesh to choose, far from each other, or the points
    themselves. `mean` is a number or a function of one place; `transform` turns the Gaussian value
    at each point into the quantity. With `learned` the kernel's scales are unknown as well: its own
    are then their medians. With `at_nodes` the field is evaluated at the nodes and linear between
    them: better for engines that solve on the whole mesh, worse for those on mini-patches.
    """

    kernel: AbstractKernel
    inducing: int | Places = eqx.field(default=50, converter=as_inducing)
    mean: Mean = eqx.field(static=True, default=0.0, converter=as_mean)
    transform: Transform | None = eqx.field(static=True, default=None)
    learned: LearnedScales | None = eqx.field(static=True, default=None)
    at_nodes: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        if isinstance(self.inducing, int) and self.inducing < 1:
            raise RieszError(f"inducing is {self.inducing}: give at least one point.")

    def on(self, mesh: Mesh) -> GaussianField | ScaledField | ScaledNodes:
        kernel = kernel_on(self.kernel, mesh)
        places = inducing_points(self.inducing, mesh, kernel)
        factor = inducing_factor(kernel, places)
        nodes = on_device(mesh.nodes)
        mean = mean_at_nodes(self.mean, mesh)
        description = (
            f"GP field, {kernel.describe()}, {len(places)} inducing points"
            f"{format_request(self.inducing, len(places))} keep "
            f"{100 * inducing_variance(kernel, places, factor, mesh.nodes):.1f} % of the variance, "
            f"{range_text(mean, np.atleast_1d(np.asarray(kernel.sd)), self.transform)}"
        )
        learned, device_places = self.learned, on_device(places)
        nodal = NodalField(on_device(mean), self.transform)
        field = KernelField(
            kernel, device_places, nodes, self.mean, self.transform, learned is not None
        )
        if learned is not None:
            description += f"; sd and length learned, {learned.describe()}"
            own = ScaledField(
                field, kernel, device_places, on_device(np.zeros(0)), learned, description
            )
            return ScaledNodes(nodal, own, nodes) if self.at_nodes else own
        whitening = sla.solve_triangular(factor, np.eye(len(places)), lower=True).T
        if self.at_nodes:
            at_nodes = on_device(kernel.matrix(mesh.nodes, places) @ whitening)
            return GaussianField(nodal, description, mesh.num_nodes, at_nodes)
        return GaussianField(field, description, len(places), on_device(whitening))


def LogGP(
    kernel: AbstractKernel,
    inducing: Any = 50,
    median: Mean = 1.0,
    learned: LearnedScales | None = None,
    *,
    at_nodes: bool = False,
) -> GP:
    """A positive field whose logarithm is a Gaussian process about that of its median.

    The kernel's `sd` is then the spread of the logarithm: 1 allows factors of 1/7 to 7.
    """
    if callable(median):
        return GP(
            kernel, inducing, lambda x: jnp.log(median(x)), jnp.exp, learned, at_nodes=at_nodes
        )
    if not (np.isfinite(median) and median > 0):
        raise RieszError(f"the median of a positive field is {median}: it must be positive.")
    return GP(kernel, inducing, float(np.log(median)), jnp.exp, learned, at_nodes=at_nodes)


def inducing_points(inducing: int | Places, mesh: Mesh, kernel: AbstractKernel) -> Places:
    """The points given, found to fit the mesh, or nodes of it; all of them where it has few."""
    if isinstance(inducing, int):
        scales = np.asarray(kernel.length_scale)
        return mesh.nodes[spread_nodes(mesh, min(inducing, mesh.num_nodes), scales)]
    if inducing.shape[1] != mesh.dim or not np.isfinite(inducing).all():
        raise RieszError(
            f"the inducing points have shape {inducing.shape}, or are not finite: give one row of "
            f"{mesh.dim} coordinates a point, or their number."
        )
    if len(np.unique(inducing, axis=0)) < len(inducing):
        raise RieszError("some inducing points are given more than once: give each once.")
    return inducing


def inducing_variance(
    kernel: AbstractKernel, places: Places, factor: Factor, nodes: Float[np.ndarray, "node dim"]
) -> float:
    """The share of the kernel's variance that the projected process has, averaged over nodes."""
    some = nodes[:: max(1, len(nodes) // PLACES_OF_REPORT)]
    whitened = sla.solve_triangular(factor, kernel.matrix(places, some), lower=True)
    return float(np.mean(np.sum(whitened**2, axis=0)) / float(kernel.sd) ** 2)
