r"""The posterior by exact solves: its derivatives by state and adjoint.

A Hessian-vector product takes one tangent and one adjoint solve. With the state $u$, what the
equation reads $z(\xi)$, the adjoint $p$ and the Lagrangian
$\mathcal L(u, z) = -\log p(y \mid u, z) + p \cdot r(u, z)$, a direction $\dot\xi$ moves $z$ by
$\dot z = z_\xi \dot\xi$, the state by $\dot u = -J^{-1} r_z \dot z$ and the adjoint by
$\dot p = -J^{-\top}(\mathcal L_{uu} \dot u + \mathcal L_{uz} \dot z)$. The data's part of the
Hessian is then $z_\xi^\top (\mathcal L_{zu} \dot u + \mathcal L_{zz} \dot z + r_z^\top \dot p)
+ \mathcal L_z z_{\xi\xi} \dot\xi$, the prior's the identity: few eigenvalues differ from one,
whatever the number of unknowns. All but $\dot\xi$ is the same for all directions at a point, and is
computed once.

Beside an approximate density, exact solves tell how far it is off. Some draws of chains by the
approximation are solved for, weighed by the ratio of both densities, and drawn again by their
weights, so that the posterior is the exact one as far as the tail of the weights vouches for it.
(Pareto-smoothed importance sampling, Vehtari et al. 2024.)
"""

from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from riesz.arrays import evenly_spaced
from riesz.density.base import AbstractDensityKind, Prepared, states_by
from riesz.errors import EngineError
from riesz.fem.assembly import free_residual, with_dirichlet
from riesz.fem.default_solver import estimate_seconds
from riesz.fem.linear.linear_solve import AbstractLinearSolver, Automatic
from riesz.fem.newton import PreparedJacobian, prepare_jacobian
from riesz.fem.problem import BoundaryValueProblem
from riesz.fem.root import implicit_root, newton_guess
from riesz.method.base import AbstractMethod, Inferred, TargetDensity, Work
from riesz.method.mcmc.diagnostics import sampler_warnings
from riesz.method.settings import Solver, as_solver
from riesz.posterior.checks import rms_of
from riesz.posterior.density import AbstractRecordDensity, HessianVectorProduct, Linearization
from riesz.posterior.family import Draws, EmpiricalDraws
from riesz.posterior.importance import weight_draws
from riesz.posterior.posterior import AT_ONCE, ExactStates
from riesz.priors.latent import Z
from riesz.problem.problem import Coordinates, InverseProblem

FreeValues = Float[Array, " free"]


class SolvedState(eqx.Module):
    """A solution and its adjoint, with the matrices that gave both."""

    z: Z
    free_values: FreeValues
    adjoint: FreeValues
    jacobians: tuple[PreparedJacobian, ...]  # block by block


class ExactDensity(AbstractRecordDensity):
    """The posterior by exact solves; NaN where the equation has no solution.

    A trajectory that strays there ends as divergent, instead of stopping the run. The state of an
    equation in time, as one vector with one matrix, would be too large to be treated like a steady
    one: derivatives go through the time stepping, and what stands in for the state is the record
    that sensors make.
    """

    problem: InverseProblem
    solver: AbstractLinearSolver

    def record(self, coordinates: Coordinates) -> Float[Array, " recorded"]:
        return self.problem.solve(coordinates, self.solver)

    def log_likelihood_of(
        self, coordinates: Coordinates, record: Float[Array, " recorded"]
    ) -> Float[Array, ""]:
        return self.problem.log_likelihood(coordinates, record)

    def seconds(self) -> float:
        return self.problem.num_solves * estimate_seconds(self.problem.forward, self.solver)

    def linearize(self, coordinates: Coordinates) -> Linearization:
        problem, solver = self.problem, self.solver
        if problem.time is not None:
            return super().linearize(coordinates)
        z, pull_back = jax.vjp(problem.z, coordinates)
        each = [solve_with_jacobian(forward, z, solver) for forward in problem.forwards]
        values = jnp.concatenate([own for own, _ in each])
        jacobians = tuple(matrix for _, matrix in each)
        cost, (by_state, by_z) = jax.value_and_grad(data_misfit, argnums=(1, 2))(problem, values, z)
        adjoint = -solve_by_experiment(problem, jacobians, by_state, solver, transposed=True)
        _, through_state = jax.vjp(lambda own: equation_residual(problem, values, own), z)
        (gradient,) = pull_back(jax.tree.map(jnp.add, by_z, through_state(adjoint)[0]))
        cost = cost + 0.5 * coordinates @ coordinates
        state = SolvedState(z, values, adjoint, jacobians)
        return Linearization(coordinates, cost, coordinates + gradient, state)

    def hessian_vector_product(
        self, at: Linearization, second: Float[Array, ""]
    ) -> HessianVectorProduct:
        problem, solver, state = self.problem, self.solver, at.reused
        if problem.time is not None:
            return super().hessian_vector_product(at, second)

        def lagrangian(values: FreeValues, z: Z) -> Float[Array, ""]:
            held = second * state.adjoint @ equation_residual(problem, values, z)
            return data_misfit(problem, values, z) + held

        _, moved = jax.linearize(problem.z, at.coordinates)
        moved_back = jax.linear_transpose(moved, at.coordinates)
        _, pushed = jax.linearize(
            lambda z: equation_residual(problem, state.free_values, z), state.z
        )
        pushed_back = jax.linear_transpose(pushed, state.z)
        (_, by_z), turned = jax.linearize(
            jax.grad(lagrangian, argnums=(0, 1)), state.free_values, state.z
        )
        # Vanishes where the unknowns are linear in their coordinates, and is then not computed.
        _, bent = jax.linearize(lambda own: jax.vjp(problem.z, own)[1](by_z)[0], at.coordinates)

        def product(direction: Coordinates) -> Coordinates:
            z = moved(direction)
            side = pushed(z)
            change = -solve_by_experiment(problem, state.jacobians, side, solver, transposed=False)
            by_state, by_z = turned(change, z)
            adjoint = -solve_by_experiment(
                problem, state.jacobians, by_state, solver, transposed=True
            )
            (through_state,) = pushed_back(adjoint)
            (back,) = moved_back(jax.tree.map(jnp.add, by_z, through_state))
            return back + bent(direction)

        return product


def data_misfit(problem: InverseProblem, free_values: FreeValues, z: Z) -> Float[Array, ""]:
    """Minus the log-likelihood of a state."""
    states = [with_dirichlet(*one, z) for one in split_by_experiment(problem, free_values)]
    predicted = problem.predict(jnp.concatenate(states), z)
    return -problem.likelihood.log_prob(problem.observed, predicted, z)


def equation_residual(problem: InverseProblem, free_values: FreeValues, z: Z) -> FreeValues:
    """The residual, which vanishes at the solution."""
    each = split_by_experiment(problem, free_values)
    return jnp.concatenate(
        [free_residual(one, with_dirichlet(one, own, z), z) for one, own in each]
    )


def split_by_experiment(
    problem: InverseProblem, values: Float[Array, " every"]
) -> list[tuple[BoundaryValueProblem, FreeValues]]:
    """The equation of each experiment, and its part of the free values of all."""
    ends = np.cumsum([one.num_free for one in problem.forwards])[:-1].tolist()
    return list(zip(problem.forwards, jnp.split(values, ends), strict=True))


def solve_by_experiment(
    problem: InverseProblem,
    jacobians: tuple[PreparedJacobian, ...],
    side: FreeValues,
    solver: AbstractLinearSolver,
    *,
    transposed: bool,
) -> FreeValues:
    """Experiments know nothing of each other: their unknowns are solved for one by one."""
    each = zip(jacobians, split_by_experiment(problem, side), strict=True)
    return jnp.concatenate(
        [
            solver.raw_solve(matrix, own, transposed=transposed, prepared=prepared)
            for (matrix, prepared), (_, own) in each
        ]
    )


def solve_with_jacobian(
    forward: BoundaryValueProblem, z: Z, solver: AbstractLinearSolver
) -> tuple[FreeValues, PreparedJacobian]:
    """The solution, NaN where there is none, and the matrix there."""
    root = implicit_root((forward, z), solver, newton_guess(forward))
    values = jnp.where(root.solution.converged, root.solution.free_values, jnp.nan)
    return values, root.jacobian or prepare_jacobian(forward, z, values, solver)


def exact_density(problem: InverseProblem, linear_solver: Any, *, num_rhs: int = 1) -> ExactDensity:
    """By the solver that was asked for, or the one that suits so many right-hand sides."""
    solver = problem.default_solver(as_solver(linear_solver), num_rhs=num_rhs)
    return ExactDensity(problem, solver)


class Exact(AbstractDensityKind):
    """The posterior itself: the equation is solved on the whole mesh for each value."""

    name: ClassVar[str] = "exact"

    linear_solver: Solver = Automatic()

    def cost(self, solve: float, problem: InverseProblem, method: AbstractMethod) -> float:
        return method.cost(solve, problem.num_coordinates, len(problem.observed))

    def prepare(self, problem: InverseProblem, method: AbstractMethod, work: Work) -> Prepared:
        sides = method.num_directions(problem.num_coordinates, len(problem.observed))
        density = exact_density(problem, self.linear_solver, num_rhs=sides)
        target = TargetDensity(density, problem.latents.coordinate_names())
        return Prepared(target, states_by(self.linear_solver), {})


FEWEST = 4
"""Exact states without which nothing can be told."""


class SolvedStates(NamedTuple):
    """Exact states at some places, NaN where there is none."""

    points: Float[np.ndarray, "draw coordinate"]
    states: Float[np.ndarray, "draw node"]

    def finite(self) -> "SolvedStates":
        """Without places where there is none."""
        good = np.flatnonzero(np.isfinite(self.states).all(axis=1))
        if len(good) < FEWEST:
            count = f"{len(good)} of {len(self.points)}"
            raise EngineError(
                f"the equation could be solved exactly at {count} draws. Look "
                "for priors that allow impossible coefficients."
            )
        return SolvedStates(self.points[good], self.states[good])


def solve_at(problem: InverseProblem, states: ExactStates, places: Draws) -> SolvedStates:
    return SolvedStates(np.asarray(places), states.in_parts(problem, places))


def join_states(one: SolvedStates, other: SolvedStates) -> SolvedStates:
    return SolvedStates(*(np.concatenate(pair) for pair in zip(one, other, strict=True)))


class DensityErrors(NamedTuple):
    """An approximate density beside exact states, for each draw."""

    gaps: Float[np.ndarray, "draw sensor"]  # in standard deviations of the noise
    log_ratios: Float[np.ndarray, " draw"]  # exact less approximate log-density

    def size(self) -> float:
        """The root mean square of the gaps; infinite where there is none."""
        gap = rms_of(self.gaps.ravel())
        return gap if np.isfinite(gap) else np.inf


def density_errors(density: AbstractRecordDensity, exact: SolvedStates) -> DensityErrors:
    size = len(exact.points)
    count = -(-size // AT_ONCE) * AT_ONCE  # so that few programs are made
    places, states = (np.resize(one, (count, one.shape[1])) for one in exact)
    gaps, ratios = predict_both(density, jnp.asarray(places), jnp.asarray(states))
    return DensityErrors(np.asarray(gaps)[:size], np.asarray(ratios)[:size])


@eqx.filter_jit
def predict_both(
    density: AbstractRecordDensity, places: Draws, states: Float[Array, "draw node"]
) -> tuple[Float[Array, "draw sensor"], Float[Array, " draw"]]:
    problem = density.problem

    def one(pair):
        coordinates, state = pair
        z = problem.z(coordinates)
        gap = density.record(coordinates) - problem.predict(state, z)
        exact = problem.latents.log_prior(coordinates) + problem.log_likelihood(coordinates, state)
        return problem.whiten(gap, z), exact - density(coordinates)

    return jax.lax.map(one, (places, states))


def correct_draws(
    target: TargetDensity,
    result: Inferred,
    states: ExactStates,
    num_exact: int,
    key: PRNGKeyArray,
) -> Inferred:
    """Draws of chains by an approximate density, drawn again by the weights that so many exact
    solves give them.

    Where the equation could not be solved there is no exact posterior, and no weight; and a chain
    that is where the exact posterior is not loses its draws.
    """
    density, by_chain = target.density, result.distribution
    if not num_exact or not isinstance(by_chain, EmpiricalDraws):
        return result
    assert isinstance(density, AbstractRecordDensity)
    num_chains, num_draws, _ = by_chain.by_chain.shape
    chosen = evenly_spaced(num_draws, -(-num_exact // num_chains))
    history = {n: rows[:, chosen] if rows.ndim > 1 else rows for n, rows in result.history.items()}
    draws = by_chain.by_chain[:, chosen]
    exact = solve_at(density.problem, states, flatten_chains(draws))
    logs = density_errors(density, exact).log_ratios
    if not np.isfinite(logs).any():
        raise EngineError(
            "the equation could be solved exactly at none of the draws of an approximate density. "
            "Look for priors that allow impossible coefficients."
        )
    sample = weight_draws(exact.points, logs)
    resampled = sample.resample(logs.size, float(jr.uniform(key))).reshape(draws.shape)
    if "effective_draws" in history:
        fewer = jnp.minimum(history["effective_draws"], sample.effective_draws)
        history["effective_draws"] = fewer
    codes = {note.code for note in result.notes}
    more = [n for n in sampler_warnings(history, target.names) if n.code not in codes]
    history |= {
        "k_hat": jnp.asarray(sample.k_hat),
        "log_ratio": jnp.asarray(logs.reshape(draws.shape[:2])),
    }
    notes = (*result.notes, *more, *sample.notes("reduced_k_hat"))
    return Inferred(EmpiricalDraws(jnp.asarray(resampled)), history, notes)


def flatten_chains(
    by_chain: Float[Array, "chain draw coordinate"],
) -> Float[Array, "every coordinate"]:
    return by_chain.reshape(-1, by_chain.shape[-1])
