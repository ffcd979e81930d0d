"""Where the transported quantity goes: fluxes through lines, and budgets of zones.

`flux_through` integrates the flux along tagged facets from the gradient beside
them: local, but for P1 only first-order accurate. `budget` reads fluxes off the residual: what the
equation leaves unbalanced at the unknowns of a boundary is what crosses it, so that a budget closes
to rounding error whatever the mesh (Hughes, Engel, Mazzei & Larson 2000).
"""

from typing import Any

import equinox as eqx
import jax
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
    with_dirichlet,
)
from riesz.fem.default_solver import choose_solver
from riesz.fem.elements.domain import Domain, facet_domain
from riesz.fem.kernel import entity_outflows, resolve_terms
from riesz.fem.linear.linear_solve import AbstractLinearSolver
from riesz.fem.problem import BoundaryValueProblem, Group
from riesz.fem.terms.integrands import MOVING
from riesz.fem.terms.weakform import Term
from riesz.fem.time.problem import TransientProblem, at_time, with_history
from riesz.fem.time.scheme import SCHEMES, num_stages, stage_times, weights_of
from riesz.fem.time.time_stepping import root_from
from riesz.mesh.facets import FacetSet, boundary_facets, find_facets
from riesz.mesh.mesh import Mesh
from riesz.mesh.rows import find_rows
from riesz.mesh.tags import facets_of_tag, region_cells

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
    problem: BoundaryValueProblem | TransientProblem,
    states: Float[Array, "*time dof"],
    z: Any = None,
    *,
    region: str | None = None,
) -> Budget:
    """The budget of a region of cells, or of the whole domain.

    Terms on facets count where the cell beside the facet lies in the region. Outflow through
    prescribed values is told by tag; the rest crosses the region's boundary inside the domain.

    Of a steady state these are amounts a unit time; in time, of the states at all times, amounts
    over the whole run. What `storage` gains is what is taken out of it: less than nothing where it
    fills up.
    """
    if isinstance(problem, TransientProblem):
        return budget_of_run(problem, states, z, region)
    return budget_of_state(problem, states, z, region)


def budget_of_state(
    problem: BoundaryValueProblem, state: DofValues, z: PyTree, region: str | None
) -> Budget:
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
        unbalanced = unbalanced + operator.transpose_product(rates)
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


def budget_of_run(
    problem: TransientProblem, states: Float[Array, "time dof"], z: PyTree, region: str | None
) -> Budget:
    """Budgets of all stages, added up."""
    axis, scheme, shares = problem.axis, problem.scheme, SCHEMES[problem.scheme].shares
    times = stage_times(jnp.asarray(axis.times, problem.dtype), scheme)
    weights, total = weights_of(axis, scheme, problem.dtype), None
    every = stage_states(problem, states, z, choose_solver(problem.step))
    for number in range(len(times) - 1):
        own = jax.tree.map(lambda row, n=number: row[n], weights)
        past = own.last * every[number] + own.before * every[max(number - 1, 0)]
        stage = with_history(problem.step, own.now, past)
        result = budget_of_state(stage, every[number + 1], at_time(z, times[number + 1]), region)
        step, place = divmod(number, len(shares))
        length = shares[place] * axis.steps[step]
        result = jax.tree.map(lambda rate, length=length: length * rate, result)
        total = result if total is None else jax.tree.map(jnp.add, total, result)
    assert total is not None  # an axis has one step at least
    return total


@eqx.filter_jit
def stage_states(
    problem: TransientProblem,
    states: Float[Array, "time dof"],
    z: Any,
    solver: AbstractLinearSolver,
) -> Float[Array, "stage dof"]:
    """With what lies between the ends of steps: a first stage, which is a step of Euler's."""
    step, count = problem.step, num_stages(problem.scheme)
    if count == 1:
        return states
    times = stage_times(jnp.asarray(problem.axis.times, problem.dtype), problem.scheme)
    rates = weights_of(problem.axis, problem.scheme, problem.dtype).now

    def first(given):
        last, time, rate = given
        then, own = at_time(z, time), with_history(step, rate, rate * last)
        values, _ = root_from(own, then, solver, last[step.free])
        return with_dirichlet(step, values, then)

    between = jax.lax.map(first, (states[:-1], times[1::count], rates[::count]))
    both = jnp.stack([between, states[1:]], axis=1).reshape(-1, states.shape[1])
    return jnp.concatenate([states[:1], both])


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
    facets = orient_facets(problem.space.mesh, on, out_of)
    degree = max(term.degree(problem.space.element.degree) for term in problem.cells.terms)
    domain = facet_domain(problem.space, facets, degree, problem.dtype)
    return outflow(problem, domain, state, z)


@eqx.filter_jit
def outflow(problem: BoundaryValueProblem, facets: Domain, state: DofValues, z: PyTree) -> Amount:
    """What passes through all of the given facets, along their normals."""
    physics = resolve_terms(problem.cells.terms, problem.space.element, z)
    return jnp.sum(entity_outflows(physics, facets, local_states(facets, state)))


def orient_facets(mesh: Mesh, on: str, out_of: str | None) -> FacetSet:
    facets = facets_of_tag(mesh, on)
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
