"""Norms of residuals by mini-patches: those of the finest mesh, and of coarse levels below it.

Estimators differ in the energy of a patch, such as that of a local Dirichlet problem in
`schwarz_patches`. Whoever evaluates residuals needs to know the table of patches only.
"""

from abc import abstractmethod

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Int, PRNGKeyArray

from riesz.errors import RieszError
from riesz.penalty.patch import PatchTable


class PatchSample(eqx.Module):
    """Some patches, and the factors that make the mean of their energies unbiased."""

    patches: Int[Array, " patch"]
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
    def energies(
        self, patches: Int[Array, " patch"], residuals: Float[Array, "patch row sample"]
    ) -> Float[Array, "patch sample"]:
        """The energy of residuals on the rows of each patch."""

    def estimate(
        self, sample: PatchSample, residuals: Float[Array, "patch row sample"]
    ) -> Float[Array, " sample"]:
        """The mean of weighted energies, for each sample of the latents."""
        energies = self.energies(sample.patches, residuals)
        return jnp.mean(sample.factors[:, None] * energies, axis=0)

    def nodal_estimate(
        self, sample: PatchSample, residual: Float[Array, " node"]
    ) -> Float[Array, ""]:
        """The estimate for a residual that is known at all nodes."""
        return self.estimate(sample, self.residuals_on(sample, residual[None]))[0]

    def residuals_on(
        self, sample: PatchSample, residuals: Float[Array, "sample node"]
    ) -> Float[Array, "patch row sample"]:
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

    def __call__(self, residual: Float[Array, " node"]) -> Float[Array, " coarse"]:
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

    def squared(
        self, residual: Float[Array, " node"], sample: NormSample | None = None
    ) -> Float[Array, ""]:
        """The norm of a residual given at all nodes, or its estimate from a sample."""
        sample = self.all() if sample is None else sample
        fine = self.fine.nodal_estimate(sample.fine, residual)
        if self.coarse is None or self.restriction is None or sample.coarse is None:
            return fine
        return fine + self.coarse.nodal_estimate(sample.coarse, self.restriction(residual))
