"""Exact solves of a problem for many values of its unknowns, by one compiled program."""

from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from riesz.arrays import on_device
from riesz.density.exact import ExactDensity
from riesz.fem.elements.space import Operator
from riesz.fem.linear.linear_solve import AbstractLinearSolver
from riesz.problem.problem import InverseProblem

Rows = Float[np.ndarray, "row coordinate"]

AT_ONCE = 64
"""Rows of one call: shapes stay the same, so that one program serves all."""


class Seen(NamedTuple):
    """For each row the log-density, minus infinity where there is none, and what is read."""

    log_density: Float[np.ndarray, " row"]
    sensors: Float[np.ndarray, "row sensor"]
    probes: Float[np.ndarray, "row probe"]


@eqx.filter_jit
def block(
    problem: InverseProblem, probes: Operator, solver: AbstractLinearSolver, rows: Array
) -> tuple[Array, Array, Array]:
    def one(coordinates: Array) -> tuple[Array, Array, Array]:
        state, z = problem.solve(coordinates, solver), problem.z(coordinates)
        told = problem.latents.log_prior(coordinates) + problem.log_likelihood(coordinates, state)
        return told, problem.predict(state, z), probes @ state

    return jax.lax.map(one, rows)


def seen(problem: InverseProblem, probes: Operator, rows: Rows) -> Seen:
    """By exact solves, one after the other."""
    found, solver = [], problem.default_solver()
    for start in range(0, len(rows), AT_ONCE):
        part = rows[start : start + AT_ONCE]
        whole = np.zeros((AT_ONCE, rows.shape[1]))
        whole[: len(part)] = part
        read = block(problem, probes, solver, on_device(whole))
        found.append([np.asarray(one)[: len(part)] for one in read])
    told, sensors, places = (np.concatenate(one) for one in zip(*found, strict=True))
    return Seen(np.where(np.isfinite(told), told, -np.inf), sensors, places)


@eqx.filter_jit
def value_and_slope(
    problem: InverseProblem, solver: AbstractLinearSolver, coordinates: Array
) -> tuple[Array, Array]:
    return jax.value_and_grad(ExactDensity(problem, solver))(coordinates)
