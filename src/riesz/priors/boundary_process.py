"""Values on a boundary that nobody measured: a Gaussian process about an unknown linear trend."""

from typing import Any

import equinox as eqx
import numpy as np
import scipy.linalg as sla

from riesz.arrays import on_device
from riesz.errors import RieszError
from riesz.mesh.facets import boundary_node_mask
from riesz.mesh.mesh import Mesh
from riesz.priors.field import GaussianField, Mean, as_mean, mean_at_nodes, range_text
from riesz.priors.gaussian_process import KernelField, ScaledField, Trend, inducing_variance
from riesz.priors.kernels import AbstractKernel, LearnedScales, covariance_factor, kernel_on
from riesz.priors.latent import AbstractFieldPrior
from riesz.priors.representatives import farthest_points, format_request


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
    mean: Mean = eqx.field(static=True, default=0.0, converter=as_mean)
    trend_sd: float | None = eqx.field(static=True, default=None, converter=as_trend_sd)
    inducing: int = eqx.field(static=True, default=12)
    learned: LearnedScales | None = eqx.field(static=True, default=None)

    def __check_init__(self):
        if self.inducing < 1:
            raise RieszError(f"inducing is {self.inducing}: give at least one point.")
        if self.trend_sd is not None and not 0 < self.trend_sd < np.inf:
            raise RieszError(f"trend_sd is {self.trend_sd}: it must be positive and finite.")

    def on(self, mesh: Mesh) -> GaussianField | ScaledField:
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
        spread = np.hypot(float(kernel.sd), trend_sd)
        description = (
            f"boundary GP, {kernel.describe()}, {len(places)} points of the boundary"
            f"{format_request(self.inducing, len(places))} keep "
            f"{100 * inducing_variance(kernel, places, factor, rim):.1f} % of the variance, about "
            f"a linear trend with sd {trend_sd:.4g}, "
            f"{range_text(mean_at_nodes(self.mean, mesh), np.atleast_1d(spread), None)} in the "
            "middle"
        )
        if learned is not None:
            description += f"; its sd and length learned, {learned.describe()}"
            spreads = on_device(np.full(1 + mesh.dim, trend_sd))
            return ScaledField(field, spreads, learned, description)
        whitening = sla.solve_triangular(factor, np.eye(len(places)), lower=True).T
        whitening = sla.block_diag(whitening, trend_sd * np.eye(1 + mesh.dim))
        count = len(places) + 1 + mesh.dim
        return GaussianField(field, description, count, on_device(whitening))
