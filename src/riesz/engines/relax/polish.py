r"""The end of a training with `relax`: the objective without sampling noise.

Where the surrogate is rich enough, its best value for given unknowns depends on them alone and not
on q: it weighs the data against the equation, point by point. So the two are found in turn, the
surrogate by least squares and q by a quasi-Newton method, on one set of draws and of patches.
"""

import dataclasses
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from riesz.engines.emulate.least_squares import (
    MIXTURE,
    RIDGE,
    MixedFeatures,
    NormalEquations,
    applies_to,
    factorised,
    patch_squares,
)
from riesz.engines.relax.error_scale import count_patches, noise_variances
from riesz.engines.relax.training import AnySurrogate, relaxed_terms, with_part
from riesz.engines.training import minimised
from riesz.fem.problem import BoundaryValueProblem
from riesz.penalty.norm import NormSample
from riesz.penalty.penalty import AbstractPenalty, WeakFormPenalty, over_states
from riesz.penalty.rows import StateFunction, values_at_nodes
from riesz.posterior.family import AbstractGaussian, Draws, MeanField
from riesz.problem.problem import InverseProblem
from riesz.surrogate.surrogate import COORDINATES, NodalSurrogate, Surrogate

LARGEST = 512
"""Patches that are all taken; of more, so many are drawn."""

Family = TypeVar("Family", bound=AbstractGaussian)


class ChosenPatches(AbstractPenalty):
    """A penalty on patches that are chosen once and for all."""

    problem: BoundaryValueProblem
    whole: WeakFormPenalty
    sample: NormSample

    def __call__(self, key: PRNGKeyArray, u: StateFunction, zs: PyTree = None) -> Float[Array, ""]:
        return jnp.mean(self.whole.estimates(self.sample, u, zs))

    def nodal(
        self, key: PRNGKeyArray, states: Float[Array, "sample node"], zs: PyTree = None
    ) -> Float[Array, ""]:
        def squared(residual):
            return self.whole.norm.squared(residual, self.sample)

        return jnp.mean(over_states(self.problem, states, zs, squared))


def without_noise(penalty: AbstractPenalty, key: PRNGKeyArray) -> AbstractPenalty:
    """The penalty on all its patches, or on many where there are too many."""
    if not isinstance(penalty, WeakFormPenalty):
        return penalty
    many = count_patches(penalty) > LARGEST
    sample = penalty.norm.sample(key, LARGEST) if many else penalty.norm.all()
    return ChosenPatches(penalty.problem, penalty, sample)


def polished(
    problem: InverseProblem,
    penalty: AbstractPenalty,
    surrogate: AnySurrogate,
    family: Family,
    normals: Draws,
    epsilon: Float[Array, ""],
    *,
    rounds: int,
) -> tuple[AnySurrogate, Family]:
    """The surrogate and q in turn, on fixed draws and the penalty `without_noise`."""
    for _ in range(rounds):
        draws = family.transformed(normals)
        surrogate = fitted_surrogate(problem, penalty, surrogate, draws, epsilon)
        family = minimised(family, family_cost, problem, penalty, surrogate, normals, epsilon)
    return surrogate, family


def fitted_surrogate(
    problem: InverseProblem,
    penalty: AbstractPenalty,
    surrogate: AnySurrogate,
    draws: Draws,
    epsilon: Float[Array, ""],
) -> AnySurrogate:
    """The surrogate moved to the best weights of the data against the equation."""
    if isinstance(surrogate, NodalSurrogate):
        weights = minimised(
            surrogate.weights, weights_cost, problem, penalty, surrogate, draws, epsilon
        )
        return with_part(surrogate, weights)
    if isinstance(penalty, ChosenPatches) and applies_to(penalty.whole, surrogate):
        equations = normal_equations(problem, penalty, surrogate, draws, epsilon)
        return stepped(surrogate, equations)
    return surrogate


@eqx.filter_jit
@eqx.filter_value_and_grad
def family_cost(
    family: AbstractGaussian,
    problem: InverseProblem,
    penalty: AbstractPenalty,
    surrogate: AnySurrogate,
    normals: Draws,
    epsilon: Float[Array, ""],
) -> Float[Array, ""]:
    """The objective as a function of q."""
    key = jr.key(0)  # nothing is drawn
    return relaxed_terms(problem, penalty, surrogate, family, key, normals, epsilon).total()


@eqx.filter_jit
@eqx.filter_value_and_grad
def weights_cost(
    weights: PyTree,
    problem: InverseProblem,
    penalty: AbstractPenalty,
    surrogate: AnySurrogate,
    draws: Draws,
    epsilon: Float[Array, ""],
) -> Float[Array, ""]:
    """The objective as a function of the surrogate's weights."""
    size = draws.shape[1]
    still = MeanField(jnp.zeros(size, draws.dtype), jnp.zeros(size, draws.dtype))
    moved = with_part(surrogate, weights)
    return relaxed_terms(problem, penalty, moved, still, jr.key(0), draws, epsilon).total()


@eqx.filter_jit
def normal_equations(
    problem: InverseProblem,
    penalty: ChosenPatches,
    surrogate: Surrogate,
    draws: Draws,
    epsilon: Float[Array, ""],
) -> NormalEquations:
    """Of the readout, for misfit and penalty together, averaged over draws."""
    network = factorised(surrogate)
    zs = jax.vmap(lambda c: {**problem.z(c), COORDINATES: c, MIXTURE: network.mixture(c)})(draws)

    def of_draw(z: PyTree) -> NormalEquations:
        hidden = network.hidden(z[COORDINATES])
        square, slope = patch_part(penalty, surrogate, z)
        data_square, data_slope = data_part(problem, surrogate, z)
        square, slope = square / epsilon**2 + data_square, slope / epsilon**2 + data_slope
        return NormalEquations(
            jnp.einsum("kl,i,j->ikjl", square, hidden, hidden), jnp.einsum("k,i->ik", slope, hidden)
        )

    def add(total, z):
        return jax.tree.map(lambda t, one: t + one / len(draws), total, of_draw(z)), None

    shapes = jax.eval_shape(of_draw, jax.tree.map(lambda leaf: leaf[0], zs))
    empty = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    return jax.lax.scan(add, empty, zs)[0]


def patch_part(
    penalty: ChosenPatches, surrogate: Surrogate, z: PyTree
) -> tuple[Float[Array, "feature feature"], Float[Array, " feature"]]:
    """Half the second derivative of the penalty by the mixture of features, and half the first."""

    def rows(change):
        mixed = jax.tree.map(lambda leaf: leaf[None], {**z, MIXTURE: z[MIXTURE] + change})
        return penalty.whole.rows(penalty.sample, MixedFeatures(surrogate), mixed)

    still = jnp.zeros_like(z[MIXTURE])
    squares = patch_squares(penalty.whole, penalty.sample, rows(still), jax.jacfwd(rows)(still))
    return squares[0, :, :-1], squares[0, :, -1]


def data_part(
    problem: InverseProblem, surrogate: Surrogate, z: PyTree
) -> tuple[Float[Array, "feature feature"], Float[Array, " feature"]]:
    """The same of the misfit."""

    dofs = problem.operator.dofs
    x = problem.forward.cells.domain.nodes[:, dofs.ravel()].T

    def predicted(mixture):
        mixed = {**z, MIXTURE: mixture}
        values = values_at_nodes(MixedFeatures(surrogate), dofs.ravel(), x, mixed)
        return problem.operator.combined(values.reshape(dofs.shape))

    slopes = jax.jacfwd(predicted)(z[MIXTURE])
    weighted = slopes / noise_variances(problem, z[COORDINATES])[:, None]
    return weighted.T @ slopes, (predicted(z[MIXTURE]) - problem.observed) @ weighted


def stepped(surrogate: Surrogate, equations: NormalEquations) -> Surrogate:
    """The surrogate with its readout at the minimum of the squares."""
    network = factorised(surrogate)
    readout, size = network.readout, network.readout.size
    matrix = np.array(equations.matrix, dtype=float).reshape(size, size)
    matrix[np.diag_indices(size)] += RIDGE * np.trace(matrix) / size
    change = -np.linalg.solve(matrix, np.asarray(equations.slope, dtype=float).ravel())
    readout = readout + jnp.asarray(change.reshape(readout.shape), readout.dtype)
    return dataclasses.replace(surrogate, network=dataclasses.replace(network, readout=readout))
