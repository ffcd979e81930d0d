"""The posterior by a reduced equation in the span of exact states, at a cost that no mesh changes.

Where equations are linear in the state it is right to a small part of the noise, with some tens of
modes for a few unknowns. How far it is off is measured at exact states that it has not seen.
"""

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jaxtyping import Array, Float

from riesz.arrays import on_device
from riesz.density.base import AbstractRecordDensity
from riesz.errors import EngineError, RieszError
from riesz.fem.assembly import jacobian, source_rates
from riesz.fem.root import require_float64
from riesz.posterior.checks import rms_of
from riesz.posterior.family import Draws
from riesz.posterior.posterior import AT_ONCE, ExactStates, latent_values
from riesz.posterior.sobol import spread_normals
from riesz.problem.linearity import by_equation
from riesz.problem.problem import Coordinates, InverseProblem
from riesz.problem.unknowns import STATE
from riesz.surrogate.reduced import ReducedEquation, at_rim, pod_basis, reduced_equation

SECONDS = 0.002
"""Of a value, roughly."""

WIDER = 1.2
"""States over the prior are those of draws so much wider: posteriors reach into its tails."""

NUM_STATES, MOST_STATES, MOST_MODES = 250, 2000, 300
NUM_TESTED = 100

GOOD_OVER_PRIOR, LARGEST_GAP_OF_PRIOR = 0.02, 1.0
"""Standard deviations of the noise by which it may be off at draws of the prior that it has not
seen, to be taken at once, and to be taken at all."""

HIDDEN = 5e-4
"""What a reduced equation may neglect of states, as a share of what noise is of them."""

FEWEST = 4
"""Exact states without which nothing can be spanned."""


class ReducedSensors(eqx.Module):
    """The reduced equation, and what sensors see of it."""

    equation: ReducedEquation
    sensors: Float[Array, "sensor mode_plus_one"]  # what they see of the mean and of each mode
    gap: float = eqx.field(static=True, default=np.inf)  # where not seen, in sds of the noise

    @property
    def num_modes(self) -> int:
        return self.equation.num_modes

    def __call__(
        self, problem: InverseProblem, coordinates: Coordinates
    ) -> Float[Array, " sensor"]:
        z = problem.z(coordinates)
        modes = self.equation.solve(problem.forward, z)
        inside = self.sensors[:, 0] + self.sensors[:, 1:] @ modes
        return inside + problem.operator @ at_rim(problem.forward, z)

    def with_slopes(
        self, problem: InverseProblem, coordinates: Coordinates
    ) -> tuple[Float[Array, " sensor"], Float[Array, "sensor coordinate"]]:
        """The same, and its derivative: one factorisation serves both, and all coordinates."""
        forward, own = problem.forward, self.equation
        z = problem.z(coordinates)
        flat = own.matrices.reshape(len(own.matrices), -1)
        system = (own.matrix(forward, at_rim(forward, z), z) @ flat).reshape(own.matrices.shape[1:])
        factors = jax.scipy.linalg.lu_factor(system[:, 1:])

        def load(place: Coordinates, terms: Float[Array, "term mode"]) -> Float[Array, " mode"]:
            """The equation, where what each matrix does to the state is given."""
            z = problem.z(place)
            known = at_rim(forward, z)
            side = own.matrix(forward, known, z) @ terms + own.load(forward, known, z) @ own.loads
            for well, columns in own.wells:
                side = side + well.sign * (columns @ source_rates(well, z))
            return side

        modes = -jax.scipy.linalg.lu_solve(factors, load(coordinates, own.matrices[:, :, 0]))
        terms = own.matrices[:, :, 0] + own.matrices[:, :, 1:] @ modes
        slopes = -jax.scipy.linalg.lu_solve(factors, jax.jacfwd(load)(coordinates, terms))

        def rim(place: Coordinates) -> Float[Array, " sensor"]:
            return problem.operator @ at_rim(forward, problem.z(place))

        values = self.sensors[:, 0] + self.sensors[:, 1:] @ modes + rim(coordinates)
        return values, self.sensors[:, 1:] @ slopes + jax.jacfwd(rim)(coordinates)


class ReducedDensity(AbstractRecordDensity):
    """The posterior with the reduced equation for the exact one."""

    problem: InverseProblem
    reduced: ReducedSensors

    def record(self, coordinates: Coordinates) -> Float[Array, " sensor"]:
        return self.reduced(self.problem, coordinates)

    def log_likelihood_of(
        self, coordinates: Coordinates, record: Float[Array, " sensor"]
    ) -> Float[Array, ""]:
        problem = self.problem
        return problem.likelihood.log_prob(problem.observed, record, problem.z(coordinates))

    def seconds(self) -> float:
        return SECONDS


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
    return ReducedDensity(problem, ReducedSensors(equation, on_device(sensors)))


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

    def size(self) -> float:
        """The root mean square of the gaps; infinite where there is none."""
        gap = rms_of(self.gaps.ravel())
        return gap if np.isfinite(gap) else np.inf


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
        gap = density.record(coordinates) - problem.predict(state, z)
        exact = problem.latents.log_prior(coordinates) + problem.log_likelihood(coordinates, state)
        return problem.whiten(gap, z), exact - density(coordinates)

    return jax.lax.map(one, (places, states))


def check_reducible(problem: InverseProblem) -> None:
    """Raise where there is no reduced equation for a problem."""
    require_float64(problem.forward)
    why = None
    if problem.time is not None:
        why = "steady states, and this equation is one in time"
    elif problem.others:
        why = f"one experiment, and there are {len(problem.forwards)}"
    elif problem.linear is None:
        what = problem.observations.what.describe()
        why = f"observations that are linear in the state, and there are {what}"
    elif not by_equation(problem).is_affine_in([STATE]):
        why = "equations that are linear in the state"
    if why is not None:
        raise RieszError(f"reduced takes {why}: use sample.")


def reduce_over_prior(problem: InverseProblem, seed: int = 0) -> ReducedSensors:
    """From as many exact states as it takes to be right at others."""
    origin, states = jnp.zeros(problem.num_coordinates), ExactStates()
    drawn = WIDER * spread_normals(seed, MOST_STATES + NUM_TESTED, problem.num_coordinates)
    tested = solve_at(problem, states, on_device(drawn[:NUM_TESTED])).finite()
    taken, count, solved, places = 0, NUM_STATES, None, drawn[NUM_TESTED:]
    while True:
        more = solve_at(problem, states, on_device(places[taken:count])).finite()
        taken, solved = count, more if solved is None else join_states(solved, more)
        density = density_from(problem, origin, solved, MOST_MODES)
        gap = reduced_errors(density, tested).size()
        is_full = density.reduced.num_modes >= MOST_MODES
        if gap <= GOOD_OVER_PRIOR or count >= MOST_STATES or is_full:
            break
        count = min(2 * count, MOST_STATES)
    if not gap <= LARGEST_GAP_OF_PRIOR:
        raise EngineError(
            f"{density.reduced.num_modes} modes of {len(solved.points)} states over the prior "
            f"leave {gap:.2g} standard deviations of the noise at the sensors, more than "
            f"{LARGEST_GAP_OF_PRIOR:g}: narrow the priors, or fit data sets one by one, rz.fit."
        )
    return dataclasses.replace(density.reduced, gap=gap)
