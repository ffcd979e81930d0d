r"""The engine `reduced`: chains of `sample` by a reduced equation, weighed by exact solves.

States at draws about the modes span a first reduced equation; short chains by it go where the
posterior is, and exact states there span the next one, until it is right at draws that it has not
seen. Its chains cost the same on any mesh. What is left of its error is taken out in the end: some
draws are solved for exactly, weighed by the ratio of both densities, and drawn again by their
weights, so that the posterior is the exact one as far as the tail of the weights vouches for it.
(Posterior-adapted snapshots: Cui, Marzouk & Willcox 2015; Pareto-smoothed weights: Vehtari et al.)
"""

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from riesz.density.reduced import (
    ReducedDensity,
    SolvedStates,
    check_reducible,
    density_from,
    join_states,
    reduced_errors,
    solve_at,
)
from riesz.engines.base import (
    GRADIENT,
    AbstractEngine,
    Count,
    CountOrNone,
    Share,
    Solver,
    Start,
    Work,
    exact_density,
    states_by,
)
from riesz.engines.checkpoint import NO_CHECKPOINT, leaves_of
from riesz.engines.laplace.newton import search_origin
from riesz.engines.nuts.engine import Transition, history_of, sampler_warnings
from riesz.engines.sample.chains import FEWEST_DRAWS, ChainsState, Plan, restore_modes, run_chains
from riesz.engines.sample.engine import (
    gaussians_at_modes,
    init_dispersed,
    note_on_modes,
    usable_modes,
)
from riesz.engines.sample.hamiltonian import Chain, Modes, init
from riesz.errors import EngineError
from riesz.fem.linear.linear_solve import Automatic
from riesz.posterior.family import Draws, EmpiricalDraws
from riesz.posterior.importance import ImportanceSample, weight_draws
from riesz.posterior.posterior import ExactStates, Posterior
from riesz.problem.problem import Coordinates, InverseProblem

WIDER = 1.3
"""The first states are those of draws so much wider than the normal distributions about modes."""

MAX_PILOTS = 4
"""Reduced equations that are tried."""

PILOT_WARMUP = 60
"""Transitions by one of them before its draws are taken."""

REDUCED_GRADIENT = 0.005
"""Seconds, roughly."""

CHAINS = 0.7
"""The share of the time left that chains may take: exact solves that weigh their draws follow."""

GOOD, LARGEST_GAP = 0.05, 0.5
"""Standard deviations of the noise by which an equation may be off, at draws that it has not seen,
to be taken at once, and to be taken at all."""


class ReducedRun(NamedTuple):
    """A reduced equation that is right where the posterior is, and where chains stand there."""

    density: ReducedDensity
    run: ChainsState
    seen: SolvedStates
    gaps: Float[np.ndarray, " pilot"]  # of it and those before, at draws they had not seen

    def snapshot(self) -> dict[str, Any]:
        """As a checkpoint keeps it: states are solved for again."""
        return {"places": self.seen.points, "gaps": self.gaps, "run": self.run.snapshot()}


class Reduced(AbstractEngine):
    """The posterior by a reduced equation, for linear equations on fine meshes.

    `num_snapshots` exact states span it in at most `num_modes`, and as many test it; of the draws
    of its chains `num_exact` are weighed by exact solves, and make the posterior. The other
    settings are those of `sample`.

    The history tells what that of `sample` does of the draws that were weighed, the `log_ratio` of
    exact and reduced densities at them, `k_hat` of these, and for each reduced equation that was
    tried the `gap` at draws it had not seen, in standard deviations of the noise.
    """

    name: ClassVar[str] = "reduced"
    is_exact: ClassVar[bool] = True
    compiling: ClassVar[float] = 90.0
    is_timed: ClassVar[bool] = True

    num_snapshots: Count = 500
    num_modes: Count = 250
    num_exact: Count = 1000
    num_warmup: Count = 300
    num_samples: CountOrNone = None
    num_chains: Count = 4
    num_searches: Count = 6
    target_accept: Share = 0.8
    start: Start = None
    linear_solver: Solver = Automatic()

    def check(self, problem: InverseProblem) -> None:
        super().check(problem)
        check_reducible(problem)

    def cost(self, solve: float, problem: InverseProblem) -> float:
        """Exact solves, and chains that cost the same on any mesh."""
        transitions = self.num_chains * (self.num_warmup + (self.num_samples or FEWEST_DRAWS))
        exact = GRADIENT * 20 * self.num_searches + 2 * self.num_snapshots + self.num_exact
        return solve * exact + REDUCED_GRADIENT * 6 * transitions

    def posterior(self, problem: InverseProblem, work: Work) -> Posterior:
        self.check(problem)
        searching, preparing, weighing = jr.split(jr.key(work.seed), 3)
        stored = work.checkpoint.restore("peaks")
        if stored is None:
            modes, used = self.search_modes(problem, searching, work)
            work.checkpoint.keep("peaks", {"found": leaves_of(modes), "used": leaves_of(used)})
        else:
            modes, used = restore_modes(stored["found"]), restore_modes(stored["used"])
        ready = self.prepare(problem, modes, used, preparing, work)
        plan = Plan(self.num_warmup, self.num_samples, self.target_accept)
        chains = work._replace(deadline=work.deadline.sooner(CHAINS))
        seen, run, cut = run_chains(ready.density, ready.run, plan, chains)
        moves: Transition = jax.tree.map(jnp.asarray, seen.transition)
        chosen = evenly_spaced(moves.diverging.shape[1], -(-self.num_exact // self.num_chains))
        history = history_of(moves) | {"peak": jnp.asarray(seen.mode)}
        history |= {name: rows[:, chosen] for name, rows in history.items() if rows.ndim > 1}
        draws = moves.coordinates[:, chosen]
        exact = solve_at(problem, states_by(self.linear_solver), flatten_chains(draws))
        logs = reduced_errors(ready.density, exact).log_ratios.reshape(draws.shape[:2])
        result = exact_sample(np.asarray(draws), np.asarray(logs))
        resampled = result.resample(logs.size, float(jr.uniform(weighing)))
        if "effective_draws" in history:
            fewer = jnp.minimum(history["effective_draws"], result.effective_draws)
            history["effective_draws"] = fewer
        notes = (
            *cut,
            *note_on_modes(np.asarray(seen.mode), run.modes.count),
            *sampler_warnings(history, problem.latents.coordinate_names()),
            *result.notes("reduced_k_hat"),
        )
        return Posterior(
            problem=problem,
            distribution=EmpiricalDraws(jnp.asarray(resampled.reshape(draws.shape))),
            states=states_by(self.linear_solver),
            history=history
            | {"num_gradients": jnp.asarray(run.num_gradients), "k_hat": jnp.asarray(result.k_hat)}
            | {"log_ratio": jnp.asarray(logs), "gap": jnp.asarray(ready.gaps)},
            engine=self.name,
            seed=work.seed,
            notes=notes,
        )

    def search_modes(
        self, problem: InverseProblem, key: PRNGKeyArray, work: Work
    ) -> tuple[Modes, Modes]:
        """The modes of the exact posterior, and those that chains may jump between."""
        density = exact_density(problem, self.linear_solver)
        origin = search_origin(problem, density, self.start, work)
        result = gaussians_at_modes(density, origin, self.num_searches, key)
        return result, usable_modes(density, result, jr.fold_in(key, 1))

    def prepare(
        self, problem: InverseProblem, modes: Modes, used: Modes, key: PRNGKeyArray, work: Work
    ) -> ReducedRun:
        """Reduced equations one after the other, each by states where chains by the last one go."""
        states = states_by(self.linear_solver)
        half = -(-self.num_snapshots // 2)
        each = -(-half // self.num_chains)
        stored = work.checkpoint.restore("pilots")
        if stored is None:
            draw_key, place_key, chain_key = jr.split(key, 3)
            places = draw_about_modes(modes, self.num_snapshots, draw_key)
            solved = solve_at(problem, states, places).finite()
            density = density_from(problem, centre_of(modes), solved, self.num_modes)
            chains = init_dispersed(density, modes, self.num_chains, place_key, chain_key)
            ready = ReducedRun(density, ChainsState(chains, used), solved, np.zeros(0))
        else:
            ready = restore_run(problem, stored, states, self.num_modes)
        # Of a pilot nothing is kept but its end.
        pilot = Plan(PILOT_WARMUP, each, self.target_accept)
        unkept = work._replace(checkpoint=NO_CHECKPOINT)
        while len(ready.gaps) < MAX_PILOTS and not (len(ready.gaps) and ready.gaps[-1] <= GOOD):
            moved, run, _ = run_chains(ready.density, ready.run, pilot, unkept)
            places = flatten_chains(jnp.asarray(moved.transition.coordinates))
            fresh = solve_at(problem, states, places).finite()
            gap = reduced_errors(ready.density, fresh).size()
            solved = join_states(SolvedStates(*(one[-half:] for one in ready.seen)), fresh)
            density = density_from(problem, centre_of(run.modes), solved, self.num_modes)
            chains = [restart_chain(density, chain) for chain in run.chains]
            run = ChainsState(chains, run.modes, num_gradients=run.num_gradients)
            gaps = np.append(ready.gaps, gap)
            ready = ReducedRun(density, run, solved, gaps)
            work.checkpoint.keep("pilots", ready.snapshot())
        if not ready.gaps[-1] <= LARGEST_GAP:
            raise EngineError(
                f"reduced: {ready.density.reduced.num_modes} modes of {len(ready.seen.points)} "
                f"states leave {ready.gaps[-1]:.2g} standard deviations of the noise at the "
                f"sensors, more than {LARGEST_GAP:g}: set num_snapshots and num_modes higher, or "
                "use sample."
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
    normals = WIDER * jr.normal(normal, (count, len(centre_of(modes))))
    return jax.vmap(lambda owner, own: modes.metric(owner).unwhiten(own))(owners, normals)


def centre_of(modes: Modes) -> Coordinates:
    return modes.metrics.centre[jnp.argmax(modes.log_weights)]


def restart_chain(density: ReducedDensity, chain: Chain) -> Chain:
    """At the same place by another density, with the same length of steps."""
    fresh = init(density, chain.key, chain.position)
    return eqx.tree_at(lambda one: one.step_size, fresh, chain.step_size)


def flatten_chains(
    by_chain: Float[Array, "chain draw coordinate"],
) -> Float[Array, "every coordinate"]:
    return by_chain.reshape(-1, by_chain.shape[-1])


def evenly_spaced(count: int, wanted: int) -> Int[np.ndarray, " chosen"]:
    """So many of a number of draws, evenly; all where there are fewer."""
    return np.unique(np.linspace(0, count - 1, min(wanted, count)).round().astype(int))


def exact_sample(
    draws: Float[np.ndarray, "chain draw coordinate"],
    log_ratios: Float[np.ndarray, "chain draw"],
) -> ImportanceSample:
    """Draws of the reduced posterior with the weights of the exact one, all chains together.

    Where the equation could not be solved there is no exact posterior, and no weight; and a chain
    that is where the exact posterior is not loses its draws.
    """
    if not np.isfinite(log_ratios).any():
        raise EngineError(
            "reduced: the equation could be solved exactly at none of the draws. Look for priors "
            "that allow impossible coefficients."
        )
    return weight_draws(draws.reshape(-1, draws.shape[-1]), log_ratios.ravel())
