"""Norms of residuals by mini-patches: those of the finest mesh, and of coarse levels below it.

Estimators differ in the energy of a patch. Here it is $r_p^\top A_p^{-1} r_p$ with the Gram matrix
of a Dirichlet problem of its own, assembled and factorised inside the step: set-up stays local and
small on any mesh. Whoever evaluates residuals needs to know the table of patches only.
"""

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from riesz.errors import RieszError
from riesz.mesh.mesh import Mesh
from riesz.mesh.tags import facets_of_tag
from riesz.penalty.patch import PatchTable

Residuals = Float[Array, "patch row sample"]
Chosen = Int[Array, " patch"]
RightHandSides = Float[Array, "row sample"]
Matrix = Float[Array, "row row"]
AtNodes = Float[Array, " node"]


class PatchSample(eqx.Module):
    """Some patches, and the factors that make the mean of their energies unbiased."""

    patches: Chosen
    factors: Float[Array, " patch"]


class AbstractPatches(eqx.Module):
    """Mini-patches of one or several meshes."""

    table: eqx.AbstractVar[PatchTable]

    @property
    def num_patches(self) -> int:
        return self.table.num_patches

    @abstractmethod
    def sample(self, key: PRNGKeyArray, count: int) -> PatchSample:
        """Patches drawn independently."""

    @abstractmethod
    def all(self) -> PatchSample:
        """Every patch, with factors such that the mean of energies is the whole sum."""

    @abstractmethod
    def energies(self, patches: Chosen, residuals: Residuals) -> Float[Array, "patch sample"]:
        """The energy of residuals on the rows of each patch."""

    def estimate(self, sample: PatchSample, residuals: Residuals) -> Float[Array, " sample"]:
        """The mean of weighted energies, for each sample of the latents."""
        energies = self.energies(sample.patches, residuals)
        return jnp.mean(sample.factors[:, None] * energies, axis=0)

    def nodal_estimate(self, sample: PatchSample, residual: AtNodes) -> Float[Array, ""]:
        """The estimate for a residual that is known at all nodes."""
        return self.estimate(sample, self.residuals_on(sample, residual[None]))[0]

    def residuals_on(
        self, sample: PatchSample, residuals: Float[Array, "sample node"]
    ) -> Residuals:
        """Residuals known at all nodes, on the rows of drawn patches."""
        rows = self.table.rows[sample.patches]
        values = jnp.where(rows[None] < 0, 0.0, residuals[:, rows])
        return jnp.moveaxis(values, 0, 2)


class RestrictionStep(eqx.Module):
    """From the residual at the nodes of one mesh to that at the nodes of the next coarser one."""

    coarse: Int[Array, " entry"]
    fine: Int[Array, " entry"]
    weights: Float[Array, " entry"]
    num_coarse: int = eqx.field(static=True)
    is_level: bool = eqx.field(static=True)  # whether the coarser mesh makes a level

    def __call__(self, residual: Float[Array, " fine"]) -> Float[Array, " coarse"]:
        total = jnp.zeros(self.num_coarse, residual.dtype)
        return total.at[self.coarse].add(self.weights * residual[self.fine])


class Restriction(eqx.Module):
    """Residuals at the nodes of all coarse levels from those at the finest nodes."""

    steps: tuple[RestrictionStep, ...]

    def __call__(self, residual: AtNodes) -> Float[Array, " coarse"]:
        levels = []
        for step in self.steps:
            residual = step(residual)
            if step.is_level:
                levels.append(residual)
        return jnp.concatenate(levels)


class NormSample(eqx.Module):
    """Patches of the finest mesh, and of the coarse levels where there are any."""

    fine: PatchSample
    coarse: PatchSample | None


class PatchNorm(eqx.Module):
    """The squared norm of a residual as a sum over mini-patches, or an estimate from a few."""

    fine: AbstractPatches
    coarse: AbstractPatches | None = None
    restriction: Restriction | None = None

    def sample(self, key: PRNGKeyArray, num_patches: int) -> NormSample:
        """`num_patches` in all: half of them on the finest mesh, half on the coarse levels."""
        if num_patches < 1:
            raise RieszError(f"num_patches is {num_patches}: draw one patch or more.")
        if self.coarse is None:
            return NormSample(self.fine.sample(key, num_patches), None)
        if num_patches == 1:
            return self.one_patch(key)
        fine_key, coarse_key = jr.split(key)
        num_coarse = num_patches // 2
        return NormSample(
            self.fine.sample(fine_key, num_patches - num_coarse),
            self.coarse.sample(coarse_key, num_coarse),
        )

    def one_patch(self, key: PRNGKeyArray) -> NormSample:
        """One on either side, of which a coin lets one count, doubly: shapes must not vary."""
        coin_key, key = jr.split(key)
        both = self.sample(key, 2)
        fine, coarse = both.fine, both.coarse
        twice = 2 * jr.bernoulli(coin_key).astype(fine.factors.dtype)
        return NormSample(
            PatchSample(fine.patches, twice * fine.factors),
            None if coarse is None else PatchSample(coarse.patches, (2 - twice) * coarse.factors),
        )

    def all(self) -> NormSample:
        """Every patch: the norm itself."""
        return NormSample(self.fine.all(), None if self.coarse is None else self.coarse.all())

    def squared(self, residual: AtNodes, sample: NormSample | None = None) -> Float[Array, ""]:
        """The norm of a residual given at all nodes, or its estimate from a sample."""
        sample = self.all() if sample is None else sample
        fine = self.fine.nodal_estimate(sample.fine, residual)
        if self.coarse is None or self.restriction is None or sample.coarse is None:
            return fine
        return fine + self.coarse.nodal_estimate(sample.coarse, self.restriction(residual))


class CellGeometry(eqx.Module):
    """What the Gram matrices of cells are made of."""

    inverse_jacobian: Float[Array, "dim dim cell"]
    measure: Float[Array, " cell"]


class SchwarzPatches(AbstractPatches):
    """Patches with their own Dirichlet problems; levels of a hierarchy are meshes side by side."""

    table: PatchTable
    geometry: CellGeometry
    diffusivity: Float[Array, " *cell"]  # of the Gram form: one for all cells, or one each
    reaction: Float[Array, ""]
    num_levels: Int[Array, ""]  # an array: the compiled step is then the same for any number
    level_starts: Int[Array, " level"]  # first patch of each level
    level_sizes: Int[Array, " level"]
    coverage: Float[Array, " level"]  # in how many patches each free node of the level lies

    def sample(self, key: PRNGKeyArray, count: int) -> PatchSample:
        """Patches drawn independently: first a level, each as likely, then a patch of it."""
        level_key, patch_key = jr.split(key)
        level = jr.randint(level_key, (count,), 0, self.num_levels, dtype=jnp.int32)
        size = self.level_sizes[level]
        place = jr.randint(patch_key, (count,), 0, size, dtype=jnp.int32)
        factors = (self.num_levels * size).astype(self.coverage.dtype) / self.coverage[level]
        return PatchSample(self.level_starts[level] + place, factors)

    def all(self) -> PatchSample:
        """Every patch, with factors such that the mean of energies is the whole sum."""
        level = jnp.repeat(
            jnp.arange(len(self.level_starts)),
            self.level_sizes,
            total_repeat_length=self.num_patches,
        )
        return PatchSample(jnp.arange(self.num_patches), self.num_patches / self.coverage[level])

    def energies(self, patches: Chosen, residuals: Residuals) -> Float[Array, "patch sample"]:
        r"""$r_p^\top A_p^{-1} r_p$, never negative."""

        matrices = jax.vmap(self.local_gram)(patches)
        return jax.vmap(inverse_quadratic)(matrices, residuals)

    def local_gram(self, patch: Int[Array, ""]) -> Matrix:
        """The Gram matrix of a patch's rows; one on the diagonal for rows that are absent."""
        cells = self.table.cells.entities[patch]
        measure = self.geometry.measure.at[cells].get(mode="fill", fill_value=0.0)
        slopes = jnp.take(self.geometry.inverse_jacobian, cells, axis=-1, mode="clip")
        # Barycentric coordinates sum to one: the first gradient is minus the others.
        slopes = jnp.concatenate([-slopes.sum(axis=0, keepdims=True), slopes])
        stiffness = jnp.einsum("idc,jdc->ijc", slopes, slopes)
        corners = len(slopes)
        mass = (1 + jnp.eye(corners, dtype=measure.dtype)) / (corners * (corners + 1))
        diffusivity = self.diffusivity
        if diffusivity.ndim:
            diffusivity = jnp.take(diffusivity, cells, mode="clip")[None, None]
        matrices = diffusivity * stiffness + self.reaction * mass[:, :, None]
        places = self.table.cells.rows[patch].astype(jnp.int32).T
        num_rows = self.table.rows.shape[1]
        local = jnp.zeros((num_rows + 1, num_rows + 1), measure.dtype)
        local = local.at[places[:, None, :], places[None, :, :]].add(measure[None, None] * matrices)
        absent = (self.table.rows[patch] < 0).astype(measure.dtype)
        return local[:num_rows, :num_rows] + jnp.diag(absent)


def free_nodes(mesh: Mesh, dirichlet_tags: tuple[str, ...]) -> Int[np.ndarray, " free"]:
    """Nodes where nothing is prescribed."""
    free = np.ones(mesh.num_nodes, dtype=bool)
    for tag in dirichlet_tags:
        free[facets_of_tag(mesh, tag).nodes] = False
    return np.nonzero(free)[0]


@jax.custom_jvp
def inverse_quadratic(matrix: Matrix, vectors: RightHandSides) -> Float[Array, " sample"]:
    r"""$r^\top A^{-1} r$ for each column, with a symmetric positive definite matrix."""
    return jnp.sum(vectors * solve_positive(matrix, vectors), axis=0)


@inverse_quadratic.defjvp
def inverse_quadratic_jvp(primals, tangents):
    """With the solution at hand, no second solve is needed."""
    (matrix, vectors), (matrix_change, vector_change) = primals, tangents
    solution = solve_positive(matrix, vectors)
    value = jnp.sum(vectors * solution, axis=0)
    change = 2 * jnp.sum(solution * vector_change, axis=0)
    return value, change - jnp.sum(solution * (matrix_change @ solution), axis=0)


def solve_positive(matrix: Matrix, all_rhs: RightHandSides) -> RightHandSides:
    """Gauss-Jordan elimination without pivoting, which positive definite matrices do not need.

    Written out instead of calling LAPACK: batched LAPACK kernels of the CPU backend hand work to
    the same few threads that wait for it, and two of them side by side can wait for ever.
    """
    num_rows = len(matrix)

    def eliminate(k, table):
        pivot_row = table[k] / table[k, k]
        return (table - table[:, k][:, None] * pivot_row[None, :]).at[k].set(pivot_row)

    table = jnp.concatenate([matrix, all_rhs], axis=1)
    return jax.lax.fori_loop(0, num_rows, eliminate, table)[:, num_rows:]
