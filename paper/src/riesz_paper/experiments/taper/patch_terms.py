"""All that draws of a mini-patch estimator can give, so that its moments need no sampling."""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from riesz.fem.problem import BoundaryValueProblem
from riesz.penalty.gram import DualNorm
from riesz.penalty.norm import AbstractPatches, NormSample, PatchNorm


@dataclass(frozen=True)
class Side:
    """The energies of all patches on the finest mesh, or on the one coarse level below it.

    Draws on a side are uniform, and all its patches have the same factor.
    """

    energies: Float[np.ndarray, "case patch"]
    factor: float


@dataclass(frozen=True)
class Terms:
    """All that the draws of an estimator can give for some residuals."""

    norm: PatchNorm
    fine: Side
    coarse: Side | None
    exact: Float[np.ndarray, " case"]
    patch_nodes: float  # tested nodes in a patch of the finest mesh, on average
    coverage: float  # the part of the mesh's nodes that such a patch depends on, on average

    def sides(self, case: int) -> list[Float[np.ndarray, " patch"]]:
        """Weighted energies, of which the estimator's form is the sum of means."""
        there = (side for side in (self.fine, self.coarse) if side is not None)
        return [side.factor * side.energies[case] for side in there]

    def whole(self, case: int) -> float:
        """The estimator's form itself, without any sampling."""
        return float(sum(side.mean() for side in self.sides(case)))

    def sd(self, case: int, num_patches: int) -> float:
        """The standard deviation of an estimate from `num_patches` draws, exactly."""
        sides = self.sides(case)
        if len(sides) == 1:
            return float(sides[0].std() / np.sqrt(num_patches))
        if num_patches == 1:  # a coin chooses the side, which counts twice
            second_moment = 2 * sum(np.mean(side**2) for side in sides)
            return float(np.sqrt(second_moment - self.whole(case) ** 2))
        counts = (num_patches - num_patches // 2, num_patches // 2)
        return float(np.sqrt(sum(s.var() / n for s, n in zip(sides, counts, strict=True))))

    def estimate(self, case: int, sample: NormSample) -> np.ndarray:
        """Estimates from drawn patches; leading axes of the sample are a batch of draws."""
        pairs = [(self.fine, sample.fine), (self.coarse, sample.coarse)]
        parts = [
            np.asarray(part.factors) * side.energies[case, np.asarray(part.patches)]
            for side, part in pairs
            if side is not None and part is not None
        ]
        return np.asarray(sum(part.mean(axis=-1) for part in parts))


def patch_terms(
    problem: BoundaryValueProblem,
    exact: DualNorm,
    norm: PatchNorm,
    residuals: Float[np.ndarray, "case free"],
) -> Terms:
    """All energies of all residuals."""
    at_nodes = np.zeros((len(residuals), problem.space.num_dofs))
    at_nodes[:, np.asarray(problem.free)] = residuals
    fine, coarse = jnp.asarray(at_nodes), None
    if norm.coarse is not None and norm.restriction is not None:
        coarse = side(norm.coarse, jax.vmap(norm.restriction)(fine))
    rows, nodes = np.asarray(norm.fine.table.rows), np.asarray(norm.fine.table.nodes)
    num_nodes = 1 + (nodes[:, 1:] != nodes[:, :1]).sum(axis=1)  # the first one fills up
    return Terms(
        norm=norm,
        fine=side(norm.fine, fine),
        coarse=coarse,
        exact=np.asarray(jax.vmap(exact.squared)(jnp.asarray(residuals))),
        patch_nodes=float((rows >= 0).sum(axis=1).mean()),
        coverage=float(num_nodes.mean() / problem.space.num_dofs),
    )


def side(patches: AbstractPatches, residuals: Float[Array, "case node"]) -> Side:
    factors = np.unique(np.asarray(patches.all().factors))
    assert len(factors) == 1, "several coarse levels: draws are not uniform"
    return Side(np.asarray(energies(patches, residuals)), float(factors[0]))


@eqx.filter_jit
def energies(
    patches: AbstractPatches, residuals: Float[Array, "case node"]
) -> Float[Array, "case patch"]:
    """The energies of all patches, one residual after the other to save memory."""
    rows = patches.table.rows
    everything = jnp.arange(patches.num_patches)

    def of_one(residual):
        values = jnp.where(rows < 0, 0.0, residual[rows])
        return patches.energies(everything, values[:, :, None])[:, 0]

    return jax.lax.map(of_one, residuals)
