r"""Markov chain Monte Carlo, also with many unknowns.

By the kernel `hmc`, searches from several places find the modes, their curvature whitens the
posterior; chains start apart around the modes, and a warm-up refines the coordinates from draws and
gradients together. The number of gradients for an independent draw does not grow with that of
unknowns. The kernel `nuts` is NumPyro's sampler, for few unknowns and as a reference.
"""

from typing import Annotated, ClassVar, Literal

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import PRNGKeyArray
from pydantic import Field

from riesz.devices import Devices
from riesz.errors import RieszError
from riesz.method.base import GRADIENT, AbstractMethod, Inferred, TargetDensity, Work, resolve_start
from riesz.method.checkpoint import leaves_of
from riesz.method.mcmc import diagnostics
from riesz.method.mcmc.chains import FEWEST_DRAWS, ChainsState, Plan, restore_modes, run_chains
from riesz.method.mcmc.hamiltonian import Chain, HMCTransition, Modes, init
from riesz.method.mcmc.metric import Metric, metric_about, stack_metrics
from riesz.method.mcmc.nuts import NutsSettings, sample_by_nuts
from riesz.method.newton import NEGLIGIBLE, default_searches, find_modes, search_origin
from riesz.method.settings import Count, CountOrNone, CountOrZero, Flag, Share
from riesz.notes import Note
from riesz.posterior.density import (
    LEAST_INFORMATION,
    AbstractDensity,
    Linearization,
    curvature_at,
    num_directions,
)
from riesz.posterior.family import EmpiricalDraws
from riesz.problem.problem import Coordinates

Kernel = Annotated[Literal["hmc", "nuts"], Field(description="hmc or nuts")]
WarmUp = Annotated[
    CountOrZero | None, Field(description="a whole number of at least 0, or nothing")
]

WIDER = 2.0
"""Chains start so much farther from the modes than draws lie, where data tell something."""

NEARER, MAX_TRIES = 0.7, 20
"""Places without a density are drawn towards the mode, so often at most."""

NUM_TRIED, ENOUGH = 50, 0.1
"""Draws of the mixture of modes that are weighed, and the share of them that must count."""

NUTS_WARMUP, NUTS_SAMPLES, HMC_WARMUP = 500, 500, 300
"""Of each chain, where nothing else was asked for."""


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


class MCMC(AbstractMethod):
    """Draws of the posterior by chains that are compared, also with many unknowns.

    The kernel `hmc` is preconditioned Hamiltonian Monte Carlo: `num_searches` look for modes, from
    `start` or the priors' medians and from draws of the prior (16 with up to 32 unknowns, else 6).
    Without `num_samples`, draws of each chain, there are as many as it takes until chains agree and
    all of them are worth a thousand independent ones, but no more than 4000.

    The kernel `nuts` is NumPyro's sampler. Its chains begin at draws of the prior, or at those of
    `start`, widened, whose covariance is then their inverse mass and is not adapted: a short
    warm-up will do. With many unknowns take `dense_mass=False`, as a dense mass is learnt from many
    more draws than there are unknowns.

    The history tells, for each chain and kept draw, `log_density`, `num_steps`, `diverging`,
    `accept_probability`, `step_size`, and by `hmc` its `peak`; for each coordinate `r_hat`,
    `effective_draws` and `tail_draws`, where unknowns are many also `..._along` the directions in
    which data tell something; and `num_gradients`, all that were computed, warm-up included.
    """

    name: ClassVar[str] = "mcmc"
    is_timed: ClassVar[bool] = True

    kernel: Kernel = "hmc"
    num_warmup: WarmUp = None
    num_samples: CountOrNone = None
    num_chains: Count = 4
    num_searches: CountOrNone = None
    target_accept: Share = 0.8
    dense_mass: Flag = True
    max_tree_depth: Count = 10

    def inert(self) -> dict[str, str]:
        if self.kernel == "nuts":
            return {"num_searches": "it goes with kernel = 'hmc'"}
        return dict.fromkeys(("dense_mass", "max_tree_depth"), "it goes with kernel = 'nuts'")

    @property
    def warmup(self) -> int:
        default = NUTS_WARMUP if self.kernel == "nuts" else HMC_WARMUP
        return default if self.num_warmup is None else self.num_warmup

    def cost(self, value: float, size: int, num_data: int) -> float:
        """Trajectories of about six steps, or trees of about 15."""
        if self.kernel == "nuts":
            num_draws, steps = self.num_samples or NUTS_SAMPLES, 30
        else:
            num_draws, steps = self.num_samples or 2 * FEWEST_DRAWS, 6
        return value * GRADIENT * steps * self.num_chains * (self.warmup + num_draws)

    def infer(self, target: TargetDensity, work: Work) -> Inferred:
        if self.kernel == "hmc":
            return self.summarise(target, *self.run_hmc(target, work))
        start = resolve_start(target, self.start, work)
        how = NutsSettings(self.warmup, self.target_accept, self.dense_mass, self.max_tree_depth)
        num_samples = self.num_samples or NUTS_SAMPLES
        draws, num_gradients = sample_by_nuts(
            target, how, start, self.num_chains, num_samples, work
        )
        history = diagnostics.history_of(draws) | {"num_gradients": num_gradients}
        notes = diagnostics.sampler_warnings(history, target.names)
        return Inferred(EmpiricalDraws(draws.coordinates), history, notes)

    def run_hmc(
        self, target: TargetDensity, work: Work
    ) -> tuple[HMCTransition, ChainsState, tuple[Note, ...]]:
        """All draws, where chains ended, and a note where they were cut short."""
        first = self.first_chains(target, work) if target.chains is None else target.chains
        plan = Plan(self.warmup, self.num_samples, self.target_accept)
        return run_chains(target.density, first, plan, work)

    def first_chains(self, target: TargetDensity, work: Work) -> ChainsState:
        """Apart, about the modes."""
        density = target.density
        searching, starting, own = jr.split(jr.key(work.seed), 3)
        modes = self.search_modes(target, searching, work)
        chains = init_dispersed(density, modes, self.num_chains, starting, own)
        used = usable_modes(density, modes, jr.fold_in(searching, 1))
        return ChainsState(chains, used, num_gradients=len(chains))

    def search_modes(self, target: TargetDensity, key: PRNGKeyArray, work: Work) -> Modes:
        stored = work.checkpoint.restore("peaks")
        if stored is not None:
            return restore_modes(stored["arrays"])
        origin = search_origin(target, self.start, work)
        # An approximation that was adapted to where the posterior is holds there alone.
        default = default_searches(target.size) if target.near is None else 1
        count = self.num_searches or default
        result = gaussians_at_modes(target.density, origin, count, key, work.devices)
        work.checkpoint.keep("peaks", {"arrays": leaves_of(result)})
        return result

    def summarise(
        self,
        target: TargetDensity,
        transitions: HMCTransition,
        run: ChainsState,
        stopped: tuple[Note, ...],
    ) -> Inferred:
        moves = jax.tree.map(jnp.asarray, transitions.transition)
        history = diagnostics.history_of(moves) | {
            "num_gradients": jnp.asarray(run.num_gradients),
            "peak": jnp.asarray(transitions.mode),
        }
        notes = diagnostics.sampler_warnings(history, target.names)
        directions = np.asarray(run.modes.metrics.directions[0])
        if directions.shape[1] < directions.shape[0]:
            result, own = diagnostics.agreement_along(np.asarray(moves.coordinates), directions)
            history, notes = history | result, (*notes, *own)
        modes = diagnostics.note_on_modes(np.asarray(transitions.mode), run.modes.count)
        return Inferred(EmpiricalDraws(moves.coordinates), history, (*modes, *stopped, *notes))


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
            "kernel='nuts'."
        )
    logs = np.where(np.isfinite(logs), logs, -np.inf)
    heavy = np.flatnonzero(logs > logs.max() - NEGLIGIBLE)
    weights = jax.nn.log_softmax(jnp.asarray(logs[heavy]))
    return Modes(stack_metrics([metrics[i] for i in heavy]), weights)
