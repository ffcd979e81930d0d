r"""The mode of a posterior with accurate heads, by Gauss and Newton in the space of the data.

With $n$ heads, rows $R$ of their derivatives by the coordinates and noise $\sigma$, a step leads to
$\xi' = R^\top (R R^\top + \sigma^2 I)^{-1} (y - h(\xi) + R \xi)$: it takes $n$ adjoint solves with
one matrix, whatever the number of unknowns and however small the noise, where conjugate gradients
need the more iterations the smaller it is. The noise is lowered step by step on the way: a search
that begins with heads of a millimetre gets stuck.
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg as sla
from jaxtyping import Array, Float

from riesz.density.exact import (
    equation_residual,
    solve_by_experiment,
    solve_with_jacobian,
)
from riesz.fem.assembly import with_dirichlet
from riesz.fem.default_solver import map_in_parts
from riesz.fem.linear.linear_solve import AbstractLinearSolver, SparseLU
from riesz.priors.fields import FieldWeights
from riesz.problem.problem import InverseProblem
from riesz_paper.experiments.hanford.flow import UNKNOWN
from riesz_paper.experiments.hanford.prior import CellPrior

FIRST_NOISE, NUM_LOWERED = 1.0, 8
"""The noise, m, that a search begins with, and in how many steps it comes down."""

STEPS_EACH, STEPS_LAST = 2, 40
"""Of the search, with each noise and with the last."""

TOLERANCE = 0.1
"""How near the mode is, in posterior standard deviations over all directions together."""

SHORTEST = 1e-3
"""The share of a step that is taken without asking for a gain."""

Cells = Float[Array, " cell"]


@eqx.filter_jit
def state_at(
    problem: InverseProblem, logs: Cells, solver: AbstractLinearSolver
) -> Float[Array, " node"]:
    """Heads at all nodes for a log-transmissivity."""
    z = {UNKNOWN: FieldWeights(jnp.exp(logs))}
    values, _ = solve_with_jacobian(problem.forward, z, solver)
    return with_dirichlet(problem.forward, values, z)


def heads_at(
    problem: InverseProblem, logs: Float[np.ndarray, " cell"]
) -> Float[np.ndarray, " well"]:
    """What the wells show."""
    state = state_at(problem, jnp.asarray(logs), SparseLU())
    return np.asarray(problem.operator.to_scipy() @ np.asarray(state))


@eqx.filter_jit
def linearised(
    problem: InverseProblem, logs: Cells, solver: AbstractLinearSolver
) -> tuple[Float[Array, " well"], Float[Array, "well cell"]]:
    """The same with its derivatives: an adjoint solve for each well, all with one matrix."""
    forward, z = problem.forward, {UNKNOWN: FieldWeights(jnp.exp(logs))}
    values, jacobian = solve_with_jacobian(forward, z, solver)

    def seen(free_values):
        return problem.predict(with_dirichlet(forward, free_values, z), z)

    heads, pull_back = jax.vjp(seen, values)
    _, by_logs = jax.vjp(
        lambda own: equation_residual(problem, values, {UNKNOWN: FieldWeights(jnp.exp(own))}), logs
    )

    def row(unit):
        (side,) = pull_back(unit)
        return by_logs(-solve_by_experiment(problem, (jacobian,), side, solver, transposed=True))[0]

    return heads, map_in_parts(row, jnp.eye(len(heads), dtype=logs.dtype), forward.num_free)


@dataclass(frozen=True, eq=False)
class FoundMode:
    """Where a search ended, with what is linear about it."""

    coordinates: Float[np.ndarray, " coordinate"]
    field: Float[np.ndarray, " cell"]
    heads: Float[np.ndarray, " well"]
    rows: Float[np.ndarray, "well cell"]  # derivatives of heads
    decrement: float
    num_linearised: int

    @property
    def converged(self) -> bool:
        return self.decrement <= TOLERANCE


def found_mode(
    problem: InverseProblem,
    prior: CellPrior,
    observed: Float[np.ndarray, " well"],
    noise_sd: float,
    near: FoundMode | None = None,
) -> FoundMode:
    """The mode; near that for another prior the noise is what it is, else it comes down."""
    solver = SparseLU()

    def field_at(own):
        return prior.mean + prior.deviations(own[:, None])[:, 0]

    def linear_at(field):
        heads, rows = linearised(problem, jnp.asarray(field), solver)
        return np.asarray(heads), np.asarray(rows)

    def cost_of(own, heads, sd):
        cost = 0.5 * own @ own + 0.5 * np.sum(((observed - heads) / sd) ** 2)
        return cost if np.isfinite(cost) else np.inf

    def cost_at(own, sd):
        return cost_of(own, heads_at(problem, field_at(own)), sd)

    noises = [noise_sd]
    if near is None:
        xi = np.zeros(prior.num_coordinates)
        noises = np.geomspace(max(FIRST_NOISE, noise_sd), noise_sd, NUM_LOWERED).tolist()
    else:
        target = observed - near.heads + near.rows @ (near.field - prior.mean)
        xi = linear_mode(prior.pulled_back(near.rows), target, noise_sd)
    count, decrement = 0, np.inf
    for number, sd in enumerate(noises):
        is_last = number == len(noises) - 1
        for _ in range(STEPS_LAST if is_last else STEPS_EACH):
            heads, rows = linear_at(field_at(xi))
            count += 1
            pulled = prior.pulled_back(rows)
            step = linear_mode(pulled, observed - heads + pulled @ xi, sd) - xi
            decrement = float(np.sqrt(step @ step + np.sum((pulled @ step / sd) ** 2)))
            if is_last and decrement <= TOLERANCE:
                break
            share, here = 1.0, cost_of(xi, heads, sd)
            while cost_at(xi + share * step, sd) >= here and share > SHORTEST:
                share /= 2
            xi = xi + share * step
    field = field_at(xi)
    heads, rows = linear_at(field)
    return FoundMode(xi, field, heads, rows, decrement, count + 1)


def linear_mode(
    rows: Float[np.ndarray, "well coordinate"], target: Float[np.ndarray, " well"], noise_sd: float
) -> Float[np.ndarray, " coordinate"]:
    """The mode where heads are linear, rows times coordinates, and this is what they gave."""
    covariance = rows @ rows.T
    covariance[np.diag_indices_from(covariance)] += noise_sd**2
    return rows.T @ sla.cho_solve(sla.cho_factor(covariance, lower=True), target)
