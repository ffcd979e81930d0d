r"""Gauss-Newton for the readout of a factorised surrogate.

With the functions of place and of the unknowns held fixed, the surrogate is linear in its readout
$W$, and the penalty a sum of squares: $\sum_p f_p\,|r_p(W)|^2_{A_p^{-1}}$. The derivative of a
patch's residual by the mixture of features, $J_p$, gives the normal matrix as a sum of Kronecker
products $J_p^\top A_p^{-1} J_p \otimes h h^\top$ with the hidden values $h(\xi)$. For a linear
equation one step finds the minimum, which gradient descent approaches slowly. (A small ridge makes
it a Tikhonov-regularised least-squares problem.)
"""

import dataclasses
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray, PyTree

from riesz.devices import Devices, sum_over_rows
from riesz.errors import RieszError
from riesz.penalty.norm import (
    AbstractPatches,
    NormSample,
    PatchNorm,
    PatchSample,
    SchwarzPatches,
    solve_positive,
)
from riesz.penalty.penalty import WeakFormPenalty
from riesz.penalty.rows import AbstractPlacedState, Place
from riesz.problem.problem import InverseProblem
from riesz.surrogate.surrogate import COORDINATES, SteadySurrogate

MIXTURE = "riesz:mixture"
"""The entry of `z` that holds the mixture of features."""

LARGEST = 6000
"""Unknowns of the normal equations up to which they are formed."""

LARGEST_IN_TIME = 3000
"""The same where there are such equations for several kinds of steps."""

RIDGE = 1e-10
"""Relative to the mean of the diagonal: features that nothing tells apart stay as they are."""

FEWEST_FEATURES = 24
"""Functions of place without which a surrogate is none."""


class MixedFeatures(AbstractPlacedState):
    """The surrogate with its mixture of features taken from `z`."""

    surrogate: SteadySurrogate

    def at(self, place: Place, z: PyTree) -> Float[Array, ""]:
        own = self.surrogate
        inner = own.network.features(own.frame.inside(place.x)) @ z[MIXTURE]
        return own.with_boundary(place, z[COORDINATES], inner)


class NormalEquations(eqx.Module):
    """Sums over batches of patches and of samples; the slope is that at a readout of zero."""

    matrix: Float[Array, "hidden feature hidden feature"]
    gradient: Float[Array, "hidden feature"]

    def plus(self, other: "NormalEquations") -> "NormalEquations":
        """With further samples."""
        return jax.tree.map(jnp.add, self, other)


def gauss_newton_readout(
    problem: InverseProblem,
    penalty: WeakFormPenalty,
    surrogate: SteadySurrogate,
    key: PRNGKeyArray,
    batches: Float[Array, "batch sample coordinate"],
) -> SteadySurrogate:
    """The surrogate with its readout moved by one Gauss-Newton step, from sampled patches."""
    return solve_readout(surrogate, normal_equations(problem, penalty, surrogate, key, batches))


def normal_equations(
    problem: InverseProblem,
    penalty: WeakFormPenalty,
    surrogate: SteadySurrogate,
    key: PRNGKeyArray,
    batches: Float[Array, "batch sample coordinate"],
    devices: Devices | None = None,
) -> NormalEquations:
    """From sampled patches, about the readout that the surrogate has."""
    rows = jr.split(key, len(batches)), batches
    result = sum_over_rows(sum_batches, (problem, penalty, surrogate), rows, devices)
    moved = jnp.einsum("ikjl,jl->ik", result.matrix, surrogate.network.readout)
    return NormalEquations(result.matrix, result.gradient - moved)


def solve_readout(surrogate: SteadySurrogate, equations: NormalEquations) -> SteadySurrogate:
    """The surrogate with the readout that solves them."""
    network, readout = surrogate.network, surrogate.network.readout
    size = readout.size
    matrix = np.array(equations.matrix, dtype=float).reshape(size, size)
    start = np.asarray(readout, dtype=float).ravel()
    slope = matrix @ start + np.asarray(equations.gradient, dtype=float).ravel()
    matrix[np.diag_indices(size)] += RIDGE * np.trace(matrix) / size
    moved = start - np.linalg.solve(matrix, slope)
    moved_network = dataclasses.replace(
        network, readout=jnp.asarray(moved.reshape(readout.shape), readout.dtype)
    )
    return dataclasses.replace(surrogate, network=moved_network)


@eqx.filter_jit
def sum_batches(
    problem: InverseProblem,
    penalty: WeakFormPenalty,
    surrogate: SteadySurrogate,
    rows: tuple[Key[Array, " batch"], Float[Array, "batch sample coordinate"]],
    counted: Bool[Array, " batch"] | None,
) -> NormalEquations:
    """Over batches, each with a key for its patches: those that are counted, or all."""
    hidden, features = surrogate.network.readout.shape
    dtype = rows[1].dtype
    empty = NormalEquations(
        jnp.zeros((hidden, features, hidden, features), dtype), jnp.zeros((hidden, features), dtype)
    )

    def add(total, drawn):
        (key, coordinates), counts = drawn
        one = batch_equations(problem, penalty, surrogate, key, coordinates)
        if counts is not None:
            one = jax.tree.map(lambda part: jnp.where(counts, part, 0.0), one)
        return jax.tree.map(jnp.add, total, one), None

    return jax.lax.scan(add, empty, (rows, counted))[0]


def batch_equations(
    problem: InverseProblem,
    penalty: WeakFormPenalty,
    surrogate: SteadySurrogate,
    key: PRNGKeyArray,
    coordinates: Float[Array, "sample coordinate"],
) -> NormalEquations:
    """The contribution of drawn patches and samples."""
    network = surrogate.network
    sample = penalty.norm.sample(key, penalty.num_patches)
    zs = jax.vmap(lambda c: {**problem.z(c), COORDINATES: c, MIXTURE: network.mixture(c)})(
        coordinates
    )
    hidden = jax.vmap(network.hidden)(coordinates)

    def rows(change):
        mixed = {**zs, MIXTURE: zs[MIXTURE] + change[None, :]}
        return penalty.rows(sample, MixedFeatures(surrogate), mixed)

    still = jnp.zeros(zs[MIXTURE].shape[1], coordinates.dtype)
    squares = patch_squares(penalty, sample, rows(still), jax.jacfwd(rows)(still))
    # Each sample in units of its own operator: else a few large coefficients would count alone.
    squares = squares / jnp.trace(squares[:, :, :-1], axis1=1, axis2=2)[:, None, None]
    normal, slope = squares[:, :, :-1], squares[:, :, -1]
    return NormalEquations(
        jnp.einsum("skl,si,sj->ikjl", normal, hidden, hidden),
        jnp.einsum("sk,si->ik", slope, hidden),
    )


def patch_squares(
    penalty: WeakFormPenalty, sample: NormSample, rows: PyTree, slopes: PyTree
) -> Float[Array, "sample feature feature_plus_one"]:
    r"""$J^\top A^{-1} [J, r]$ summed over patches, for each sample of the unknowns."""
    both = jax.tree.map(lambda s, r: jnp.concatenate([s, r[..., None]], axis=-1), slopes, rows)
    return products(weighted_jacobian(penalty.norm, sample, slopes), both)


SideRows = Float[Array, "_ _ sample _"]  # of each patch
Sides = tuple[SideRows, SideRows | None]
"""On patches of the finest mesh, and of the coarse levels where there are any."""


def weighted_jacobian(norm: PatchNorm, sample: NormSample, slopes: Sides) -> Sides:
    r"""$f_p A_p^{-1} J_p$ on all patches."""

    def weighted(
        patches: AbstractPatches | None, drawn: PatchSample | None, slope: SideRows | None
    ) -> SideRows | None:
        if drawn is None or slope is None or not isinstance(patches, SchwarzPatches):
            return None
        num_patches, num_rows = slope.shape[:2]
        matrices = jax.vmap(patches.local_gram)(drawn.patches)
        solved = jax.vmap(solve_positive)(matrices, slope.reshape(num_patches, num_rows, -1))
        return drawn.factors[:, None, None, None] * solved.reshape(slope.shape) / num_patches

    fine = weighted(norm.fine, sample.fine, slopes[0])
    assert fine is not None
    return fine, weighted(norm.coarse, sample.coarse, slopes[1])


def products(weighted: Sides, columns: Sides) -> Float[Array, "sample _ _"]:
    """Summed over patches and their rows, for each sample of the unknowns."""
    pairs = [(w, c) for w, c in zip(weighted, columns, strict=True) if w is not None]
    result = [jnp.einsum("prsk,prsl->skl", own, column) for own, column in pairs]
    return sum(result[1:], start=result[0])


@dataclass(frozen=True)
class Split:
    """Coordinates of both kinds, and how many functions of the others the affine ones multiply."""

    linear: Int[np.ndarray, " linear"]
    others: Int[np.ndarray, " other"]
    num_crossed: int
    num_hidden: int


def splits(
    linear: Int[np.ndarray, " linear"], others: Int[np.ndarray, " other"], num_bends: int
) -> list[Split]:
    """The richest first: products with all functions, products with linear ones, or none.

    Without any products, all coordinates are treated alike: they have linear functions anyway.
    """
    curved = 1 + len(others) + (num_bends if len(others) else 0)
    result = [
        Split(linear, others, num_crossed, len(linear) * num_crossed + curved)
        for num_crossed in (curved, 1 + len(others))
    ]
    everything = np.sort(np.concatenate([linear, others]))
    return [*result, Split(everything[:0], everything, 1, 1 + len(everything) + num_bends)]


def fitting_split(candidates: list[Split], num_features: int, largest: int = LARGEST) -> Split:
    """The richest whose normal equations are not too large; the last if all are."""
    small = [split for split in candidates if split.num_hidden * num_features <= largest]
    return (small or candidates)[0 if small else -1]


def fitting_features(candidates: list[Split], wanted: int, largest: int = LARGEST) -> int:
    """Functions of place: fewer than wanted where that leaves room for richer functions."""
    room = [largest // split.num_hidden for split in candidates]
    enough = [count for count in room if count >= min(wanted, FEWEST_FEATURES)]
    if not enough:
        leanest = candidates[-1].num_hidden
        raise RieszError(
            f"a surrogate cannot carry so many unknowns: with {leanest} functions of them, the "
            f"fewest, there is room for {room[-1]} functions of place, and no state is made of "
            f"fewer than {FEWEST_FEATURES} (at most {largest} products of both). Use the density "
            "exact."
        )
    return min(wanted, enough[0])
