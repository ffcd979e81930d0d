"""The engine `sample`: the exact posterior with many unknowns, by exact solves.

Searches from several places find the modes, their curvature whitens the posterior; chains start
apart around the modes, and a warm-up refines the coordinates from draws and gradients together.
The number of gradients for an independent draw does not grow with that of unknowns.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from riesz.density.base import AbstractDensity, Linearization
from riesz.density.curvature import LEAST_INFORMATION, curvature_at, num_directions
from riesz.devices import Devices
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
from riesz.engines.checkpoint import leaves_of
from riesz.engines.laplace.modes import NEGLIGIBLE, default_searches, find_modes
from riesz.engines.laplace.newton import search_origin
from riesz.engines.nuts.engine import (
    Transition,
    history_of,
    sampler_warnings,
)
from riesz.engines.sample.chains import FEWEST_DRAWS, ChainsState, Plan, restore_modes, run_chains
from riesz.engines.sample.hamiltonian import Chain, HMCTransition, Modes, init
from riesz.engines.sample.metric import Metric, metric_about, stack_metrics
from riesz.errors import RieszError
from riesz.fem.linear.linear_solve import Automatic
from riesz.notes import Note
from riesz.posterior.chains import agreement
from riesz.posterior.family import EmpiricalDraws
from riesz.posterior.posterior import Posterior
from riesz.problem.problem import Coordinates, InverseProblem

WIDER = 2.0
"""Chains start so much farther from the modes than draws lie, where data tell something."""

NEARER, MAX_TRIES = 0.7, 20
"""Places without a density are drawn towards the mode, so often at most."""

NUM_TRIED, ENOUGH = 50, 0.1
"""Draws of the mixture of modes that are weighed, and the share of them that must count."""

RARE = 20
"""Jumps between modes that must have been taken for their weights to be known."""


def init_dispersed(
    density: AbstractDensity, modes: Modes, num_chains: int, key: PRNGKeyArray, own: PRNGKeyArray
) -> list[Chain]:
    """Chains around the modes, each of which has one if there are enough, and then by weight."""
    weights, held = np.exp(np.asarray(modes.log_weights)), np.zeros(modes.count)
    chains = []
    keys = zip(jr.split(key, num_chains), jr.split(own, num_chains), strict=True)
    for place_key, chain_key in keys:
        free = np.flatnonzero(held == 0)
        mode = int(free[np.argmax(weights[free])]) if len(free) else int(np.argmax(weights / held))
        held[mode] += 1
        metric = modes.metric(mode)
        normals = jr.normal(place_key, metric.centre.shape)
        along = metric.directions @ (metric.directions.T @ normals)
        offset = normals + (WIDER - 1) * along
        chain, tried = init(density, chain_key, metric.unwhiten(offset)), 0
        while not bool(jnp.isfinite(chain.log_density)):
            tried += 1
            if tried == MAX_TRIES:
                density.explain(metric.centre, "the chains start")
            chain = init(density, chain_key, metric.unwhiten(NEARER**tried * offset))
        chains.append(chain)
    return chains


def usable_modes(density: AbstractDensity, modes: Modes, key: PRNGKeyArray) -> Modes:
    """All modes, where draws of their mixture are near enough to the posterior to jump by them.

    Else the heaviest one alone: chains still start at each of them, and go where they can. To keep
    them apart without jumps would keep them from ever agreeing.
    """
    if modes.count == 1:
        return modes
    proposals = [modes.proposal(own) for own in jr.split(key, NUM_TRIED)]
    logs = [float(init(density, key, at).log_density - modes.log_proposal(at)) for at in proposals]
    weights = np.exp(np.array(logs) - np.max(logs))
    if weights.sum() ** 2 / np.sum(weights**2) >= ENOUGH * NUM_TRIED:
        return modes
    heaviest = int(np.argmax(np.asarray(modes.log_weights)))
    return Modes(stack_metrics([modes.metric(heaviest)]), jnp.zeros(1))


def agreement_along(
    draws: Float[np.ndarray, "chain draw coordinate"],
    directions: Float[np.ndarray, "coordinate direction"],
) -> tuple[dict[str, Array], tuple[Note, ...]]:
    """Agreement along the directions in which data tell something, and what to warn of.

    Each has a small part in each of many coordinates, where it would not be seen.
    """
    measured = agreement(draws @ directions)._asdict()
    result = {name: jnp.asarray(rows) for name, rows in measured.items()}
    names = tuple(f"direction {i + 1} that data tell of" for i in range(directions.shape[1]))
    notes = sampler_warnings(result | {"diverging": jnp.zeros(draws.shape[:2], bool)}, names)
    return {f"{name}_along": rows for name, rows in result.items()}, notes


def note_on_modes(owner: Int[np.ndarray, "chain draw"], count: int) -> tuple[Note, ...]:
    """That there is more than one, and whether their weights can be relied on."""
    if count == 1:
        return ()
    shares = [np.mean(owner == number) for number in range(count)]
    changes = np.sum(owner[:, 1:] != owner[:, :-1])
    return (Note("modes", count=count, shares=shares, changes=changes, is_rare=changes < RARE),)


class Sample(AbstractEngine):
    """The exact posterior, also with many unknowns, by preconditioned Hamiltonian Monte Carlo.

    `num_searches` look for modes, from `start` or the priors' medians and from draws of the prior:
    16 with up to 32 unknowns, else 6.
    Without `num_samples`, draws of each chain, there are as many as it takes until chains agree and
    all of them are worth a thousand independent ones, but no more than 4000.
    The history tells what that of `nuts` does, and of each draw its `peak`; where unknowns are
    many, how chains agree `..._along` the directions in which data tell something as well.
    """

    name: ClassVar[str] = "sample"
    is_exact: ClassVar[bool] = True
    takes_time: ClassVar[bool] = True
    compiling: ClassVar[float] = 60.0
    is_timed: ClassVar[bool] = True

    num_warmup: Count = 300
    num_samples: CountOrNone = None
    num_chains: Count = 4
    num_searches: CountOrNone = None
    target_accept: Share = 0.8
    start: Start = None
    linear_solver: Solver = Automatic()

    def cost(self, solve: float, problem: InverseProblem) -> float:
        """Trajectories of about six steps."""
        num_draws = self.num_samples or 2 * FEWEST_DRAWS
        return solve * GRADIENT * 6 * self.num_chains * (self.num_warmup + num_draws)

    def posterior(self, problem: InverseProblem, work: Work) -> Posterior:
        self.check(problem)
        density = exact_density(problem, self.linear_solver)
        searching, starting, own = jr.split(jr.key(work.seed), 3)
        stored = work.checkpoint.restore("peaks")
        if stored is None:
            origin = search_origin(problem, density, self.start, work)
            count = self.num_searches or default_searches(problem.num_coordinates)
            result = gaussians_at_modes(density, origin, count, searching, work.devices)
            work.checkpoint.keep("peaks", {"arrays": leaves_of(result)})
        else:
            result = restore_modes(stored["arrays"])
        chains = init_dispersed(density, result, self.num_chains, starting, own)
        used = usable_modes(density, result, jr.fold_in(searching, 1))
        first = ChainsState(chains, used, num_gradients=len(chains))
        plan = Plan(self.num_warmup, self.num_samples, self.target_accept)
        transitions, run, stopped = run_chains(density, first, plan, work)
        return self.build_posterior(problem, transitions, run, stopped, work)

    def build_posterior(
        self,
        problem: InverseProblem,
        transitions: HMCTransition,
        run: ChainsState,
        stopped: tuple[Note, ...],
        work: Work,
    ) -> Posterior:
        moves: Transition = jax.tree.map(jnp.asarray, transitions.transition)
        history = history_of(moves) | {
            "num_gradients": jnp.asarray(run.num_gradients),
            "peak": jnp.asarray(transitions.mode),
        }
        notes = sampler_warnings(history, problem.latents.coordinate_names())
        directions = np.asarray(run.modes.metrics.directions[0])
        if directions.shape[1] < directions.shape[0]:
            result, own = agreement_along(np.asarray(moves.coordinates), directions)
            history, notes = history | result, (*notes, *own)
        return Posterior(
            problem=problem,
            distribution=EmpiricalDraws(moves.coordinates),
            states=states_by(self.linear_solver),
            history=history,
            engine=self.name,
            seed=work.seed,
            notes=(*note_on_modes(np.asarray(transitions.mode), run.modes.count), *stopped, *notes),
        )


def metric_at(
    density: AbstractDensity, at: Linearization, key: PRNGKeyArray, devices: Devices | None = None
) -> Metric:
    """From the curvature there."""
    count = num_directions(len(at.coordinates), density.num_data)
    values, directions = curvature_at(density, at, count, key, devices=devices)
    return metric_about(at.coordinates, directions, jnp.maximum(values, LEAST_INFORMATION))


def gaussians_at_modes(
    density: AbstractDensity,
    origin: Coordinates,
    num_searches: int,
    key: PRNGKeyArray,
    devices: Devices | None = None,
) -> Modes:
    """Modes with weights by Laplace's method, without those that have next to none."""
    places_key, own = jr.split(key)
    ends = find_modes(density, origin, num_searches, places_key)
    metrics = [metric_at(density, end, own, devices) for end in ends]
    logs = np.array(
        [float(m.log_volume()) - float(end.cost) for m, end in zip(metrics, ends, strict=True)]
    )
    if not np.isfinite(logs).any():
        raise RieszError(
            f"the curvature of the log-density is not finite at any of the {len(ends)} peaks that "
            "were found: look for coefficients whose derivatives are infinite or NaN there, or use "
            "nuts."
        )
    logs = np.where(np.isfinite(logs), logs, -np.inf)
    heavy = np.flatnonzero(logs > logs.max() - NEGLIGIBLE)
    weights = jax.nn.log_softmax(jnp.asarray(logs[heavy]))
    return Modes(stack_metrics([metrics[i] for i in heavy]), weights)
