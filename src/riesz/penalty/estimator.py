"""What every mini-patch estimator has: patches to draw, and an energy of residuals on each.

The estimators differ in the energy of a patch: a local Dirichlet problem (`schwarz_patches`), a
tapered row or a principal block of the inverse Gram matrix (`tapered_patches`). Whoever evaluates
residuals needs to know the table of patches only.
"""

from abc import abstractmethod

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

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
