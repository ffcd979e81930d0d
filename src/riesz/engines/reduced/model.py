"""The log-posterior by a reduced equation, from exact states, and how far it is off."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jaxtyping import Array, Float

from riesz.arrays import on_device
from riesz.engines.nuts.engine import AbstractDensity
from riesz.errors import EngineError, RieszError
from riesz.fem.assembly import jacobian
from riesz.posterior.checks import rms_of
from riesz.posterior.family import Draws
from riesz.posterior.posterior import AT_ONCE, ExactStates, latent_values
from riesz.problem.problem import Coordinates, InverseProblem
from riesz.surrogate.reduced import ReducedEquation, at_rim, pod_basis, reduced_equation

HIDDEN = 5e-4
"""What a reduced equation may neglect of states, as a share of what noise is of them."""

FEWEST = 4
"""Exact states without which nothing can be spanned."""


class ReducedDensity(AbstractDensity):
    """The posterior with the reduced equation for the exact one."""

    problem: InverseProblem
    equation: ReducedEquation
    sensors: Float[Array, "sensor mode_plus_one"]  # what they see of the mean and of each mode

    def predict(self, coordinates: Coordinates) -> Float[Array, " sensor"]:
        problem = self.problem
        z = problem.z(coordinates)
        modes = self.equation.solve(problem.forward, z)
        inside = self.sensors[:, 0] + self.sensors[:, 1:] @ modes
        return inside + problem.operator @ at_rim(problem.forward, z)

    def __call__(self, coordinates: Coordinates) -> Float[Array, ""]:
        problem = self.problem
        fit = problem.likelihood.log_prob(
            problem.observed, self.predict(coordinates), problem.z(coordinates)
        )
        return problem.latents.log_prior(coordinates) + fit

    def explain(self, coordinates: Coordinates) -> None:
        self.problem.explain(coordinates, "the chains start")


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
                f"reduced: the equation could be solved at {count} draws. Look "
                "for priors that allow impossible coefficients."
            )
        return SolvedStates(self.points[good], self.states[good])


def solve_at(problem: InverseProblem, states: ExactStates, places: Draws) -> SolvedStates:
    return SolvedStates(np.asarray(places), states.in_parts(problem, places))


def join_states(one: SolvedStates, other: SolvedStates) -> SolvedStates:
    return SolvedStates(*(np.concatenate(pair) for pair in zip(one, other, strict=True)))


def density_from(
    problem: InverseProblem, centre: Coordinates, solved: SolvedStates, num_modes: int
) -> ReducedDensity:
    """From exact states, with the energy of the equation at a centre of them."""
    forward = problem.forward
    free = np.asarray(forward.free)
    neglected = HIDDEN * noise_share(problem, centre, solved)
    basis = pod_basis(solved.states[:, free], energy_at(problem, centre), num_modes, neglected)
    z = latent_values(problem, on_device(solved.points))
    equation = reduced_equation(forward, z, basis, neglected)
    sensors = problem.operator.to_scipy()[:, free] @ basis.columns
    return ReducedDensity(problem, equation, on_device(sensors))


def noise_share(problem: InverseProblem, centre: Coordinates, solved: SolvedStates) -> float:
    """How large noise is beside what the sensors see of states."""
    signal = on_device(problem.operator.to_scipy() @ solved.states.T)
    whitened = np.asarray(problem.whiten(signal, problem.z(centre)))
    return 1 / max(rms_of(whitened.ravel()), np.finfo(float).tiny)


def energy_at(problem: InverseProblem, centre: Coordinates) -> sp.csr_array:
    """The symmetric part of the equation's matrix; raises where it is no energy."""
    z = problem.z(centre)
    matrix = jacobian(problem.forward, at_rim(problem.forward, z), z).to_scipy()
    if not (matrix.diagonal() > 0).all():
        raise RieszError(
            "reduced measures states by the energy of the equation, and its matrix has a diagonal "
            "that is not positive: use sample."
        )
    return sp.csr_array((matrix + matrix.T) / 2)


class ReducedErrors(NamedTuple):
    """The reduced equation beside exact states, for each draw."""

    gaps: Float[np.ndarray, "draw sensor"]  # in standard deviations of the noise
    log_ratios: Float[np.ndarray, " draw"]  # exact less reduced log-density


def reduced_errors(density: ReducedDensity, exact: SolvedStates) -> ReducedErrors:
    size = len(exact.points)
    count = -(-size // AT_ONCE) * AT_ONCE  # so that few programs are made
    places, states = (np.resize(one, (count, one.shape[1])) for one in exact)
    gaps, ratios = predict_both(density, jnp.asarray(places), jnp.asarray(states))
    return ReducedErrors(np.asarray(gaps)[:size], np.asarray(ratios)[:size])


@eqx.filter_jit
def predict_both(
    density: ReducedDensity, places: Draws, states: Float[Array, "draw node"]
) -> tuple[Float[Array, "draw sensor"], Float[Array, " draw"]]:
    problem = density.problem

    def one(pair):
        coordinates, state = pair
        z = problem.z(coordinates)
        gap = density.predict(coordinates) - problem.predict(state, z)
        exact = problem.latents.log_prior(coordinates) + problem.log_likelihood(coordinates, state)
        return problem.whiten(gap, z), exact - density(coordinates)

    return jax.lax.map(one, (places, states))
