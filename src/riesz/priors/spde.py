r"""Gaussian fields with one unknown a node: a Matern field as the solution of a stochastic PDE.

$(\kappa^2 - \Delta)\,g = \tau^{-1} W$ with white noise $W$ has a Matern covariance of smoothness
$2 - d/2$ (Whittle; Lindgren, Rue & Lindstrom 2011). With finite elements and a lumped mass matrix
$M$, $A g = \tau^{-1} M^{1/2} \xi$: a sparse solve turns standard normal numbers, one a node, into
the field, and its precision is the bi-Laplacian $\tau^2 A M^{-1} A$.
"""

from functools import partial

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from riesz.fem.assembly import jacobian
from riesz.fem.default_solver import choose_solver, map_in_parts
from riesz.fem.elements.space import P1
from riesz.fem.linear.linear_solve import AbstractLinearSolver, SparseLU
from riesz.fem.linear.sparse import SparseMatrix, SparsePattern
from riesz.fem.problem import BoundaryValueProblem, boundary_value_problem, with_form
from riesz.fem.terms.weakform import diffusion, reaction, robin
from riesz.mesh.mesh import Mesh
from riesz.priors import fields
from riesz.priors.kernels import LearnedScales, length_scale_on, scale_labels
from riesz.priors.latent import AbstractFieldPrior
from riesz.priors.representatives import node_volumes, spread_nodes

BOUNDARY_LENGTH = 1.42
"""Of a Robin condition, in units of 1 / kappa: with it the variance hardly rises at the boundary
(Daon & Stadler 2018), where with no flux it would double."""

CALIBRATED_NODES = 64
"""Nodes over which the variance is held to what was asked for."""


class NodalLatent(fields.AbstractFieldLatent):
    """An unknown with one standard normal coordinate a node."""

    field: fields.AbstractField
    operator: SparseMatrix  # A, scaled by tau
    root_volumes: Float[Array, " node"]
    description: str = eqx.field(static=True)
    solver: AbstractLinearSolver = SparseLU()
    prepared: PyTree[Array] = ()  # what its solves with the operator have in common

    @property
    def num_coordinates(self) -> int:
        return len(self.root_volumes)

    def value(self, coordinates: Float[Array, " coordinate"]) -> Float[Array, " node"]:
        rhs = self.root_volumes * coordinates
        operator = self.operator
        return self.solver.with_product(operator.__matmul__, operator, self.prepared, rhs)


class ScaledNodalLatent(fields.AbstractFieldLatent):
    r"""The same with an sd and a length scale that are unknown too; their coordinates come first.

    The variance of the field that unit white noise makes falls with $\kappa^{-2\nu}$.
    """

    num_scales = 2

    field: fields.AbstractField
    pattern: SparsePattern
    parts: Float[Array, "3 entry"]  # of the operator: without kappa, times kappa, times its square
    root_volumes: Float[Array, " node"]
    kappa: float = eqx.field(static=True)  # at the median of the length scale
    tau: float = eqx.field(static=True)  # at both medians
    smoothness: float = eqx.field(static=True)
    spread: LearnedScales = eqx.field(static=True)
    description: str = eqx.field(static=True)
    solver: AbstractLinearSolver = SparseLU()

    @property
    def num_coordinates(self) -> int:
        return self.num_scales + len(self.root_volumes)

    def value(self, coordinates: Float[Array, " coordinate"]) -> Float[Array, " node"]:
        return self.value_given(coordinates[:2], coordinates[2:])

    def value_given(
        self, scales: Float[Array, " scale"], rest: Float[Array, " rest"]
    ) -> Float[Array, " node"]:
        larger = jnp.exp(self.spread.sd * scales[0])
        shorter = jnp.exp(-self.spread.length * scales[1])
        powers = (self.kappa * shorter) ** jnp.arange(3, dtype=rest.dtype)
        tau = self.tau * shorter**-self.smoothness / larger
        operator = SparseMatrix(self.pattern, tau * (powers @ self.parts))
        return self.solver(operator, self.root_volumes * rest)

    def labels(self) -> tuple[str, ...]:
        return scale_labels(1) + tuple(map(str, range(len(self.root_volumes))))


class SPDEField(AbstractFieldPrior):
    """A Matern field on all nodes of the mesh, for data that may tell something anywhere.

    `sd` is its standard deviation (a mean over the domain), `length_scale` that of the Matern
    kernel (default: a quarter of the domain's longest side); `mean` is a number or a function of
    one place, `transform`, such as `jnp.exp`, turns the Gaussian value at each point into the
    quantity. With `learned` both scales are unknown as well, the given ones being their medians.
    """

    sd: float = eqx.field(static=True, converter=partial(fields.as_positive_number, "sd"))
    length_scale: float | None = eqx.field(
        static=True,
        default=None,
        converter=lambda given: (
            None if given is None else fields.as_positive_number("length_scale", given)
        ),
    )
    mean: fields.Mean = eqx.field(static=True, default=0.0, converter=fields.as_mean)
    transform: fields.Transform | None = eqx.field(static=True, default=None)
    learned: LearnedScales | None = eqx.field(static=True, default=None)

    def on(self, mesh: Mesh) -> NodalLatent | ScaledNodalLatent:
        smoothness = 2 - mesh.dim / 2
        length_scale = length_scale_on(mesh) if self.length_scale is None else self.length_scale
        kappa = float(np.sqrt(2 * smoothness) / length_scale)
        equation = operator_equation(mesh)
        solver = choose_solver(equation, num_rhs=CALIBRATED_NODES)
        pattern, parts = equation.pattern, operator_parts(equation)
        operator = SparseMatrix(pattern, kappa ** jnp.arange(3.0) @ parts)
        root_volumes = jnp.asarray(np.sqrt(node_volumes(mesh)))
        count = min(CALIBRATED_NODES, mesh.num_nodes)
        spread = spread_nodes(mesh, count, np.full(mesh.dim, length_scale))
        variance = mean_variance(solver, operator, root_volumes, jnp.asarray(spread))
        tau = np.sqrt(float(variance)) / self.sd
        mean = fields.mean_at_nodes(self.mean, mesh)
        description = (
            f"Matern field by a stochastic PDE, sd {self.sd:.4g}, length scale "
            f"{length_scale:.4g}, one unknown a node, "
            f"{fields.range_text(mean, np.array([self.sd]), self.transform)}"
        )
        field, learned = fields.NodalField(jnp.asarray(mean), self.transform), self.learned
        if learned is None:
            scaled = SparseMatrix(pattern, tau * operator.values)
            # Ready for all solves to come.
            prepared = eqx.filter_jit(solver.prepare)(scaled)
            return NodalLatent(field, scaled, root_volumes, description, solver, prepared)
        description += f"; sd and length learned, {learned.describe()}"
        return ScaledNodalLatent(
            *(field, pattern, parts, root_volumes),
            *(kappa, float(tau), smoothness, learned, description, solver),
        )


FORMS = (diffusion(1.0), robin(1 / BOUNDARY_LENGTH, 0.0), reaction(1.0))


def operator_equation(mesh: Mesh) -> BoundaryValueProblem:
    r"""That of $-\Delta + \kappa^2$ with its boundary, for $\kappa = 1$."""
    return boundary_value_problem(P1(mesh), FORMS[0] + FORMS[1] + FORMS[2])


def operator_parts(equation: BoundaryValueProblem) -> Float[Array, "3 entry"]:
    r"""Of the matrix for any $\kappa$: the factors of $1$, $\kappa$ and $\kappa^2$."""
    nowhere = jnp.zeros(equation.space.num_dofs, equation.dtype)
    # An equation needs a term over the cells, so the rim is what the condition adds to one.
    inside, framed, whole = (
        jacobian(with_form(equation, form), nowhere).values
        for form in (FORMS[0], FORMS[0] + FORMS[1], FORMS[2])
    )
    return jnp.stack([inside, framed - inside, whole])


@eqx.filter_jit
def mean_variance(
    solver: AbstractLinearSolver,
    operator: SparseMatrix,
    root_volumes: Float[Array, " node"],
    nodes: Int[Array, " chosen"],
) -> Float[Array, ""]:
    """Of the field with this operator, over some nodes."""
    prepared = solver.prepare(operator)

    def variance(node: Int[Array, ""]) -> Float[Array, ""]:
        unit = jnp.zeros_like(root_volumes).at[node].set(1.0)
        response = solver.raw_solve(operator, unit, transposed=False, prepared=prepared)
        return jnp.sum((root_volumes * response) ** 2)

    return jnp.mean(map_in_parts(variance, nodes, len(root_volumes)))
