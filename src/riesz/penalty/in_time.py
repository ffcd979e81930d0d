r"""The dual norm of a trajectory: a sum over steps, of which some are drawn with some patches.

Each implicit step, or stage of one where it has two, is an elliptic problem, whose Gram matrix has
the storage in it: $G_n = A + \rho\,\alpha_n M$ with $\alpha_n$ the rate of the difference formula
and $\rho$ the capacity by the diffusivity. Of states $u_0, u_1, \ldots$ that solve them roughly,

$$ \sum_n \|r_n(u_n; u_{n-1}, u_{n-2})\|^2_{G_n^{-1}} $$

is estimated from (step, patch) pairs: a pair asks for the states of three times on one patch, and
costs the same on any mesh and for any number of steps. See docs/theory.md.
"""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from riesz.arrays import on_device
from riesz.fem.assembly import jacobian
from riesz.fem.elements.domain import Domain
from riesz.fem.problem import BoundaryValueProblem, with_form
from riesz.fem.terms.coefficient import AbstractCoefficient, Constant
from riesz.fem.terms.pointwise import Point
from riesz.fem.terms.series import TIME
from riesz.fem.terms.weakform import reaction
from riesz.fem.time.problem import TransientProblem, at_time, with_coefficients, with_history
from riesz.fem.time.scheme import Weights, stage_times, weights_of
from riesz.mesh.refinement import Hierarchy
from riesz.penalty.gram import Gram
from riesz.penalty.norm import AbstractPatches, NormSample, SchwarzPatches
from riesz.penalty.penalty import Estimates, WeakFormPenalty, weak_form_penalty
from riesz.penalty.rows import Place, StateFunction, value_at, values_at_nodes

STEP = "riesz:step"
"""The entry of `z` that says at the end of which step a state is asked for; 0 is the beginning."""

LAG = "riesz:lag"
"""How many steps that is before the one whose residual is formed."""

LAGS = (1, 2)


class Stepping(eqx.Module):
    """Times and the difference formula, a row for each state; that of the first is all zeros."""

    times: Float[Array, " time"]
    weights: Weights

    def at(self, z: PyTree, step: Int[Array, ""], lag: int = 0) -> dict[str, Any]:
        """What an equation and a state read at a step, or so many before it."""
        own = jnp.maximum(step - lag, 0)
        place = {STEP: own, LAG: jnp.full_like(own, lag), TIME: self.times[own]}
        return {**({} if z is None else z), **place}


class StepRate(AbstractCoefficient):
    """How much of the change in time a state of its own makes."""

    stepping: Stepping

    def gather(self, domain: Domain) -> PyTree[Array]:
        return ()

    def at(self, local: PyTree[Array], point: Point) -> Array:
        return self.stepping.weights.now[point.z[STEP]]

    def resolve(self, z: PyTree, label: str) -> AbstractCoefficient:
        return Constant(self.stepping.weights.now[z[STEP]])

    def degree(self) -> int:
        return 0


class Carried(AbstractCoefficient):
    """What earlier states bring into a step: interpolated from nodes, or taken at each point."""

    state: StateFunction
    stepping: Stepping
    z: PyTree = None
    pointwise: bool = eqx.field(static=True, default=False)

    def resolve(self, z: PyTree, label: str) -> AbstractCoefficient:
        return dataclasses.replace(self, z=z)

    def weighted_sum(self, values: Any) -> Array:
        """Of a function of what states read, by the weights of the formula."""
        step, weights = self.z[STEP], self.stepping.weights
        each = zip((weights.last, weights.before), LAGS, strict=True)
        result = [own[step] * values(self.stepping.at(self.z, step, lag)) for own, lag in each]
        return result[0] + result[1]

    def gather(self, domain: Domain) -> PyTree[Array]:
        corners, nodes = domain.corners, domain.nodes
        if self.pointwise:
            return corners
        if corners.size < nodes.shape[1]:
            flat = corners.ravel()
            result = self.weighted_sum(
                lambda z: values_at_nodes(self.state, flat, nodes[:, flat].T, z)
            )
            return result.reshape(corners.shape)
        every = jnp.arange(nodes.shape[1])
        return self.weighted_sum(lambda z: values_at_nodes(self.state, every, nodes.T, z))[corners]

    def at(self, local: PyTree[Array], point: Point) -> Array:
        if self.pointwise:
            place = Place(point.x, local, jnp.stack(point.barycentric))
            return self.weighted_sum(lambda z: value_at(self.state, place, z))
        parts = [weight * local[i] for i, weight in enumerate(point.barycentric)]
        return sum(parts[1:], start=parts[0])

    def degree(self) -> int:
        return 1


class StepPenalty(eqx.Module):
    """How far functions u(x, z), which find the time in `z`, are from solving all steps.

    Each sample of the latents has a step of its own drawn for it.
    """

    own: WeakFormPenalty  # of the steady equation
    stepping: Stepping
    reactions: Float[Array, " time"]  # of the Gram matrices of steps
    first: int = eqx.field(static=True)  # 0 where the first state is one to be found, 1 if given

    @property
    def num_steps(self) -> int:
        """Whose residuals count."""
        return len(self.stepping.times) - self.first

    def __call__(self, key: PRNGKeyArray, u: StateFunction, zs: PyTree) -> Float[Array, ""]:
        patch_key, step_key = jr.split(key)
        sample = self.own.norm.sample(patch_key, self.own.num_patches)
        count = len(jax.tree.leaves(zs)[0])
        steps = jr.randint(step_key, (count,), self.first, len(self.stepping.times))
        return jnp.mean(self.estimates(sample, steps, u, zs))

    def estimates(
        self, sample: NormSample, steps: Int[Array, " sample"], u: StateFunction, zs: PyTree
    ) -> Estimates:
        """Of the sum over all steps, from given patches and one step for each sample."""

        def one(step, z):
            alone = jax.tree.map(lambda leaf: leaf[None], self.stepping.at(z, step))
            return self.of_step(u, step).estimates(sample, u, alone)[0]

        return self.num_steps * jax.vmap(one)(steps, zs)

    def of_step(self, u: StateFunction, step: Int[Array, ""]) -> WeakFormPenalty:
        """The penalty of one step, where earlier states are those of u as well."""
        rate, norm = StepRate(self.stepping), self.own.norm
        fine, tested = (
            with_coefficients(self.own.problem, rate, Carried(u, self.stepping, pointwise=there))
            for there in (False, True)
        )

        def shift_patches(patches: AbstractPatches | None) -> AbstractPatches | None:
            if not isinstance(patches, SchwarzPatches):
                return patches
            return dataclasses.replace(patches, reaction=self.reactions[step])

        moved = dataclasses.replace(
            norm, fine=shift_patches(norm.fine), coarse=shift_patches(norm.coarse)
        )
        return dataclasses.replace(self.own, problem=fine, tested=tested, norm=moved)


def step_penalty(
    transient: TransientProblem,
    hierarchy: Hierarchy | None,
    z: PyTree,
    *,
    gram: Gram | None = None,
    **settings: Any,
) -> StepPenalty:
    """Set up the penalty of a trajectory; `z` says how large coefficients are.

    `gram` is the inner product of the steady equation, to which storage adds its own;
    `settings` are those of `weak_form_penalty`.
    """
    gram, steps = Gram() if gram is None else gram, stepping(transient)
    reactions = step_reactions(transient, steps, gram, z)
    with_storage = Gram(gram.diffusivity, float(reactions[1]))
    own = weak_form_penalty(transient.step, hierarchy, gram=with_storage, **settings)
    first = 0 if transient.initial is None else 1
    return StepPenalty(own, steps, reactions, first)


def step_reactions(
    transient: TransientProblem, steps: Stepping, gram: Gram, z: PyTree
) -> Float[Array, " time"]:
    """Of the Gram matrices of steps, of which storage is a part."""
    share = storage_share(transient.step, gram, at_time(z, steps.times[0]))
    return gram.reaction + share * steps.weights.now


def stepping(transient: TransientProblem) -> Stepping:
    times = stage_times(on_device(transient.axis.times, transient.dtype), transient.scheme)
    of_steps = weights_of(transient.axis, transient.scheme, transient.dtype)
    weights = jax.tree.map(lambda row: jnp.concatenate([jnp.zeros_like(row[:1]), row]), of_steps)
    return Stepping(times, weights)


def storage_share(step: BoundaryValueProblem, gram: Gram, z: PyTree) -> float:
    """What is stored beside what is moved, in units of the Gram form: mean capacities by mean
    diffusivities."""
    nothing = jnp.zeros(step.space.num_dofs, step.dtype)
    steady = jacobian(step, nothing, z).to_scipy()
    stored = jacobian(with_history(step, jnp.ones((), step.dtype), nothing), nothing, z).to_scipy()
    bare = dataclasses.replace(gram, reaction=0.0)
    energy = jacobian(with_form(step, bare.form(step.space.mesh)), nothing).to_scipy()
    mass = jacobian(with_form(step, reaction(1.0)), nothing).to_scipy()
    capacity = (stored - steady).sum() / mass.sum()
    diffusivity = float(steady.diagonal().sum() / energy.diagonal().sum())
    return float(capacity / diffusivity) if diffusivity > 0 else float(np.asarray(capacity))
