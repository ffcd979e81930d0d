r"""Readouts of a trajectory, step after step, by least squares on its dual norm.

In a linear equation the residual of a step is linear in its own mixture $c_n$ of the functions of
place and in that of earlier steps, $r_n = J c_n + B\,(\text{last}\,c_{n-1} + \text{before}\,
c_{n-2}) + \ell_n$. $J$ and $B$ are the same for all steps of one kind, as long as coefficients do
not change, and $\ell_n$ is what sources, prescribed values and the first state leave. Of sampled
patches and values of the unknowns, $J^\top G^{-1} J$, $J^\top G^{-1} B$ and $J^\top G^{-1}\ell_n$
are found once; readouts then follow from each other without the mesh. Were $G$ the matrix of the
step, this were Galerkin's method in the functions of place, and Rothe's in time.
"""

import dataclasses
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import scipy.linalg as sla
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray, PyTree

from riesz.density.surrogate.least_squares import MIXTURE, RIDGE, products, weighted_jacobian
from riesz.density.surrogate.start import equation_inputs
from riesz.devices import Devices, over_rows
from riesz.errors import RieszError
from riesz.fem.time.fixed import has_changing_matrix
from riesz.penalty.in_time import LAG, StepPenalty
from riesz.penalty.rows import AbstractPlacedState, Place
from riesz.problem.linearity import by_equation
from riesz.problem.problem import InverseProblem
from riesz.problem.unknowns import STATE
from riesz.surrogate.trajectory import Trajectory

Squares = Float[Array, "drawn feature feature"]
BatchSquares = Float[Array, "batch sample feature feature"]

LARGEST_SQUARES = 5 * 10**8
"""Numbers in the tables of all kinds of steps: four gigabytes."""

KEPT = 4
"""Kinds of steps whose factors are kept."""


class MixedSteps(AbstractPlacedState):
    """A trajectory with its mixtures taken from `z`, of a step and those before it.

    When `bare` it is what the mixtures make, without the lifting and the first state.
    """

    surrogate: Trajectory
    bare: bool = eqx.field(static=True)

    def at(self, place: Place, z: PyTree) -> Float[Array, ""]:
        mixture = z[MIXTURE][z[LAG]]
        if self.bare:
            return self.surrogate.basis(place) @ mixture
        return self.surrogate.mix(place, z, mixture)


class StepEquations(eqx.Module):
    """What steps ask of mixtures, for each sample of the unknowns."""

    hidden: Float[Array, "drawn hidden"]  # functions of the unknowns
    normal: Float[Array, "kind drawn feature feature"]
    carried: Float[Array, "kind drawn feature feature"]
    gradient: Float[Array, "time drawn feature"]

    def plus(self, other: "StepEquations") -> "StepEquations":
        """With further samples."""
        return StepEquations(
            jnp.concatenate([self.hidden, other.hidden]),
            *(
                jnp.concatenate(both, axis=1)
                for both in (
                    (self.normal, other.normal),
                    (self.carried, other.carried),
                    (self.gradient, other.gradient),
                )
            ),
        )


def kinds_of_steps(problem: InverseProblem) -> Int[np.ndarray, " step"]:
    """Which stages of steps have the same matrix; a steady state to begin with has its own."""
    time = problem.in_time
    z = time.first(problem.z(jnp.zeros(problem.num_coordinates, problem.forward.dtype)))
    same = not has_changing_matrix(problem.forward, z)
    kinds = np.repeat(time.axis.kinds, time.num_stages)
    kinds = kinds if same else np.arange(len(kinds))
    if time.initial is None:
        kinds = np.concatenate([[0], kinds + 1])
    return np.unique(kinds, return_inverse=True)[1]


def check_trajectory(problem: InverseProblem, num_squares: int, engine: str) -> None:
    """Raise where a trajectory cannot be emulated; `num_squares` numbers are held a kind."""
    time = problem.in_time
    if not by_equation(problem).is_affine_in([STATE]):
        raise RieszError(
            f"{engine} takes equations in time that are linear in the state, and this one is not: "
            "use the density exact."
        )
    if time.sensors.operator is None:
        raise RieszError(
            f"{engine} takes observations that are linear in the state, and there are "
            f"{problem.observations.what.describe()}: use the density exact."
        )
    count = int(kinds_of_steps(problem).max()) + 1
    if count * num_squares > LARGEST_SQUARES:
        raise RieszError(
            f"{engine} would hold tables for {count} different steps: let more steps have equal "
            "lengths and coefficients that do not change in time, ask for fewer features or "
            "readout_batches, or use the density exact."
        )


def step_equations(
    problem: InverseProblem,
    penalty: StepPenalty,
    surrogate: Trajectory,
    key: PRNGKeyArray,
    batches: Float[Array, "batch sample coordinate"],
    devices: Devices | None = None,
) -> StepEquations:
    """From sampled patches; all steps are seen with the same."""
    kinds, keys = kinds_of_steps(problem), jr.split(key, len(batches))
    # Without readouts, whose shape would make another program of the first round.
    surrogate = dataclasses.replace(surrogate, readouts=surrogate.readouts[:, :0])
    most = max(np.bincount(kinds))
    normal, carried = [], []
    count = batches.shape[0] * batches.shape[1]
    slope = np.zeros((len(penalty.stepping.times), count, surrogate.num_features))
    for kind in range(max(kinds) + 1):
        steps = np.flatnonzero(kinds == kind) + penalty.first
        # As many for each kind, so that there is one program.
        padded, counts = (jnp.asarray(one) for one in (np.resize(steps, most), np.arange(most)))
        counts = counts < len(steps)
        shared = (problem, penalty, surrogate, padded, counts)
        own, past, sides = over_rows(equations_of_kind, shared, (keys, batches), devices)
        own, past, sides = (one.reshape(-1, *one.shape[2:]) for one in (own, past, sides))
        normal.append(own)
        carried.append(past)
        slope[steps] = np.moveaxis(np.asarray(sides), 1, 0)[: len(steps)]
    every = batches.reshape(count, -1)
    hidden = jax.vmap(surrogate.network.hidden)(every)
    return StepEquations(hidden, jnp.stack(normal), jnp.stack(carried), jnp.asarray(slope))


@eqx.filter_jit
def equations_of_kind(
    problem: InverseProblem,
    penalty: StepPenalty,
    surrogate: Trajectory,
    steps: Int[Array, " step"],
    counts: Bool[Array, " step"],
    rows: tuple[Key[Array, " batch"], Float[Array, "batch sample coordinate"]],
) -> tuple[BatchSquares, BatchSquares, Float[Array, "batch sample step feature"]]:
    """Of steps with one matrix, for batches with a key each."""

    def of_batch(drawn):
        key, coordinates = drawn
        sample = penalty.own.norm.sample(key, penalty.own.num_patches)
        zs = equation_inputs(problem, coordinates)
        nothing = jnp.zeros((3, surrogate.num_features), coordinates.dtype)

        def step_rows(state: MixedSteps, step: Int[Array, ""], mixtures: Float[Array, "3 feature"]):
            def inputs(z):
                return {**penalty.stepping.at(z, step), MIXTURE: mixtures}

            return penalty.of_step(state, step).rows(sample, state, jax.vmap(inputs)(zs))

        def at_change(change: Float[Array, "2 feature"]):
            return step_rows(MixedSteps(surrogate, bare=True), steps[0], nothing.at[:2].set(change))

        slopes = jax.jacfwd(at_change)(nothing[:2])
        own, past = (
            jax.tree.map(lambda side, lag=lag: side[..., lag, :], slopes) for lag in (0, 1)
        )
        last = penalty.stepping.weights.last[steps[0]]
        past = jax.tree.map(lambda side: side / jnp.where(last > 0, last, 1.0), past)
        norm = penalty.of_step(MixedSteps(surrogate, bare=True), steps[0]).norm
        weighted = weighted_jacobian(norm, sample, own)

        def side(asked):
            return jax.lax.cond(asked[1], one_side, lambda _: empty, asked[0])

        def one_side(step):
            left = step_rows(MixedSteps(surrogate, bare=False), step, nothing)
            return products(weighted, jax.tree.map(lambda part: part[..., None], left))[..., 0]

        normal = products(weighted, own)
        empty = jnp.zeros_like(normal[..., 0])
        # Each sample in units of its own operator, as in the steady case.
        unit = jnp.trace(normal, axis1=1, axis2=2)
        sides = jnp.moveaxis(jax.lax.map(side, (steps, counts)), 0, 1)
        result = (normal, products(weighted, past), sides)
        return jax.tree.map(lambda part: part / unit[:, None, None], result)

    return jax.lax.map(of_batch, rows)


def solve_steps(
    problem: InverseProblem, penalty: StepPenalty, surrogate: Trajectory, equations: StepEquations
) -> Trajectory:
    """The trajectory with the readouts that solve all steps, one after the other."""
    kinds, first = kinds_of_steps(problem), penalty.first
    weights = jax.tree.map(np.asarray, penalty.stepping.weights)
    system = step_systems(equations)
    hidden = np.asarray(equations.hidden)
    shape = (hidden.shape[1], surrogate.num_features)
    readouts = np.zeros((len(weights.now), *shape))
    sides = np.einsum("si,tsk->tik", hidden, np.asarray(equations.gradient), optimize=True)
    for step in range(first, len(readouts)):
        factor, carried = system(int(kinds[step - first]))
        before = readouts[max(step - 2, 0)]
        past = weights.last[step] * readouts[max(step - 1, 0)] + weights.before[step] * before
        side = carried @ past.ravel() + sides[step].ravel()
        readouts[step] = -sla.cho_solve(factor, side).reshape(shape)
    return dataclasses.replace(surrogate, readouts=jnp.asarray(readouts, surrogate.readouts.dtype))


def step_systems(
    equations: StepEquations,
) -> Callable[[int], tuple[tuple[np.ndarray, bool], np.ndarray]]:
    """For each kind of steps the factor of its normal matrix, and what carries readouts over."""
    hidden = np.asarray(equations.hidden)
    pairs = (hidden[:, :, None] * hidden[:, None, :]).reshape(len(hidden), -1)
    count, size = hidden.shape[1], equations.gradient.shape[2]
    known: dict[int, tuple[tuple[np.ndarray, bool], np.ndarray]] = {}

    def whole(squares: Squares) -> np.ndarray:
        blocks = pairs.T @ np.asarray(squares).reshape(len(hidden), -1)
        blocks = blocks.reshape(count, count, size, size).transpose(0, 2, 1, 3)
        return np.ascontiguousarray(blocks.reshape(count * size, count * size))

    def system(kind: int):
        if kind not in known:
            if len(known) == KEPT:
                known.pop(next(iter(known)))
            normal = whole(equations.normal[kind])
            normal[np.diag_indices_from(normal)] += RIDGE * np.trace(normal) / len(normal)
            factor = sla.cho_factor(normal, lower=True, overwrite_a=True, check_finite=False)
            known[kind] = factor, whole(equations.carried[kind])
        return known[kind]

    return system
