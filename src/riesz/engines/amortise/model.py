"""What sensors would see, for any unknowns from the prior and at a cost that no mesh changes.

The reduced equation in the span of exact states at draws of the prior: where equations are linear
in the state it is right to a small part of the noise, with some tens of modes for a few unknowns.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from riesz.arrays import on_device
from riesz.engines.reduced.engine import Reduced
from riesz.engines.reduced.model import (
    ReducedDensity,
    density_from,
    join_states,
    reduced_errors,
    solve_at,
)
from riesz.errors import EngineError, RieszError
from riesz.fem.assembly import source_rates
from riesz.posterior.checks import rms_of
from riesz.posterior.posterior import ExactStates
from riesz.posterior.sobol import spread_normals
from riesz.problem.problem import Coordinates, InverseProblem
from riesz.surrogate.reduced import ReducedEquation, at_rim

WIDER = 1.2
"""States are those of draws so much wider than the prior: posteriors reach into its tails."""

NUM_STATES, MOST_STATES, MOST_MODES = 250, 2000, 300
NUM_TESTED = 100

GOOD, LARGEST_GAP = 0.02, 1.0
"""Standard deviations of the noise by which it may be off at draws that it has not seen, to be
taken at once, and to be taken at all; exact solves look at each posterior afterwards."""


class ReducedSensors(eqx.Module):
    """The reduced equation, and what sensors see of it."""

    equation: ReducedEquation
    sensors: Float[Array, "sensor mode_plus_one"]
    gap: float = eqx.field(static=True)  # at draws it has not seen, in sds of the noise

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


def why_not_reduced(problem: InverseProblem) -> str | None:
    """Why there is no reduced equation for a problem; nothing where there is one."""
    try:
        Reduced().check(problem)
    except RieszError as error:
        return str(error)
    return None


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
        gap = gap_at(density, tested)
        is_full = density.equation.num_modes >= MOST_MODES
        if gap <= GOOD or count >= MOST_STATES or is_full:
            break
        count = min(2 * count, MOST_STATES)
    if not gap <= LARGEST_GAP:
        raise EngineError(
            f"{density.equation.num_modes} modes of {len(solved.points)} states over the prior "
            f"leave {gap:.2g} standard deviations of the noise at the sensors, more than "
            f"{LARGEST_GAP:g}: narrow the priors, or fit data sets one by one, rz.fit."
        )
    return ReducedSensors(density.equation, density.sensors, gap)


def gap_at(density: ReducedDensity, tested) -> float:
    gap = rms_of(np.asarray(reduced_errors(density, tested).gaps).ravel())
    return gap if np.isfinite(gap) else np.inf
