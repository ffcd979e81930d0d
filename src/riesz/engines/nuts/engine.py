"""The reference engine: exact solves, adjoint gradients and NumPyro's No-U-Turn sampler.

A gradient costs one sparse factorisation: the adjoint solve meets the matrix of the forward one
again, and the host remembers its factors. (Dense solvers factorise twice.)
The sampler is that of Hoffman & Gelman (2014).
"""

import math
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from riesz.engines.base import (
    GRADIENT,
    AbstractEngine,
    Count,
    CountOrZero,
    Flag,
    Share,
    Solver,
    Start,
    Work,
    exact_density,
    resolve_start,
    start_of_chains,
    states_by,
)
from riesz.engines.nuts.chains import NutsSettings, Transition, all_chains, kernels
from riesz.fem.linear.linear_solve import Automatic
from riesz.notes import Note
from riesz.posterior.chains import FEWEST, agreement
from riesz.posterior.checks import EFFECTIVE_DRAWS, R_HAT, STRAY
from riesz.posterior.family import EmpiricalDraws
from riesz.posterior.posterior import Posterior
from riesz.problem.problem import Coordinates, InverseProblem

APART = 1.3
"""From here on chains lie in different places, and more draws alone will not help."""

WIDER = 2.0
"""Chains start from a posterior widened by so much, so that they can disagree."""

MAX_TRIES = 20
"""Draws of the prior that are tried for a chain, until one has a density."""


def draw_starts(
    has_density: Callable[[Coordinates], bool],
    start: Any,
    num_chains: int,
    key: PRNGKeyArray,
    size: int,
) -> Float[Array, "chain coordinate"]:
    """Where chains begin: far enough apart to disagree where there is more than one place to be.

    Draws of the prior, or those of a posterior, widened. Coordinates that were given are where
    all of them begin.
    """
    if start is not None and not isinstance(start, Posterior):
        return jnp.broadcast_to(jnp.asarray(start), (num_chains, size))
    centre = jnp.zeros(size) if start is None else start.coordinate_mean()
    starts = []
    for own in jr.split(key, num_chains):
        tried = jr.normal(own, (MAX_TRIES, size))
        if start is not None:
            drawn = start.sample(own, MAX_TRIES)
            tried = centre[None, :] + WIDER * (drawn - centre[None, :])
        # Nearer and nearer, where most places have no density.
        nearer = (centre + 0.8**i * (place - centre) for i, place in enumerate(tried))
        starts.append(next(filter(has_density, nearer), centre))
    return jnp.stack(starts)


def history_of(transition: Transition) -> dict[str, Array]:
    """Statistics of the kept draws, by chain, and how well the chains agree."""
    draws = np.asarray(transition.coordinates)
    result = agreement(draws) if draws.shape[1] >= FEWEST else None
    measures = {}
    if result is not None:
        measures = {name: jnp.asarray(values) for name, values in result._asdict().items()}
    return measures | {
        "log_density": transition.log_density,
        "num_steps": transition.num_steps,
        "accept_probability": transition.accept_probability,
        "diverging": transition.diverging,
        "step_size": transition.step_size,
    }


def sampler_warnings(history: dict[str, Array], names: tuple[str, ...]) -> tuple[Note, ...]:
    """What a reader must know before trusting the draws."""
    notes = []
    divergences = int(jnp.sum(history["diverging"]))
    if divergences > STRAY * history["diverging"].size:
        notes.append(Note("divergences", count=divergences, total=history["diverging"].size))
    r_hat = np.asarray(history.get("r_hat", np.full(len(names), math.nan)))
    worst = int(np.argmax(np.where(np.isfinite(r_hat), r_hat, math.inf)))
    if not np.isfinite(r_hat[worst]):
        notes.append(Note("too_few_draws"))
        return tuple(notes)
    if r_hat[worst] > R_HAT.good:
        are_apart = chains_are_apart(r_hat[worst], *history["diverging"].shape)
        code = "chains_apart" if are_apart else "r_hat"
        notes.append(Note(code, value=r_hat[worst], unknown=names[worst], limit=R_HAT.good))
    effective = np.nan_to_num(np.asarray(history["effective_draws"]), nan=1.0)
    fewest = int(np.argmin(effective))
    if effective[fewest] < EFFECTIVE_DRAWS.bad:
        result = {"value": effective[fewest], "error": 1 / math.sqrt(effective[fewest])}
        unknown = names[fewest]
        notes.append(Note("effective_draws", **result, unknown=unknown, limit=EFFECTIVE_DRAWS.bad))
        return tuple(notes)
    tails = np.nan_to_num(np.asarray(history.get("tail_draws", effective)), nan=1.0)
    fewest = int(np.argmin(tails))
    if tails[fewest] < EFFECTIVE_DRAWS.bad:
        result = {"value": tails[fewest], "unknown": names[fewest]}
        notes.append(Note("tail_draws", **result, limit=EFFECTIVE_DRAWS.bad))
    return tuple(notes)


def chains_are_apart(r_hat: float, num_chains: int, num_draws: int) -> bool:
    """A few draws may lie anywhere; many that stay in different places have a reason to."""
    return bool(r_hat >= APART and num_chains > 1 and num_draws >= EFFECTIVE_DRAWS.bad)


class Nuts(AbstractEngine):
    """The exact posterior by sampling, chain after chain, each from a draw of the prior.

    From a posterior, chains begin at draws of it, widened, and its covariance is their inverse
    mass, which is not adapted: a short warm-up will do. Where the posterior is nearly normal, take
    that of `laplace` or `emulate`; with many unknowns where it is not, that of some hundred draws
    with `dense_mass=False`, as a dense mass is learnt from many more draws than there are unknowns.

    The history tells, for each chain and kept draw, `log_density`, `num_steps`, `diverging`,
    `accept_probability` and `step_size`; for each coordinate `r_hat`, `effective_draws` and
    `tail_draws`; and `num_gradients`, all that were computed, warm-up included.
    """

    name: ClassVar[str] = "nuts"
    is_exact: ClassVar[bool] = True
    takes_time: ClassVar[bool] = True
    compiling: ClassVar[float] = 40.0

    num_warmup: CountOrZero = 500
    num_samples: Count = 500
    num_chains: Count = 4
    target_accept: Share = 0.8
    dense_mass: Flag = True
    max_tree_depth: Count = 10
    start: Start = None
    linear_solver: Solver = Automatic()

    def cost(self, solve: float, problem: InverseProblem) -> float:
        """Trees of about 15 steps."""
        return solve * GRADIENT * 15 * 2 * self.num_chains * (self.num_warmup + self.num_samples)

    def posterior(self, problem: InverseProblem, work: Work) -> Posterior:
        self.check(problem)
        start = resolve_start(problem, self.start, work)
        origin, inverse_mass = start_of_chains(problem, start, dense=self.dense_mass)
        how = NutsSettings(
            self.num_warmup,
            self.target_accept,
            self.dense_mass,
            self.max_tree_depth,
            adapt_mass=inverse_mass is None,
        )
        density, key = exact_density(problem, self.linear_solver), jr.key(work.seed)
        where = start if start is None or isinstance(start, Posterior) else origin
        begin, _ = kernels(how)

        def has_density(place: Coordinates) -> bool:
            # By the program that begins chains: one more would have to be compiled.
            return bool(jnp.isfinite(begin(density, inverse_mass, (key, place)).potential_energy))

        starts = draw_starts(has_density, where, self.num_chains, jr.fold_in(key, 1), len(origin))
        every = all_chains(density, how, key, starts, inverse_mass, self.num_samples, work)
        after_warmup: Transition = jax.tree.map(lambda leaf: leaf[:, self.num_warmup :], every)
        # One gradient at the start of each chain, then one a leapfrog step.
        num_gradients = self.num_chains + jnp.sum(every.num_steps)
        history = history_of(after_warmup) | {"num_gradients": num_gradients}
        return Posterior(
            problem=problem,
            distribution=EmpiricalDraws(after_warmup.coordinates),
            states=states_by(self.linear_solver),
            history=history,
            engine=self.name,
            seed=work.seed,
            notes=sampler_warnings(history, problem.latents.coordinate_names()),
        )
