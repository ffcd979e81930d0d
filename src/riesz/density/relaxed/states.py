r"""The relaxed model: how likely values of the unknowns are, and the states that go with them.

An equation in time has errors one a step. Each stage of a step holds up to an error of its own,
$r_n = \epsilon w_n$, $w_n \sim N(0, G_n)$, where $G_n = A + \rho\,\alpha_n M$ is its Gram matrix
(see `riesz.penalty.in_time`). A later state carries all errors before it: the model is that of
weak-constraint 4D-Var (Trémolet 2006), and $K = H L^{-1} G L^{-\top} H^\top$ with the matrix $L$ of
all stages. A march backwards for each reading makes $L^{-\top} H^\top$, and one forwards its
derivatives.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from riesz.density.relaxed.discrepancy import (
    AbstractErrors,
    GramFactor,
    gram_factor,
    log_densities,
    relax_solver,
)
from riesz.errors import RieszError
from riesz.fem.assembly import jacobian
from riesz.fem.linear.linear_solve import AbstractLinearSolver, Automatic
from riesz.fem.linear.sparse import SparseMatrix
from riesz.fem.problem import with_form
from riesz.fem.terms.weakform import reaction
from riesz.fem.time.fixed import Steps, single_step, solve_backwards, solve_forwards, steps_of
from riesz.penalty.gram import Gram, dual_norm
from riesz.penalty.in_time import step_reactions, stepping
from riesz.posterior.family import Draws
from riesz.posterior.posterior import AbstractStateMap, Read, States, evaluate_states
from riesz.priors.latent import ManyZ
from riesz.problem.observation_in_time import ObservationInTime, Steady
from riesz.problem.problem import Coordinates, InverseProblem

Errors = Float[Array, "step free"]
Spread = Float[Array, "sensor sensor"]
Responses = Float[Array, "step sensor free"]

MOST_NUMBERS = 1 << 27
"""Of what all readings answer to errors of all steps: a gigabyte."""


class StepGrams(AbstractErrors):
    """Gram matrices of all steps: the least of them, and as much mass beside it as each has."""

    least: GramFactor
    mass: GramFactor
    beside: Float[Array, " step"]

    def gram(self, vector: Errors) -> Errors:
        def own(beside, error):
            return self.least.gram(error) + beside * self.mass.gram(error)

        return jax.vmap(own)(self.beside, vector)

    def draw(self, key: PRNGKeyArray, like: Errors) -> Errors:

        def own(key, beside, error):
            least_key, mass_key = jr.split(key)
            mass = self.mass.draw(mass_key, error)
            return self.least.draw(least_key, error) + jnp.sqrt(beside) * mass

        return jax.vmap(own)(jr.split(key, len(like)), self.beside, like)


def error_grams(problem: InverseProblem, gram: Gram) -> AbstractErrors:
    """Of errors of an equation, or of those steps of one that may err.

    `gram` is the inner product of the steady equation.
    """
    forward, time = problem.forward, problem.time
    if time is None:
        return gram_factor(dual_norm(forward, gram).gram)
    transient, origin = time.transient(forward), jnp.zeros(problem.num_coordinates, forward.dtype)
    every = np.asarray(step_reactions(transient, stepping(transient), gram, problem.z(origin)))
    reactions = every[0 if transient.initial is None else 1 :]
    least = Gram(gram.diffusivity, float(reactions.min()))
    nothing = jnp.zeros(forward.space.num_dofs, forward.dtype)
    mass = jacobian(with_form(forward, reaction(1.0)), nothing)
    return StepGrams(
        gram_factor(dual_norm(forward, least).gram),
        gram_factor(mass),
        jnp.asarray(reactions - reactions.min(), forward.dtype),
    )


@eqx.filter_custom_jvp
def discrepancy_matrix(
    steps: Steps, rows: Responses, grams: AbstractErrors, solver: AbstractLinearSolver
) -> Spread:
    """The matrix K, from what readings are made of in each step."""
    responses = solve_backwards(steps, rows, solver)
    return jnp.einsum("nsf,nrf->sr", responses, weight_responses(grams, responses))


def weight_responses(grams: AbstractErrors, responses: Responses) -> Responses:
    return jax.vmap(grams.gram, in_axes=1, out_axes=1)(responses)


@discrepancy_matrix.def_jvp
def spread_jvp(primals: Any, tangents: Any) -> tuple[Spread, Spread]:
    """First derivatives by the matrices: dK = -(T dL L^-1 G T^T) and its transpose, T = H L^-1."""
    steps, rows, grams, solver = primals
    responses = solve_backwards(steps, rows, solver)
    sides = weight_responses(grams, responses)
    moved = solve_forwards(steps, sides, solver)
    last = jnp.concatenate([jnp.zeros_like(moved[:1]), moved[:-1]])
    before = jnp.concatenate([jnp.zeros_like(moved[:1]), last[:-1]])
    changed, pattern = tangents[0], steps.pattern
    value = jnp.einsum("nsf,nrf->sr", responses, sides)
    if changed.storage is None and changed.flow is None:
        return value, jnp.zeros_like(value)

    def one(total, given):
        number, response, now, last, before = given
        _, _, weights = steps.row(number)
        stored = weights.now * now - weights.last * last - weights.before * before
        for values, states in ((changed.storage, stored), (changed.flow, now)):
            if values is not None:
                own = SparseMatrix(pattern, values[jnp.minimum(number, len(values) - 1)])
                total = total - response @ jax.vmap(own.__matmul__)(states).T
        return total, None

    given = (steps.numbers(), responses, moved, last, before)
    half, _ = jax.lax.scan(one, jnp.zeros_like(value), given)
    return value, half + half.T


class Linearised(eqx.Module):
    """An equation about its solution for one value of the unknowns: one step, or those in time."""

    state: Float[Array, " record"]
    steps: Steps
    rows: Responses  # the readings, as they read the free values of each step
    solver: AbstractLinearSolver

    def discrepancy(self, errors: AbstractErrors) -> Spread:
        """The matrix K, with its first derivatives."""
        return discrepancy_matrix(self.steps, self.rows, errors, self.solver)

    def without_error(self) -> Errors:
        return jnp.zeros_like(self.rows[:, 0])

    def effect_at_sensors(self, errors: Errors) -> Float[Array, " sensor"]:
        """What errors of the steps do at the readings."""
        result = solve_forwards(self.steps, errors[:, None], self.solver)[:, 0]
        return jnp.einsum("nsf,nf->s", self.rows, result)

    def adjoint_effect(self, weights: Float[Array, " sensor"]) -> Errors:
        """The same transposed."""
        sides = jnp.einsum("nsf,s->nf", self.rows, weights)
        return solve_backwards(self.steps, sides[:, None], self.solver)[:, 0]

    def state_with_error(self, problem: InverseProblem, errors: Errors) -> Float[Array, " record"]:
        """The record with errors of the steps."""
        read = problem.record.read
        return self.state + propagate_errors(problem, self.steps, errors, read, self.solver).ravel()


def propagate_errors(
    problem: InverseProblem,
    steps: Steps,
    errors: Errors,
    read: Callable[[Float[Array, " dof"]], Float[Array, " place"]],
    solver: AbstractLinearSolver,
) -> Float[Array, "time place"]:
    """What errors of the steps do to what is read off states, at all times."""
    record, forward = problem.record, problem.forward
    result = solve_forwards(steps, errors[:, None], solver)[:, 0][ends_of_steps(record)]
    nowhere = jnp.zeros(forward.space.num_dofs, forward.dtype)
    read_off = jax.vmap(lambda values: read(nowhere.at[forward.free].set(values)))(result)
    if record.begins_steady:
        return read_off
    return jnp.concatenate([jnp.zeros_like(read_off[:1]), read_off])


@eqx.filter_jit
def linearise(problem: InverseProblem, z: PyTree, solver: AbstractLinearSolver) -> Linearised:
    """By one solution; K takes one adjoint solve, or march backwards, for each reading."""
    record, forward = problem.record, problem.forward
    state, transient = record.solve(forward, z, solver), record.transient(forward)
    if transient is None:
        steps = single_step(jacobian(forward, state, z))
    else:
        steps = steps_of(transient, z)
    return Linearised(state, steps, reading_rows(problem), solver)


def reading_rows(problem: InverseProblem) -> Responses:
    """Readings as functionals of the free values of each step that may err."""
    record = problem.record
    ends = ends_of_steps(record)
    units = jnp.eye(len(problem.observed), dtype=problem.forward.dtype)

    def one(unit: Float[Array, " sensor"]) -> Errors:
        rows = problem.operator.transpose_product(unit).reshape(record.num_times, -1)[-len(ends) :]
        read = jax.vmap(record.read_transposed)(rows)[:, problem.forward.free]
        return jnp.zeros((ends[-1] + 1, read.shape[1]), read.dtype).at[ends].set(read)

    return jax.vmap(one, out_axes=1)(units)


def ends_of_steps(record: Steady | ObservationInTime) -> Int[np.ndarray, " time"]:
    """Which of the stages that may err end a step; a steady state to begin with is the first."""
    given = 0 if record.begins_steady else 1
    return np.arange(given, record.num_times) * record.num_stages - given


def check_memory(problem: InverseProblem) -> None:
    """Raise where there is not the memory for all readings and steps."""
    time = problem.in_time
    num_stages = time.axis.num_steps * time.num_stages
    count = len(problem.observed) * num_stages * problem.forward.num_free
    if count > MOST_NUMBERS:
        raise RieszError(
            f"relaxed would hold {count:.2g} numbers, for {len(problem.observed)} readings, "
            f"{num_stages} stages of steps and {problem.forward.num_free} unknowns of the mesh: "
            "take fewer readings, longer steps or a coarser mesh, or the density exact."
        )


class RelaxedStates(AbstractStateMap):
    r"""A state drawn for each draw of the unknowns, by exact solves, one after the other.

    For given unknowns and a given $\epsilon$ the relaxed equation makes u Gaussian, and the data
    narrow it. Matheron's rule (pathwise conditioning, Wilson et al. 2021) turns a draw before the
    data into one after: $u = u_0 + \epsilon^2 L^{-1} A L^{-\top} H^\top S^{-1} (y - H u_0 - e)$
    with noise $e$. Where the equation is not linear it is linearised about its solution. An
    $\epsilon$ that is not known has several values with prior weights: it is drawn, too, as the
    data have it for these unknowns, and the density of the unknowns is a sum over its values.
    """

    epsilon: Float[Array, " scale"]
    log_weight: Float[Array, " scale"]  # before the data are seen
    factor: AbstractErrors
    linear_solver: AbstractLinearSolver = Automatic()

    def ready(self, problem: InverseProblem) -> "RelaxedStates":
        """The same with the solver that suits a problem, to be chosen before anything compiles."""
        solver = relax_solver(problem) if isinstance(self.linear_solver, Automatic) else None
        return self if solver is None else dataclasses.replace(self, linear_solver=solver)

    def from_outside(
        self, problem: InverseProblem, key: PRNGKeyArray, coordinates: Draws, z: ManyZ
    ) -> States:
        return evaluate_states(self.ready(problem), problem, key, coordinates)

    def __call__(self, problem: InverseProblem, key: PRNGKeyArray, coordinates: Draws) -> States:
        keys = jr.split(key, len(coordinates))
        return jax.lax.map(lambda drawn: self.conditional(problem, *drawn), (keys, coordinates))

    def log_fits(
        self, problem: InverseProblem, z: PyTree, here: Linearised
    ) -> Float[Array, " scale"]:
        r"""Of data and each $\epsilon$ for given unknowns; the data are $N(H G[\xi],\, S(\xi))$."""
        sd = problem.noise_sd(z)
        gap = (problem.observed - problem.operator @ here.state) / sd
        spread = here.discrepancy(self.factor) / (sd[:, None] * sd[None, :])
        fits = log_densities(gap, spread, self.epsilon) - jnp.sum(jnp.log(sd))
        return fits + self.log_weight

    def conditional(
        self, problem: InverseProblem, key: PRNGKeyArray, coordinates: Coordinates
    ) -> Float[Array, " node"]:
        """One state given the unknowns and the data."""
        z = problem.z(coordinates)
        here = linearise(problem, z, self.linear_solver)
        return here.state_with_error(problem, self.error(problem, key, z, here))

    def error(
        self, problem: InverseProblem, key: PRNGKeyArray, z: PyTree, here: Linearised
    ) -> Errors:
        """An error of the equation, or one a step, given the unknowns and the data."""
        variances = problem.noise_sd(z) ** 2
        scale_key, error_key, noise_key = jr.split(key, 3)
        epsilon = self.epsilon[jr.categorical(scale_key, self.log_fits(problem, z, here))]
        error = epsilon * self.factor.draw(error_key, here.without_error())  # before the data
        noise = jnp.sqrt(variances) * jr.normal(noise_key, variances.shape, variances.dtype)
        covariance = jnp.diag(variances) + epsilon**2 * here.discrepancy(self.factor)
        gap = (
            problem.observed - problem.operator @ here.state - here.effect_at_sensors(error) - noise
        )
        pulled = here.adjoint_effect(jnp.linalg.solve(covariance, gap))
        return error + epsilon**2 * self.factor.gram(pulled)

    def record_in_time(
        self,
        problem: InverseProblem,
        key: PRNGKeyArray,
        z: PyTree,
        under: InverseProblem,
        read: Read,
        solver: AbstractLinearSolver,
    ) -> Float[Array, "time place"]:
        exact = super().record_in_time(problem, key, z, under, read, solver)
        errors = self.error(problem, key, z, linearise(problem, z, solver))
        steps = steps_of(under.in_time.transient(under.forward), z)
        return exact + propagate_errors(under, steps, errors, read, solver)
