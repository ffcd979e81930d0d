"""Residual, matrix and solution of a problem whose cells and unknowns devices share.

A device has all cells that touch its unknowns, so that its rows are complete: along the borders
cells are worked off twice, and only the state is exchanged. Node coordinates and coefficients are
still whole on every device.
"""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, Int, PyTree

from riesz.errors import SolveError
from riesz.fem import BoundaryValueProblem
from riesz.mesh import Hierarchy
from riesz.solvers.blocks import (
    AXIS,
    Domain,
    Group,
    check_state,
    entity_matrices,
    entity_residuals,
    gather,
    is_linear,
    local_states,
    on_device,
    require_float64,
    residual_of_wells,
    resolve_terms,
    with_dirichlet,
)
from riesz_sharded.partition import AnyArray, Exchange, Shares, bisect_points, plan_exchange, shares
from riesz_sharded.solver import DevicesLike, ShardedMultigrid, sharded_multigrid

DofValues = Float[Array, " dof"]


class SharedGroup(eqx.Module):
    """The cells or facets that a device has; their unknowns by where it finds their values."""

    domain: Domain  # without nodes
    entries: Int[AnyArray, "*device local local entity"]  # among its own; past the end for others


class ShardedProblem(eqx.Module):
    """A boundary-value problem on several devices; made by `sharded_problem`."""

    problem: BoundaryValueProblem
    groups: tuple[SharedGroup, ...]
    exchange: Exchange
    order: Int[Array, "device place"]  # unknowns by device
    position: Int[Array, " dof"]
    free_places: Int[Array, "device free_place"]  # of its free unknowns among all of a device
    solver: ShardedMultigrid

    @property
    def mesh(self) -> Mesh:
        return self.solver.mesh

    @eqx.filter_jit
    def residual(self, state: DofValues, z: Any = None) -> DofValues:
        """As `rz.fem.residual` has it."""
        check_state(self.problem, state)

        def part(mine: "ShardedProblem", own: Array) -> Array:
            return mine.own_residual(own, z)

        return self.by_devices(part, state, z)

    @eqx.filter_jit
    def solve(self, z: Any = None) -> DofValues:
        """The solution of a linear equation; NaN where the iteration did not converge."""
        if not is_linear(self.problem, z):
            raise SolveError("sharded problems are linear equations, and this one is not.")
        start = jnp.zeros(self.problem.num_free, self.problem.dtype)

        def part(mine: "ShardedProblem", own: Array) -> Array:
            solver = mine.solver
            rhs = mine.own_residual(own, z)
            rhs = rhs.at[mine.free_places].get(mode="fill", fill_value=0.0)
            coarse = solver.coarse()
            result, _ = solver.of_device(solver.tables, mine.own_matrix(own, z), -rhs, coarse)
            return own.at[mine.free_places].add(result.solution, mode="drop")

        return self.by_devices(part, with_dirichlet(self.problem, start, z), z)

    def by_devices(self, part: Any, state: DofValues, z: PyTree) -> DofValues:
        """A function of what a device has and of its part of the state, by all of them."""
        shared = (self.groups, self.exchange, self.free_places, self.order, self.solver.tables)
        names = ("groups", "exchange", "free_places", "order")

        def of_device(shared: PyTree, whole: PyTree, own: Array) -> Array:
            *parts, tables = jax.tree.map(lambda leaf: leaf[0], shared)
            problem = eqx.combine(whole, still)
            mine = dataclasses.replace(
                problem,
                **dict(zip(names, parts, strict=True)),
                solver=dataclasses.replace(problem.solver, tables=tables),
            )
            return part(mine, own[0])[None]

        whole, still = eqx.partition(self, eqx.is_array)
        own = state.at[self.order].get(mode="fill", fill_value=0.0)
        along = PartitionSpec(AXIS)
        specs = (along, PartitionSpec(), along)
        by_all = jax.shard_map(
            of_device, mesh=self.mesh, in_specs=specs, out_specs=along, check_vma=False
        )
        return gather(by_all(shared, without_shared(whole), own).ravel(), self.position)

    def own_residual(self, own: Float[Array, " place"], z: PyTree) -> Float[Array, " place"]:
        """On one device: the rows of its unknowns."""
        local, total = self.exchange(own), jnp.zeros_like(own)
        for group, shared in zip(self.plain_groups(), self.groups, strict=True):
            domain = dataclasses.replace(shared.domain, nodes=group.domain.nodes)
            physics = resolve_terms(group.terms, self.problem.space.element, z)
            parts = entity_residuals(physics, domain, local_states(domain, local))
            for places, amounts in zip(domain.dofs, parts, strict=True):
                total = total.at[places].add(amounts, mode="drop")  # those of others lie beyond
        if self.problem.point_sources:
            wells = residual_of_wells(self.problem, z)
            total = total + wells.at[self.order].get(mode="fill", fill_value=0.0)
        return total

    def own_matrix(self, own: Float[Array, " place"], z: PyTree) -> Float[Array, " entry"]:
        """On one device: the entries of its rows."""
        local = self.exchange(own)
        values = jnp.zeros(self.solver.entries.shape[-1], own.dtype)
        for group, shared in zip(self.plain_groups(), self.groups, strict=True):
            domain = dataclasses.replace(shared.domain, nodes=group.domain.nodes)
            physics = resolve_terms(group.terms, self.problem.space.element, z)
            rows = entity_matrices(physics, domain, local_states(domain, local))
            for entries, row in zip(shared.entries, rows, strict=True):
                values = values.at[entries].add(row, mode="drop")
        return values

    def plain_groups(self) -> tuple[Group, ...]:
        return (self.problem.cells, *self.problem.facets)


def without_shared(whole: ShardedProblem) -> ShardedProblem:
    """What all devices have: their own parts stand apart."""
    return eqx.tree_at(
        lambda one: (one.groups, one.exchange, one.free_places, one.order, one.solver.tables),
        whole,
        (None,) * 5,
        is_leaf=lambda leaf: leaf is None,
    )


def sharded_problem(
    problem: BoundaryValueProblem,
    devices: DevicesLike = "all",
    hierarchy: Hierarchy | None = None,
    **settings: Any,
) -> ShardedProblem:
    """A linear, symmetric problem with its cells and unknowns on `devices` of this process.

    Settings are those of `sharded_multigrid`.
    """
    require_float64(problem)
    solver = sharded_multigrid(problem, devices, hierarchy, **settings)
    count, free = solver.mesh.size, np.asarray(problem.free)
    owner = bisect_points(np.asarray(problem.space.points), count)
    dofs = shares(owner, count)
    plain = (problem.cells, *problem.facets)
    chosen = [touching(group.domain, dofs) for group in plain]
    # Cells that fill up have the unknowns of the last one, which a device then needs as well.
    needed = [
        np.concatenate([dofs_of_entities(group.domain, own[device]).ravel()
                        for group, own in zip(plain, chosen, strict=True)])
        for device in range(count)
    ]  # fmt: skip
    plan, places = plan_exchange(dofs, needed)
    entries = shares(owner[free][np.asarray(problem.pattern.rows)], count)
    sharded = NamedSharding(solver.mesh, PartitionSpec(AXIS))
    groups = tuple(
        shard_group(group, own, places, entries) for group, own in zip(plain, chosen, strict=True)
    )
    free_shares = shares(owner[free], count)
    padded = np.append(dofs.position[free], count * dofs.num_places)[free_shares.order]
    first = (np.arange(count) * dofs.num_places)[:, None]
    free_places = np.minimum(padded - first, dofs.num_places)
    return ShardedProblem(
        problem=problem,
        groups=jax.device_put(groups, sharded),
        exchange=jax.device_put(plan, sharded),
        order=jax.device_put(dofs.order.astype(np.int32), sharded),
        position=on_device(dofs.position, np.int32),
        free_places=jax.device_put(free_places.astype(np.int32), sharded),
        solver=solver,
    )


def touching(domain: Domain, dofs: Shares) -> Int[np.ndarray, "device entity"]:
    """Cells or facets with an unknown of each device; the number of all of them for none."""
    owners = dofs.owner[np.asarray(domain.dofs)]
    result = [np.flatnonzero((owners == device).any(axis=0)) for device in range(dofs.num_devices)]
    table = np.full((len(result), max(1, *map(len, result))), owners.shape[1])
    for row, own in zip(table, result, strict=True):
        row[: len(own)] = own
    return table


def dofs_of_entities(
    domain: Domain, entities: Int[np.ndarray, " entity"]
) -> Int[np.ndarray, "_ _"]:
    every = np.asarray(domain.dofs)
    return every[:, np.minimum(entities, every.shape[1] - 1)]


def shard_group(
    group: Group,
    chosen: Int[np.ndarray, "device entity"],
    places: list[Int[np.ndarray, " dof"]],
    entries: Shares,
) -> SharedGroup:
    """The cells or facets of each device, stacked."""
    nothing = jnp.zeros((group.domain.dim, 0), group.domain.nodes.dtype)
    bare = dataclasses.replace(group.domain, nodes=nothing)
    domains, own_entries = [], []
    width, every = entries.num_places, np.asarray(group.entries)
    owner, position = np.append(entries.owner, -1), np.append(entries.position, 0)
    for device, own in enumerate(chosen):
        taken = bare.take(jnp.asarray(own))
        at = places[device][dofs_of_entities(group.domain, own)]
        domains.append(dataclasses.replace(taken, dofs=on_device(at, np.int32)))
        number = every[:, :, np.minimum(own, every.shape[2] - 1)]
        mine = (owner[number] == device) & (own < every.shape[2])
        own_entries.append(np.where(mine, position[number] - device * width, width))
    return SharedGroup(
        jax.tree.map(lambda *parts: np.stack([np.asarray(part) for part in parts]), *domains),
        np.stack(own_entries).astype(np.int32),
    )
