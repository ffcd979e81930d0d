r"""Gaussian processes through a few inducing points: the projected process.

With inducing points $Z$, $K_{ZZ} = L L^\top$ and standard normal $\xi$,
$g(x) = m(x) + k(x, Z)\,w$ with $w = L^{-\top}\xi$ has the covariance
$k(x, Z)\,K_{ZZ}^{-1}\,k(Z, y)$: exactly the kernel at the inducing points, and never more than it
elsewhere (Quinonero-Candela & Rasmussen 2005, "subset of regressors").

Scales of a field that are unknown too: log-normal about those of its kernel. Values on a boundary
that nobody measured: a Gaussian process about an unknown linear trend. Unknown histories: Gaussian
processes in time, at the times of a series.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import scipy.linalg as sla
from jaxtyping import Array, Float, Int

from riesz.arrays import AnyArray, as_like, beside, linalg_of, numpy_of, on_device
from riesz.errors import RieszError
from riesz.mesh.facets import boundary_node_mask
from riesz.mesh.mesh import Mesh
from riesz.priors import fields
from riesz.priors.kernels import (
    AbstractKernel,
    LearnedScales,
    Places,
    Scales,
    covariance_factor,
    kernel_on,
    num_scales,
    scale_labels,
    with_scales,
)
from riesz.priors.latent import AbstractFieldPrior
from riesz.priors.representatives import farthest_points, format_request, spread_nodes

PLACES_OF_REPORT = 500
"""At so many nodes the variance that the inducing points keep is measured."""


class Trend(eqx.Module):
    """A level, and slopes as the change from the centre to the far side."""

    centre: Float[Array, " dim"]
    half_length: Float[Array, ""]

    def columns(self, points: Float[AnyArray, "point dim"]) -> Float[AnyArray, "point column"]:
        centre, half = (as_like(one, points) for one in (self.centre, self.half_length))
        xp, away = numpy_of(points), (points - centre[None]) / half
        return xp.hstack([xp.ones_like(away[:, :1]), away])


class KernelField(fields.AbstractArrayField, fields.AbstractPlaceField):
    """Kernels centred at inducing points, with a weight each, and maybe a linear function beside
    them; of the place alone."""

    kernel: AbstractKernel
    inducing: Float[Array, "inducing dim"]
    nodes: Float[Array, "node dim"]
    mean: fields.Mean = eqx.field(static=True)
    transform: fields.Transform | None = eqx.field(static=True)
    learned: bool = eqx.field(static=True, default=False)  # the first weights are the scales
    trend: Trend | None = None

    @property
    def num_scales(self) -> int:
        return num_scales(self.kernel) if self.learned else 0

    def at_place(self, x: Float[Array, " dim"], weights: fields.Weights) -> fields.Scalar:
        count = self.num_scales
        return self.at_places(x[None], weights[:count], weights[None, count:])[0, 0]

    def at_places(
        self,
        points: Float[AnyArray, "point dim"],
        scales: Scales,
        rest: Float[AnyArray, "draw rest"],
    ) -> Float[AnyArray, "draw point"]:
        """Anywhere, for draws that share scales."""
        mean = fields.mean_at_places(self.mean, points)
        return fields.apply_transform(
            self.transform, mean[None] + rest @ self.columns(points, scales).T
        )

    def columns(
        self, points: Float[AnyArray, "point dim"], scales: Scales
    ) -> Float[AnyArray, "point rest"]:
        """What is weighted: before the mean and the transform."""
        kernel = with_scales(self.kernel, scales) if self.learned else self.kernel
        columns = kernel.matrix(points, as_like(self.inducing, points))
        if self.trend is None:
            return columns
        return numpy_of(points).hstack([columns, self.trend.columns(points)])

    @property
    def is_log(self) -> bool:
        return self.transform is jnp.exp

    def nodal(self, weights: fields.AnyWeights, some: fields.Chosen = fields.ALL) -> fields.AtNodes:
        nodes = as_like(self.nodes, weights)[some]
        if isinstance(weights, np.ndarray):
            return fields.by_scales(
                lambda *own: self.at_places(nodes, *own), weights, self.num_scales
            )
        return fields.over_nodes(lambda x: self.at_place(x, weights), nodes)


class ScaledField(fields.AbstractArrayLatent):
    """A field by kernels whose first coordinates are those of its sd and length scales.

    What `z` holds are the scales themselves, the kernels' weights, and those of a trend, each with
    its own sd.
    """

    field: Any  # a KernelField, at the medians of its scales
    trend_sd: Float[Array, " rest"]
    spread: LearnedScales = eqx.field(static=True)
    description: str = eqx.field(static=True)

    @property
    def num_scales(self) -> int:
        return self.field.num_scales

    @property
    def num_rest(self) -> int:
        return len(self.field.inducing) + len(self.trend_sd)

    @property
    def num_coordinates(self) -> int:
        return self.num_scales + self.num_rest

    def value_given(self, scales: Scales, rest: fields.Rest) -> fields.WeightColumns:
        xp, kernel, places = numpy_of(rest), self.field.kernel, as_like(self.field.inducing, rest)
        own = self.spread.scales(kernel, scales)
        factor = covariance_factor(with_scales(kernel, own), places)
        white, others = rest[: len(places)], rest[len(places) :]
        weights = linalg_of(rest).solve_triangular(factor, white, lower=True, trans=1)
        same = xp.broadcast_to(beside(own, rest), (len(own), *rest.shape[1:]))
        trend = beside(as_like(self.trend_sd, rest), rest) * others
        return xp.concatenate([same, weights, trend])

    def linear_parts(
        self, points: Float[AnyArray, "point dim"], scales: Scales, rest: AnyArray
    ) -> tuple[Float[AnyArray, "point weight"], Float[AnyArray, " weight *draw"]]:
        """Columns and their weights, whose product is the field without its mean at points."""
        own, weights = self.num_scales, self.value_given(scales, rest)
        return self.field.columns(points, weights[:own].reshape(own, -1)[:, 0]), weights[own:]

    def growth(self) -> Float[np.ndarray, " others"]:
        """By how much the logarithm of what each other coordinate adds grows with the first."""
        return np.repeat([self.spread.sd, 0.0], [len(self.field.inducing), len(self.trend_sd)])

    def labels(self) -> tuple[str, ...]:
        return scale_labels(self.num_scales - 1) + tuple(map(str, range(self.num_rest)))


class ScaledNodes(fields.AbstractArrayLatent):
    """The same, where `z` holds the field's values at the nodes."""

    field: fields.AbstractField  # nodal
    weights: ScaledField

    @property
    def num_scales(self) -> int:
        return self.weights.num_scales

    @property
    def num_coordinates(self) -> int:
        return self.weights.num_coordinates

    def value_given(self, scales: Scales, rest: fields.Rest) -> fields.WeightColumns:
        nodes = as_like(self.weights.field.nodes, rest)
        columns, weights = self.weights.linear_parts(nodes, scales, rest)
        return columns @ weights

    def at_some(self, chosen: Int[np.ndarray, " chosen"]) -> "ScaledNodes":
        """The same unknown at some of the nodes only."""
        return eqx.tree_at(
            lambda own: (own.field.mean, own.weights.field.nodes),
            self,
            replace_fn=lambda values: on_device(np.asarray(values)[chosen]),
        )

    def labels(self) -> tuple[str, ...]:
        return self.weights.labels()

    def describe(self) -> str:
        return self.weights.describe()


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
    them: better for densities that solve on the whole mesh, worse for those on mini-patches.
    """

    kernel: AbstractKernel
    inducing: int | Places = eqx.field(default=50, converter=as_inducing)
    mean: fields.Mean = eqx.field(static=True, default=0.0, converter=fields.as_mean)
    transform: fields.Transform | None = eqx.field(static=True, default=None)
    learned: LearnedScales | None = eqx.field(static=True, default=None)
    at_nodes: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        if isinstance(self.inducing, int) and self.inducing < 1:
            raise RieszError(f"inducing is {self.inducing}: give at least one point.")

    def on(self, mesh: Mesh) -> fields.GaussianField | ScaledField | ScaledNodes:
        kernel = kernel_on(self.kernel, mesh)
        places = inducing_points(self.inducing, mesh, kernel)
        factor = covariance_factor(kernel, places)
        nodes = on_device(mesh.nodes)
        mean = fields.mean_at_nodes(self.mean, mesh)
        description = (
            f"GP field, {kernel.describe()}, {len(places)} inducing points"
            f"{format_request(self.inducing, len(places))} keep "
            f"{100 * inducing_variance(kernel, places, factor, mesh.nodes):.1f} % of the variance, "
            f"{fields.range_text(mean, np.atleast_1d(np.asarray(kernel.sd)), self.transform)}"
        )
        learned, device_places = self.learned, on_device(places)
        nodal = fields.NodalField(on_device(mean), self.transform)
        field = KernelField(
            kernel, device_places, nodes, self.mean, self.transform, learned is not None
        )
        if learned is not None:
            description += f"; sd and length learned, {learned.describe()}"
            own = ScaledField(field, on_device(np.zeros(0)), learned, description)
            return ScaledNodes(nodal, own) if self.at_nodes else own
        whitening = sla.solve_triangular(factor, np.eye(len(places)), lower=True).T
        if self.at_nodes:
            at_nodes = on_device(kernel.matrix(mesh.nodes, places) @ whitening)
            return fields.GaussianField(nodal, description, mesh.num_nodes, at_nodes)
        return fields.GaussianField(field, description, len(places), on_device(whitening))


def LogGP(
    kernel: AbstractKernel,
    inducing: Any = 50,
    median: fields.Mean = 1.0,
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
    kernel: AbstractKernel, places: Places, factor: Any, nodes: Float[np.ndarray, "node dim"]
) -> float:
    """The share of the kernel's variance that the projected process has, averaged over nodes."""
    some = nodes[:: max(1, len(nodes) // PLACES_OF_REPORT)]
    whitened = sla.solve_triangular(factor, kernel.matrix(places, some), lower=True)
    return float(np.mean(np.sum(whitened**2, axis=0)) / float(kernel.sd) ** 2)


def as_trend_sd(value: Any) -> float | None:
    return None if value is None else float(value)


class BoundaryGP(AbstractFieldPrior):
    r"""Values on a boundary, $g(x) = m(x) + \beta_0 + \beta\cdot(x - c)/L + \text{GP}(x)$.

    Away from measurements a field with a fixed mean falls back to it; a boundary that is higher in
    the west than in the east does not. So level and slopes are unknown too, each normal with
    `trend_sd` in the unit of the values (by default the kernel's `sd`); $c$ is the middle of the
    domain and $L$ half its longest side. `inducing` is how many nodes of the boundary stand for it.
    With `learned` the kernel's scales are unknown as well: its own are then their medians.
    """

    kernel: AbstractKernel
    mean: fields.Mean = eqx.field(static=True, default=0.0, converter=fields.as_mean)
    trend_sd: float | None = eqx.field(static=True, default=None, converter=as_trend_sd)
    inducing: int = eqx.field(static=True, default=12)
    learned: LearnedScales | None = eqx.field(static=True, default=None)

    def __check_init__(self):
        if self.inducing < 1:
            raise RieszError(f"inducing is {self.inducing}: give at least one point.")
        if self.trend_sd is not None and not 0 < self.trend_sd < np.inf:
            raise RieszError(f"trend_sd is {self.trend_sd}: it must be positive and finite.")

    def on(self, mesh: Mesh) -> fields.GaussianField | ScaledField:
        kernel = kernel_on(self.kernel, mesh)
        rim = mesh.nodes[boundary_node_mask(mesh)]
        scales = np.asarray(kernel.length_scale)
        places = rim[farthest_points(rim / scales, min(self.inducing, len(rim)))]
        factor = covariance_factor(kernel, places)
        trend_sd = float(kernel.sd) if self.trend_sd is None else self.trend_sd
        low, high = mesh.nodes.min(axis=0), mesh.nodes.max(axis=0)
        learned, device_places, nodes = self.learned, on_device(places), on_device(mesh.nodes)
        trend = Trend(on_device((low + high) / 2), on_device((high - low).max() / 2))
        field = KernelField(
            kernel, device_places, nodes, self.mean, None, learned is not None, trend
        )
        spread = np.atleast_1d(np.hypot(float(kernel.sd), trend_sd))
        middle = fields.range_text(fields.mean_at_nodes(self.mean, mesh), spread, None)
        description = (
            f"boundary GP, {kernel.describe()}, {len(places)} points of the boundary"
            f"{format_request(self.inducing, len(places))} keep "
            f"{100 * inducing_variance(kernel, places, factor, rim):.1f} % of the variance, about "
            f"a linear trend with sd {trend_sd:.4g}, {middle} in the middle"
        )
        if learned is not None:
            description += f"; its sd and length learned, {learned.describe()}"
            spreads = on_device(np.full(1 + mesh.dim, trend_sd))
            return ScaledField(field, spreads, learned, description)
        whitening = sla.solve_triangular(factor, np.eye(len(places)), lower=True).T
        whitening = sla.block_diag(whitening, trend_sd * np.eye(1 + mesh.dim))
        count = len(places) + 1 + mesh.dim
        return fields.GaussianField(field, description, count, on_device(whitening))


JITTER = 1e-10
"""Of the variance, added to it: smooth processes are nearly singular at times that are close."""


def process_in_time(kernel: AbstractKernel, times: Any, *, mean: Any = 0.0) -> dist.Distribution:
    """The prior of an unknown with one number a time, such as a rate, for `series(times, name)`.

    `kernel` has a length scale in units of time; `mean` is one number, or one a time.
    """
    at = np.asarray(times, float)
    if at.ndim != 1 or not len(at):
        raise RieszError(f"the times of a process have shape {at.shape}: give a list of numbers.")
    if not np.isfinite(at).all():
        raise RieszError("the times of a process have NaN or infinite values: remove them.")
    matrix = kernel.matrix(at[:, None], at[:, None])
    steadied = matrix + JITTER * matrix[0, 0] * np.eye(len(at))
    level = np.broadcast_to(np.asarray(mean, float), at.shape)
    factor = np.linalg.cholesky(steadied)
    return dist.MultivariateNormal(jnp.asarray(level), scale_tril=jnp.asarray(factor))
