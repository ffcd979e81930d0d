r"""Gaussian fields with one unknown a node: a Matern field as the solution of a stochastic PDE.

$(\kappa^2 - \Delta)\,g = \tau^{-1} W$ with white noise $W$ has a Matern covariance of smoothness
$2 - d/2$ (Whittle; Lindgren, Rue & Lindstrom 2011). With finite elements and a lumped mass matrix
$M$, $A g = \tau^{-1} M^{1/2} \xi$: a sparse solve turns standard normal numbers, one a node, into
the field, and its precision is the bi-Laplacian $\tau^2 A M^{-1} A$.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from riesz.errors import RieszError
from riesz.fem.assembly import matrix
from riesz.fem.linear.linear_solve import SparseLU
from riesz.fem.linear.sparse import SparseMatrix, SparsePattern
from riesz.fem.terms.weakform import diffusion, reaction, robin
from riesz.latent.field import (
    AbstractField,
    AbstractFieldLatent,
    Mean,
    NodalField,
    Transform,
    check_mean,
    mean_at_nodes,
    range_text,
)
from riesz.latent.kernels import length_scale_on
from riesz.latent.latent import AbstractFieldPrior
from riesz.latent.representatives import node_volumes, spread_nodes
from riesz.latent.scales import LearnedScales, scale_labels
from riesz.mesh.mesh import Mesh

BOUNDARY_LENGTH = 1.42
"""Of a Robin condition, in units of 1 / kappa: with it the variance hardly rises at the boundary
(Daon & Stadler 2018), where with no flux it would double."""

CALIBRATED_NODES = 64
"""Nodes over which the variance is held to what was asked for."""


class NodalLatent(AbstractFieldLatent):
    """An unknown with one standard normal coordinate a node."""

    field: AbstractField
    operator: SparseMatrix  # A, scaled by tau
    root_volumes: Float[Array, " node"]
    description: str = eqx.field(static=True)

    @property
    def num_coordinates(self) -> int:
        return len(self.root_volumes)

    def value(self, coordinates: Float[Array, " coordinate"]) -> Float[Array, " node"]:
        return SparseLU()(self.operator, self.root_volumes * coordinates)

    def describe(self) -> str:
        return self.description


class ScaledNodalLatent(AbstractFieldLatent):
    r"""The same with an sd and a length scale that are unknown too; their coordinates come first.

    The variance of the field that unit white noise makes falls with $\kappa^{-2\nu}$.
    """

    field: AbstractField
    pattern: SparsePattern
    parts: Float[Array, "3 entry"]  # of the operator: without kappa, times kappa, times its square
    root_volumes: Float[Array, " node"]
    kappa: float = eqx.field(static=True)  # at the median of the length scale
    tau: float = eqx.field(static=True)  # at both medians
    smoothness: float = eqx.field(static=True)
    spread: LearnedScales = eqx.field(static=True)
    description: str = eqx.field(static=True)

    @property
    def num_scales(self) -> int:
        return 2

    @property
    def num_coordinates(self) -> int:
        return self.num_scales + len(self.root_volumes)

    def value(self, coordinates: Float[Array, " coordinate"]) -> Float[Array, " node"]:
        return self.given(coordinates[:2], coordinates[2:])

    def given(
        self, scales: Float[Array, " scale"], rest: Float[Array, " rest"]
    ) -> Float[Array, " node"]:
        larger = jnp.exp(self.spread.sd * scales[0])
        shorter = jnp.exp(-self.spread.length * scales[1])
        powers = (self.kappa * shorter) ** jnp.arange(3, dtype=rest.dtype)
        tau = self.tau * shorter**-self.smoothness / larger
        operator = SparseMatrix(self.pattern, tau * (powers @ self.parts))
        return SparseLU()(operator, self.root_volumes * rest)

    def labels(self) -> tuple[str, ...]:
        return scale_labels(1) + tuple(map(str, range(len(self.root_volumes))))

    def describe(self) -> str:
        return self.description


class SPDEField(AbstractFieldPrior):
    """A Matern field on all nodes of the mesh, for data that may tell something anywhere.

    `sd` is its standard deviation (a mean over the domain), `length_scale` that of the Matern
    kernel (default: a quarter of the domain's longest side); `mean` is a number or a function of
    one place, `transform`, such as `jnp.exp`, turns the Gaussian value at each point into the
    quantity. With `learned` both scales are unknown as well, the given ones being their medians.
    """

    sd: float = eqx.field(static=True)
    length_scale: float | None = eqx.field(static=True, default=None)
    mean: Mean = eqx.field(static=True, default=0.0)
    transform: Transform | None = eqx.field(static=True, default=None)
    learned: LearnedScales | None = eqx.field(static=True, default=None)

    def __check_init__(self):
        check_mean(self.mean)
        for name, value in (("sd", self.sd), ("length_scale", self.length_scale)):
            if value is not None and not (np.isfinite(value) and value > 0):
                raise RieszError(f"the {name} of a field is {value}: it must be positive.")

    def on(self, mesh: Mesh) -> NodalLatent | ScaledNodalLatent:
        smoothness = 2 - mesh.dim / 2
        length_scale = length_scale_on(mesh) if self.length_scale is None else self.length_scale
        kappa = float(np.sqrt(2 * smoothness) / length_scale)
        pattern, parts = operator_parts(mesh)
        operator = SparseMatrix(pattern, kappa ** jnp.arange(3.0) @ parts)
        root_volumes = jnp.asarray(np.sqrt(node_volumes(mesh)))
        tau = np.sqrt(mean_variance(mesh, operator, root_volumes, length_scale)) / self.sd
        mean = mean_at_nodes(self.mean, mesh)
        description = (
            f"Matern field by a stochastic PDE, sd {self.sd:.4g}, length scale "
            f"{length_scale:.4g}, one unknown a node, "
            f"{range_text(mean, np.array([self.sd]), self.transform)}"
        )
        field, learned = NodalField(jnp.asarray(mean), self.transform), self.learned
        if learned is None:
            scaled = SparseMatrix(pattern, tau * operator.values)
            return NodalLatent(field, scaled, root_volumes, description)
        description += f"; sd and length learned, {learned.describe()}"
        return ScaledNodalLatent(
            *(field, pattern, parts, root_volumes),
            *(kappa, float(tau), smoothness, learned, description),
        )


def operator_parts(mesh: Mesh) -> tuple[SparsePattern, Float[Array, "3 entry"]]:
    r"""Of $-\Delta + \kappa^2$ with its boundary: the factors of $1$, $\kappa$ and $\kappa^2$."""
    forms = (diffusion(1.0), robin(1 / BOUNDARY_LENGTH, 0.0), reaction(1.0))
    # An equation needs a term over the cells, so the rim is what the condition adds to one.
    inside = matrix(mesh, forms[0])
    rim = matrix(mesh, forms[0] + forms[1]).values - inside.values
    return inside.pattern, jnp.stack([inside.values, rim, matrix(mesh, forms[2]).values])


def mean_variance(
    mesh: Mesh, operator: SparseMatrix, root_volumes: Float[Array, " node"], length_scale: float
) -> float:
    """Of the field with this operator, over nodes spread all over the domain."""
    count = min(CALIBRATED_NODES, mesh.num_nodes)
    chosen = spread_nodes(mesh, count, np.full(mesh.dim, length_scale))
    solve = SparseLU()
    units = jnp.zeros((count, mesh.num_nodes)).at[jnp.arange(count), chosen].set(1.0)
    responses = jax.vmap(lambda one: root_volumes * solve(operator, one))(units)  # one factor
    return float(jnp.mean(jnp.sum(responses**2, axis=1)))
