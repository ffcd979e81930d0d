r"""A reduced equation: the weak form in the span of a few exact states, solved for each $z$.

States $u_i$ of the equation span $\bar u + V c$, with the modes $V$ that leave the least of them in
the energy norm (proper orthogonal decomposition). Where the equation is linear, $A(z) u = f(z)$,
Galerkin's $V^\top A(z) (\bar u + V c) = V^\top f(z)$ is a small dense system, and the best there is
in the span, up to a factor. That its cost does not depend on the mesh, the matrices of cells are
told from a few of them: $A(z) = \sum_k \theta_k(z) A_k$ with as many $\theta_k$ as matrices at the
given $z$ span, exact where the coefficients of the equation are sums of known functions (empirical
interpolation: Barrault, Maday, Nguyen & Patera 2004; of matrices: Negri, Manzoni & Amsallem 2015).
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
import scipy.sparse as sp
from jaxtyping import Array, Float

from riesz.arrays import on_device
from riesz.fem.assembly import jacobian, local_states, residual, source_rates, with_dirichlet
from riesz.fem.kernel import entity_matrices, entity_residuals, resolve_terms
from riesz.fem.problem import BoundaryValueProblem, Group, wells_at_known_points
from riesz.fem.terms.weakform import PointSource
from riesz.priors.latent import ManyZ, Z

Weights = Float[Array, "..."]
"""Of the entries of matrices or loads of all entities, whose axis is the last."""

Snapshots = Float[np.ndarray, "draw free"]

LEAST = 1e-6
"""Shares that are neglected are no smaller: they are found by squares."""

AT_ONCE = 16
"""Matrices that are held side by side."""

LARGEST = 10**8
"""Numbers in a table of cells by draws: a gigabyte. Of large meshes fewer draws are looked at."""


class PodBasis(NamedTuple):
    """The mean of states, and modes of unit energy about it, at the free nodes."""

    mean: Float[np.ndarray, " free"]
    modes: Float[np.ndarray, "free mode"]

    @property
    def columns(self) -> Float[np.ndarray, "free mode_plus_one"]:
        return np.column_stack([self.mean, self.modes])


def pod_basis(
    states: Snapshots, energy: sp.csr_array, num_modes: int, neglected: float
) -> PodBasis:
    """The modes that leave the least of some states: a share `neglected`, if so many can."""
    mean = states.mean(axis=0)
    offsets = states - mean
    gram = offsets @ (energy @ offsets.T)
    values, vectors = np.linalg.eigh((gram + gram.T) / 2)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    whole = len(states) * mean @ (energy @ mean) + values.sum()
    beyond = np.cumsum(values[::-1])[::-1]  # what is left without this mode and those after it
    enough = int(np.sum(beyond > max(neglected, LEAST) ** 2 * whole))
    leading = slice(min(enough, num_modes, int(np.sum(values > LEAST**2 * whole))))
    return PodBasis(mean, offsets.T @ (vectors[:, leading] / np.sqrt(values[leading])))


class Coefficients(eqx.Module):
    """Coefficients of a family of matrices or loads, from random sums of what few entities add."""

    groups: tuple[Group, ...]  # with these entities only
    weights: tuple[Weights, ...]
    inverse: Float[Array, "term entity"]

    def __call__(self, forward: BoundaryValueProblem, known: Array, z: Z) -> Float[Array, " term"]:
        return self.inverse @ entity_sums(forward, self.groups, self.weights, known, z)


def entity_sums(
    forward: BoundaryValueProblem,
    groups: tuple[Group, ...],
    weights: tuple[Weights, ...],
    known: Float[Array, " dof"],
    z: Z,
) -> Float[Array, " entity"]:
    """Of the entries of each entity's matrix, or of its residual at the prescribed values."""
    result = []
    for group, weight in zip(groups, weights, strict=True):
        physics = resolve_terms(group.terms, forward.space.element, z)
        local = local_states(group.domain, known)
        if weight.ndim > 2:
            entries = jnp.stack(entity_matrices(physics, group.domain, local))
        else:
            entries = jnp.stack(entity_residuals(physics, group.domain, local))
        result.append(jnp.sum((weight * entries).reshape(-1, weight.shape[-1]), axis=0))
    return jnp.concatenate(result)


class EmpiricalInterpolation(NamedTuple):
    """Which entities tell of a family, and its members as combinations of those seen."""

    coefficients: Coefficients
    of_seen: Float[np.ndarray, "term draw"]


def empirical_interpolation(
    forward: BoundaryValueProblem,
    z: ManyZ,
    rng: np.random.Generator,
    neglected: float,
    *,
    matrices: bool,
) -> EmpiricalInterpolation:
    """From the matrices, or the loads, at some values of the unknowns."""
    groups = (forward.cells, *forward.facets)
    weights = tuple(
        on_device(
            rng.normal(size=(len(g.domain.dofs),) * (2 if matrices else 1) + g.domain.measure.shape)
        )
        for g in groups
    )
    rows = np.asarray(all_entity_sums(forward, groups, weights, z))
    if matrices:
        # Each entity by its own size: small coefficients matter as much as large ones.
        sizes = np.sqrt(np.mean(rows**2, axis=0))
        scale = 1 / np.where(sizes > 0, sizes, 1.0)
        ends = np.cumsum([len(g.domain.measure) for g in groups])[:-1]
        each = zip(weights, np.split(scale, ends), strict=True)
        weights = tuple(on_device(np.asarray(weight) * own) for weight, own in each)
        rows = rows * scale
    left, sizes, right = leading(rows, neglected)
    count = len(sizes)
    places = np.asarray(scipy.linalg.qr(right, mode="r", pivoting=True)[-1])[:count]
    inverse = np.linalg.pinv(right[:, places].T)
    ends = np.cumsum([0, *(len(g.domain.measure) for g in groups)])
    kept_groups, kept_weights, order = [], [], []
    for group, weight, start, end in zip(groups, weights, ends, ends[1:], strict=False):
        own = np.flatnonzero((places >= start) & (places < end))
        if not len(own):
            continue
        entities = jnp.asarray(places[own] - start)
        order.extend(own)
        kept_groups.append(
            Group(group.terms, group.domain.take(entities), group.entries[..., entities])
        )
        kept_weights.append(weight[..., entities])
    coefficients = Coefficients(
        tuple(kept_groups), tuple(kept_weights), on_device(inverse[:, order])
    )
    return EmpiricalInterpolation(coefficients, left.T / sizes[:, None])


def leading(
    rows: Float[np.ndarray, "draw entity"], neglected: float
) -> tuple[
    Float[np.ndarray, "draw term"], Float[np.ndarray, " term"], Float[np.ndarray, "term entity"]
]:
    """The singular values that are not negligible, with their vectors on both sides."""
    values, left = np.linalg.eigh(rows @ rows.T)
    sizes = np.sqrt(np.maximum(values[::-1], 0.0))
    count = max(1, int(np.sum(sizes > max(neglected, LEAST) * sizes[0])))
    # A family that is zero wherever it was seen has no size to divide by.
    sizes, left = np.where(sizes > 0, sizes, 1.0)[:count], left[:, ::-1][:, :count]
    return left, sizes, (left / sizes).T @ rows


@eqx.filter_jit
def all_entity_sums(
    forward: BoundaryValueProblem, groups: tuple[Group, ...], weights: tuple[Array, ...], z: ManyZ
) -> Float[Array, "draw entity"]:
    return jax.lax.map(
        lambda one: entity_sums(forward, groups, weights, at_rim(forward, one), one), z
    )


def at_rim(forward: BoundaryValueProblem, z: Z) -> Float[Array, " dof"]:
    """The prescribed values, and zero inside."""
    return with_dirichlet(forward, jnp.zeros(forward.num_free, forward.dtype), z)


class ReducedEquation(eqx.Module):
    """The equation in the span of modes."""

    matrix: Coefficients
    load: Coefficients
    matrices: Float[Array, "term mode mode_plus_one"]  # the first column is that of the mean
    loads: Float[Array, "load mode"]
    wells: tuple[tuple[PointSource, Float[Array, "mode well"]], ...]

    @property
    def num_modes(self) -> int:
        return self.loads.shape[1]

    def solve(self, forward: BoundaryValueProblem, z: Z) -> Float[Array, " mode"]:
        """The state, as what is added of each mode to the mean."""
        known = at_rim(forward, z)
        # As a product with one long matrix, whose rows are read as they lie.
        flat = self.matrices.reshape(len(self.matrices), -1)
        system = (self.matrix(forward, known, z) @ flat).reshape(self.matrices.shape[1:])
        side = system[:, 0] + self.load(forward, known, z) @ self.loads
        for source, columns in self.wells:
            side = side + source.sign * (columns @ source_rates(source, z))
        return -jnp.linalg.solve(system[:, 1:], side)


def reduced_equation(
    forward: BoundaryValueProblem, z: ManyZ, basis: PodBasis, neglected: float, seed: int = 0
) -> ReducedEquation:
    """Of a linear equation, for values of the unknowns that are like those given.

    Matrices and loads that differ by less than a share `neglected` are taken to be the same.
    """
    rng = np.random.default_rng(seed)
    most = max(1, LARGEST // forward.space.mesh.num_cells)
    z = jax.tree.map(lambda leaf: leaf[:most], z)
    bare = dataclasses.replace(forward, point_sources=())
    matrix = empirical_interpolation(bare, z, rng, neglected, matrices=True)
    load = empirical_interpolation(bare, z, rng, neglected, matrices=False)
    columns, free = basis.columns, np.asarray(forward.free)
    places = np.asarray(forward.pattern.columns), np.asarray(forward.pattern.row_starts)
    size = (forward.num_free, forward.num_free)
    entries = interpolate_entries(matrix_entries, bare, matrix.of_seen, z)
    matrices = [
        basis.modes.T @ (sp.csr_array((own, *places), shape=size) @ columns) for own in entries
    ]
    loads = interpolate_entries(load_entries, bare, load.of_seen, z) @ basis.modes
    wells = tuple(
        (source, on_device((operator.to_scipy()[:, free] @ basis.modes).T))
        for source, operator in wells_at_known_points(forward)
    )
    return ReducedEquation(
        matrix.coefficients,
        load.coefficients,
        on_device(np.stack(matrices)),
        on_device(loads),
        wells,
    )


def interpolate_entries(
    entries: Callable[[BoundaryValueProblem, ManyZ], Array],
    forward: BoundaryValueProblem,
    of_seen: Float[np.ndarray, "term draw"],
    z: ManyZ,
) -> Float[np.ndarray, "term entry"]:
    """Combinations of what was seen, some draws at a time."""
    total = 0.0
    for start in range(0, of_seen.shape[1], AT_ONCE):
        part = slice(start, start + AT_ONCE)
        own = jax.tree.map(lambda leaf, part=part: leaf[part], z)
        total = total + of_seen[:, part] @ np.asarray(entries(forward, own))
    return np.asarray(total)


@eqx.filter_jit
def matrix_entries(forward: BoundaryValueProblem, z: ManyZ) -> Float[Array, "draw entry"]:
    return jax.lax.map(lambda one: jacobian(forward, at_rim(forward, one), one).values, z)


@eqx.filter_jit
def load_entries(forward: BoundaryValueProblem, z: ManyZ) -> Float[Array, "draw free"]:
    return jax.lax.map(lambda one: residual(forward, at_rim(forward, one), one)[forward.free], z)
