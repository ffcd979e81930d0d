r"""Mini-patches whose energies come from a table of entries of the inverse Gram matrix.

The table is made offline and kept: one row of the tapered inverse for each free node
(`TaperedPatches`), or one principal block for each patch (`BlockPatches`).
"""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Int, PRNGKeyArray

from riesz.penalty.norm import AbstractPatches, PatchSample
from riesz.penalty.patch import PatchTable


class TaperedPatches(AbstractPatches):
    r"""One patch a free node: the terms $r_i \sum_j \Gamma_{ij} r_j$ of $r^\top \Gamma r$.

    Single terms may be negative for any taper, and with the hard taper their sum too.
    """

    table: PatchTable  # the node itself is the first of a patch's rows
    inverse_rows: Float[Array, "patch row"]  # of the tapered inverse; zero for absent rows
    printed: bool = eqx.field(static=True)

    @property
    def factor(self) -> float:
        r"""The number of nodes $N$, as in $\frac{N}{P}\sum_p$.

        The paper's eq. (19) lacks it: as printed, the mean of $P$ terms, the estimate is smaller
        by $N$, and its scale changes with the mesh.
        """
        return 1.0 if self.printed else float(self.num_patches)

    def sample(self, key: PRNGKeyArray, count: int) -> PatchSample:
        """Patches drawn independently, each as likely."""
        patches = jr.randint(key, (count,), 0, self.num_patches)
        return PatchSample(patches, jnp.full(count, self.factor, self.inverse_rows.dtype))

    def all(self) -> PatchSample:
        """Every patch."""
        factors = jnp.full(self.num_patches, self.factor, self.inverse_rows.dtype)
        return PatchSample(jnp.arange(self.num_patches), factors)

    def energies(
        self, patches: Int[Array, " patch"], residuals: Float[Array, "patch row sample"]
    ) -> Float[Array, "patch sample"]:
        r"""$r_i (\Gamma r)_i$."""
        return residuals[:, 0] * jnp.einsum("pr,prs->ps", self.inverse_rows[patches], residuals)


class BlockPatches(AbstractPatches):
    r"""Principal blocks of the inverse on overlapping patches: $r_p^\top [A^{-1}]_{pp}\, r_p$.

    Never negative; the sum is divided by the coverage. Blind to what couples distant nodes.
    """

    table: PatchTable
    blocks: Float[Array, "patch row row"]  # zero for absent rows
    coverage: Float[Array, ""]  # in how many patches each free node lies

    def sample(self, key: PRNGKeyArray, count: int) -> PatchSample:
        """Patches drawn independently, each as likely."""
        patches = jr.randint(key, (count,), 0, self.num_patches)
        return PatchSample(patches, jnp.broadcast_to(self.num_patches / self.coverage, (count,)))

    def all(self) -> PatchSample:
        """Every patch."""
        factors = jnp.broadcast_to(self.num_patches / self.coverage, (self.num_patches,))
        return PatchSample(jnp.arange(self.num_patches), factors)

    def energies(
        self, patches: Int[Array, " patch"], residuals: Float[Array, "patch row sample"]
    ) -> Float[Array, "patch sample"]:
        r"""$r_p^\top [A^{-1}]_{pp}\, r_p$."""
        return jnp.einsum("prs,prq,pqs->ps", residuals, self.blocks[patches], residuals)
