"""Where the transported quantity goes: fluxes through lines and budgets of zones.

Two kinds of flux are offered. `flux_through` integrates the flux along tagged facets from the
gradient beside them: local, but for P1 only first-order accurate. `budget` reads fluxes off the
residual: what the equation leaves unbalanced at the unknowns of a boundary is what crosses it, so
that a budget closes to rounding error whatever the mesh (Hughes, Engel, Mazzei & Larson 2000).
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree

from riesz.errors import FormError
from riesz.fem.assembly import (
    DofValues,
    check_state,
    group_residuals,
    local_states,
    source_rates,
    wells_of,
)
from riesz.fem.elements.domain import Domain, facet_domain
from riesz.fem.kernel import entity_outflows, resolved
from riesz.fem.problem import BoundaryValueProblem, Group
from riesz.fem.terms.weakform import MOVING, Term
from riesz.mesh.facets import FacetSet, boundary_facets, find_facets
from riesz.mesh.mesh import Mesh
from riesz.mesh.rows import find_rows
from riesz.mesh.tags import region_cells, tagged_facets

Amount = Float[Array, ""]

ACROSS = "across the region's boundary"


class Budget(eqx.Module):
    """Amounts a unit time: what a zone gains by each term, and what leaves it, by place.

    Diffusion moves without gain or loss and has no row. At a solution, gains minus outflows
    (`imbalance`) vanish.
    """

    gains: dict[str, Amount]
    outflows: dict[str, Amount]

    @property
    def imbalance(self) -> Amount:
        amounts = [*self.gains.values(), *(-outflow for outflow in self.outflows.values())]
        return jnp.sum(jnp.stack(amounts))

    def __str__(self) -> str:
        rows = [("gain", name, value) for name, value in self.gains.items()]
        rows += [("outflow", name, value) for name, value in self.outflows.items()]
        rows += [("imbalance", "", self.imbalance)]
        return "\n".join(f"{kind:<10}{name:<32}{float(v):+.6g}" for kind, name, v in rows)


def budget(
    problem: BoundaryValueProblem, state: DofValues, z: Any = None, *, region: str | None = None
) -> Budget:
    """The budget of a region of cells, or of the whole domain.

    Terms on facets count where the cell beside the facet lies in the region. Outflow through
    prescribed values is told by tag; the rest crosses the region's boundary inside the domain.
    """
    mesh = problem.space.mesh
    counted = np.full(mesh.num_cells, float(region is None))
    if region is not None:
        counted[region_cells(mesh, region)] = 1.0
    inside = jnp.asarray(counted, problem.dtype)
    check_state(problem, state)
    gains, unbalanced = gains_and_rest(problem, state, z, inside)
    # Minus what is unbalanced at prescribed unknowns, and at those shared with outside cells.
    outflows = {
        f"prescribed on {piece.tag}": -jnp.sum(unbalanced[problem.fixed[piece.position]])
        for piece in reversed(problem.dirichlet)
    }
    if region is not None:
        shared = jnp.zeros_like(unbalanced).at[problem.cells.domain.dofs].max(1 - inside)
        outflows[ACROSS] = -jnp.sum(unbalanced * shared.at[problem.fixed].set(0.0))
    return Budget(gains, outflows)


@eqx.filter_jit
def gains_and_rest(
    problem: BoundaryValueProblem, state: DofValues, z: PyTree, inside: Float[Array, " cell"]
) -> tuple[dict[str, Amount], DofValues]:
    """What each term adds inside, and the residual of the cells there at every unknown."""
    gains: dict[str, Amount] = {}
    unbalanced = jnp.zeros(problem.space.num_dofs, problem.dtype)
    for group in (problem.cells, *problem.facets):
        counted = inside if group.domain.cell is None else inside[group.domain.cell]
        parts = group_residuals(problem, group, state, z)
        for dofs, part in zip(group.domain.dofs, parts, strict=True):
            unbalanced = unbalanced.at[dofs].add(counted * part)
        for term in group.terms:
            if term.integrand in MOVING:
                continue
            label = term.name if term.on is None else f"{term.name} on {term.on}"
            loss = jnp.sum(counted * term_totals(problem, group, term, state, z))
            gains[label] = gains.get(label, jnp.zeros_like(loss)) - loss
    for source, operator in wells_of(problem, z):
        rates = jnp.asarray(source_rates(source, z), problem.dtype)
        rates = source.sign * rates * inside[operator.cells]
        unbalanced = unbalanced + operator.transposed(rates)
        loss = jnp.sum(rates)
        gains["point_source"] = gains.get("point_source", jnp.zeros_like(loss)) - loss
    return gains, unbalanced


def term_totals(
    problem: BoundaryValueProblem, group: Group, term: Term, state: DofValues, z: PyTree
) -> Float[Array, " entity"]:
    """The integral of one term over each entity, tested with the constant one."""
    alone = Group((term,), group.domain, group.entries)
    return sum(
        group_residuals(problem, alone, state, z), start=jnp.zeros_like(group.domain.measure)
    )


def flux_through(
    problem: BoundaryValueProblem,
    state: DofValues,
    z: Any = None,
    *,
    on: str,
    out_of: str | None = None,
) -> Amount:
    r"""$-\int_\Gamma F\cdot n$, for instance of Darcy's flux, along facets tagged `on`.

    The normal points out of the domain. Inside the domain a line has two sides: name the region
    of cells that the flux comes `out_of`.
    """
    check_state(problem, state)
    facets = oriented_facets(problem.space.mesh, on, out_of)
    degree = max(term.degree(problem.space.element.degree) for term in problem.cells.terms)
    domain = facet_domain(problem.space, facets, degree, problem.dtype)
    return outflow(problem, domain, state, z)


@eqx.filter_jit
def outflow(problem: BoundaryValueProblem, facets: Domain, state: DofValues, z: PyTree) -> Amount:
    """What passes through all of the given facets, along their normals."""
    physics = resolved(problem.cells.terms, problem.space.element, z)
    return jnp.sum(entity_outflows(physics, facets, local_states(facets, state)))


def oriented_facets(mesh: Mesh, on: str, out_of: str | None) -> FacetSet:
    facets = tagged_facets(mesh, on)
    if out_of is not None:
        return find_facets(mesh, facets.nodes, on, among=region_cells(mesh, out_of))
    if not on_boundary(mesh, facets).all():
        raise FormError(
            f"the facets tagged {on!r} lie inside the domain, so their flux has two directions: "
            "name the region it leaves, out_of=..., from the mesh's regions "
            f"{sorted(mesh.regions)}."
        )
    return facets


def on_boundary(mesh: Mesh, facets: FacetSet) -> Bool[np.ndarray, " facet"]:
    return find_rows(boundary_facets(mesh).nodes.T, facets.nodes.T, mesh.num_nodes) >= 0
