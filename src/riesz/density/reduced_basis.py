r"""A reduced basis: the posterior by an equation in the span of exact states.

Where equations are linear in the state it is right to a small part of the noise, with some tens of
modes for a few unknowns, at a cost that no mesh changes. How far it is off is measured at exact
states that it has not seen.

States at draws about the modes span a first reduced equation; short chains by it go where the
posterior is, and exact states there span the next one, until it is right at draws that it has not
seen. (Proper orthogonal decomposition, POD, with empirical interpolation; posterior-adapted
snapshots: Cui, Marzouk & Willcox 2015.)
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import scipy.sparse as sp
from jaxtyping import Array, Float, PRNGKeyArray

from riesz.arrays import on_device
from riesz.density.base import AbstractDensityKind, Prepared, states_by
from riesz.density.exact import (
    SolvedStates,
    correct_draws,
    density_errors,
    exact_density,
    flatten_chains,
    join_states,
    solve_at,
)
from riesz.errors import EngineError, RieszError
from riesz.fem.assembly import jacobian, source_rates
from riesz.fem.linear.linear_solve import Automatic
from riesz.fem.root import require_float64
from riesz.method.base import GRADIENT, AbstractMethod, Inferred, TargetDensity, Work
from riesz.method.checkpoint import NO_CHECKPOINT, leaves_of
from riesz.method.mcmc.chains import ChainsState, Plan, restore_modes, run_chains
from riesz.method.mcmc.hamiltonian import Chain, Modes, init
from riesz.method.mcmc.mcmc import MCMC, gaussians_at_modes, init_dispersed, usable_modes
from riesz.method.newton import NUM_SEARCHES, search_origin
from riesz.method.settings import Count, CountOrZero, Solver
from riesz.posterior.checks import rms_of
from riesz.posterior.density import AbstractRecordDensity
from riesz.posterior.family import Draws
from riesz.posterior.posterior import ExactStates, latent_values
from riesz.posterior.sobol import spread_normals
from riesz.problem.linearity import by_equation
from riesz.problem.problem import Coordinates, InverseProblem
from riesz.problem.unknowns import STATE
from riesz.surrogate.reduced import ReducedEquation, at_rim, pod_basis, reduced_equation

SECONDS = 0.002
"""Of a value, roughly."""

WIDER_THAN_PRIOR = 1.2
"""States over the prior are those of draws so much wider: posteriors reach into its tails."""

NUM_STATES, MOST_STATES, MOST_MODES = 250, 2000, 300
NUM_TESTED = 100

GOOD_OVER_PRIOR, LARGEST_GAP_OF_PRIOR = 0.02, 1.0
"""Standard deviations of the noise by which it may be off at draws of the prior that it has not
seen, to be taken at once, and to be taken at all."""

HIDDEN = 5e-4
"""What a reduced equation may neglect of states, as a share of what noise is of them."""

WIDER_THAN_MODES = 1.3
"""The first states are those of draws so much wider than the normal distributions about modes."""

MAX_PILOTS = 4
"""Reduced equations that are tried."""

PILOT_WARMUP = 60
"""Transitions by one of them before its draws are taken."""

CHAINS = 0.7
"""The share of the time left that chains may take: exact solves that weigh their draws follow."""

GOOD, LARGEST_GAP = 0.05, 0.5
"""The same at draws of chains, where the posterior is."""


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

    def seconds(self) -> float:
        return SECONDS


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
            "a reduced basis measures states by the energy of the equation, and its matrix has a "
            "diagonal that is not positive: use the density exact."
        )
    return sp.csr_array((matrix + matrix.T) / 2)


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
        raise RieszError(f"a reduced basis takes {why}: use the density exact.")


def reduce_over_prior(problem: InverseProblem, seed: int = 0) -> ReducedSensors:
    """From as many exact states as it takes to be right at others."""
    origin, states = jnp.zeros(problem.num_coordinates), ExactStates()
    drawn = WIDER_THAN_PRIOR * spread_normals(
        seed, MOST_STATES + NUM_TESTED, problem.num_coordinates
    )
    tested = solve_at(problem, states, on_device(drawn[:NUM_TESTED])).finite()
    taken, count, solved, places = 0, NUM_STATES, None, drawn[NUM_TESTED:]
    while True:
        more = solve_at(problem, states, on_device(places[taken:count])).finite()
        taken, solved = count, more if solved is None else join_states(solved, more)
        density = density_from(problem, origin, solved, MOST_MODES)
        gap = density_errors(density, tested).size()
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


class ReducedRun(NamedTuple):
    """A reduced equation that is right where the posterior is, and where chains stand there."""

    density: ReducedDensity
    run: ChainsState
    seen: SolvedStates
    gaps: Float[np.ndarray, " pilot"]  # of it and those before, at draws they had not seen

    def snapshot(self) -> dict[str, Any]:
        """As a checkpoint keeps it: states are solved for again."""
        return {"places": self.seen.points, "gaps": self.gaps, "run": self.run.snapshot()}


class ReducedBasis(AbstractDensityKind):
    """The posterior by a reduced basis, for linear equations on fine meshes.

    `num_snapshots` exact states span it in at most `num_modes`, and as many test it; of the draws
    of chains `num_exact` are weighed by exact solves, and make the posterior, or 0 of them.

    The history tells for each reduced equation that was tried the `gap` at draws it had not seen,
    in standard deviations of the noise; of draws that were weighed the `log_ratio` of exact and
    reduced densities, and `k_hat` of these.
    """

    name: ClassVar[str] = "reduced-basis"
    compiling: ClassVar[float] = 30.0

    num_snapshots: Count = 500
    num_modes: Count = 250
    num_exact: CountOrZero = 1000
    linear_solver: Solver = Automatic()

    def check(self, problem: InverseProblem) -> None:
        super().check(problem)
        check_reducible(problem)

    def cost(self, solve: float, problem: InverseProblem, method: AbstractMethod) -> float:
        """Exact solves, and a method that costs the same on any mesh."""
        exact = GRADIENT * 20 * NUM_SEARCHES + 2 * self.num_snapshots + self.num_exact
        own = method.cost(SECONDS, problem.num_coordinates, len(problem.observed))
        return solve * exact + own

    def infer(self, target: TargetDensity, method: AbstractMethod, work: Work) -> Inferred:
        # After the chains their draws are weighed.
        result = method.infer(target, work._replace(deadline=work.deadline.sooner(CHAINS)))
        key, states = jr.split(jr.key(work.seed), 3)[2], states_by(self.linear_solver)
        return correct_draws(target, result, states, self.num_exact, key)

    def prepare(self, problem: InverseProblem, method: AbstractMethod, work: Work) -> Prepared:
        searching, preparing, _ = jr.split(jr.key(work.seed), 3)
        pilot = method if isinstance(method, MCMC) and method.kernel == "hmc" else MCMC()
        stored = work.checkpoint.restore("snapshot modes")
        if stored is None:
            modes, used = self.search_modes(problem, pilot, searching, work)
            kept = {"found": leaves_of(modes), "used": leaves_of(used)}
            work.checkpoint.keep("snapshot modes", kept)
        else:
            modes, used = restore_modes(stored["found"]), restore_modes(stored["used"])
        ready = self.adapt(problem, modes, used, pilot, preparing, work)
        best = modes.metric(int(jnp.argmax(modes.log_weights)))
        target = TargetDensity(
            ready.density, problem.latents.coordinate_names(), best.gaussian(), ready.run
        )
        history = {"gap": jnp.asarray(ready.gaps)}
        return Prepared(target, states_by(self.linear_solver), history)

    def search_modes(
        self, problem: InverseProblem, pilot: MCMC, key: PRNGKeyArray, work: Work
    ) -> tuple[Modes, Modes]:
        """The modes of the exact posterior, and those that chains may jump between."""
        density = exact_density(problem, self.linear_solver)
        exact = TargetDensity(density, problem.latents.coordinate_names())
        origin = search_origin(exact, pilot.start, work)
        result = gaussians_at_modes(density, origin, pilot.num_searches or NUM_SEARCHES, key)
        return result, usable_modes(density, result, jr.fold_in(key, 1))

    def adapt(
        self,
        problem: InverseProblem,
        modes: Modes,
        used: Modes,
        pilot: MCMC,
        key: PRNGKeyArray,
        work: Work,
    ) -> ReducedRun:
        """Reduced equations one after the other, each by states where chains by the last one go."""
        states = states_by(self.linear_solver)
        half = -(-self.num_snapshots // 2)
        each = -(-half // pilot.num_chains)
        stored = work.checkpoint.restore("pilots")
        if stored is None:
            draw_key, place_key, chain_key = jr.split(key, 3)
            places = draw_about_modes(modes, self.num_snapshots, draw_key)
            solved = solve_at(problem, states, places).finite()
            density = density_from(problem, centre_of(modes), solved, self.num_modes)
            chains = init_dispersed(density, modes, pilot.num_chains, place_key, chain_key)
            ready = ReducedRun(density, ChainsState(chains, used), solved, np.zeros(0))
        else:
            ready = restore_run(problem, stored, states, self.num_modes)
        # Of a pilot nothing is kept but its end.
        plan = Plan(PILOT_WARMUP, each, pilot.target_accept)
        unkept = work._replace(checkpoint=NO_CHECKPOINT)
        while len(ready.gaps) < MAX_PILOTS and not (len(ready.gaps) and ready.gaps[-1] <= GOOD):
            moved, run, _ = run_chains(ready.density, ready.run, plan, unkept)
            places = flatten_chains(jnp.asarray(moved.transition.coordinates))
            fresh = solve_at(problem, states, places).finite()
            gap = density_errors(ready.density, fresh).size()
            solved = join_states(SolvedStates(*(one[-half:] for one in ready.seen)), fresh)
            density = density_from(problem, centre_of(run.modes), solved, self.num_modes)
            chains = [restart_chain(density, chain) for chain in run.chains]
            run = ChainsState(chains, run.modes, num_gradients=run.num_gradients)
            gaps = np.append(ready.gaps, gap)
            ready = ReducedRun(density, run, solved, gaps)
            work.checkpoint.keep("pilots", ready.snapshot())
        if not ready.gaps[-1] <= LARGEST_GAP:
            raise EngineError(
                f"{ready.density.reduced.num_modes} modes of {len(ready.seen.points)} "
                f"states leave {ready.gaps[-1]:.2g} standard deviations of the noise at the "
                f"sensors, more than {LARGEST_GAP:g}: set num_snapshots and num_modes higher, or "
                "use the density exact."
            )
        return ready


def restore_run(
    problem: InverseProblem, stored: Mapping[str, Any], states: ExactStates, num_modes: int
) -> ReducedRun:
    """From what a checkpoint has kept."""
    solved = solve_at(problem, states, jnp.asarray(stored["places"]))
    centre = centre_of(restore_modes(stored["run"]["peaks"]))
    density = density_from(problem, centre, solved, num_modes)
    chains = [init(density, jr.key(0), centre) for _ in stored["run"]["chains"]]
    run = ChainsState(chains, restore_modes(stored["run"]["peaks"])).restore(stored["run"])
    return ReducedRun(density, run, solved, np.asarray(stored["gaps"]))


def draw_about_modes(modes: Modes, count: int, key: PRNGKeyArray) -> Draws:
    """Draws of the normal distributions about modes, by their weights, made wider."""
    which, normal = jr.split(key)
    owners = jr.categorical(which, modes.log_weights, shape=(count,))
    normals = WIDER_THAN_MODES * jr.normal(normal, (count, len(centre_of(modes))))
    return jax.vmap(lambda owner, own: modes.metric(owner).unwhiten(own))(owners, normals)


def centre_of(modes: Modes) -> Coordinates:
    return modes.metrics.centre[jnp.argmax(modes.log_weights)]


def restart_chain(density: ReducedDensity, chain: Chain) -> Chain:
    """At the same place by another density, with the same length of steps."""
    fresh = init(density, chain.key, chain.position)
    return eqx.tree_at(lambda one: one.step_size, fresh, chain.step_size)
