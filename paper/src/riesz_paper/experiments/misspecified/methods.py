"""The methods that are compared under misspecified physics, each from data to a posterior."""

import dataclasses
import warnings
from collections.abc import Callable, Mapping
from functools import lru_cache, partial

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from riesz.diagnose.importance import log_weights
from riesz.diagnose.psis import smoothed_weights
from riesz.engines.emulate.engine import emulate
from riesz.engines.laplace.engine import laplace
from riesz.engines.nuts.engine import nuts
from riesz.engines.relax.engine import RelaxSettings, relax
from riesz.engines.relax.schedule import AbstractSchedule, Learned
from riesz.penalty.gram import Gram
from riesz.penalty.penalty import ExactPenalty, exact_penalty
from riesz.posterior.family import AbstractFamily, EmpiricalDraws
from riesz.posterior.posterior import Posterior
from riesz_paper.experiments.misspecified.data import LEVELS, DataSet, posed, template

SETTINGS = RelaxSettings(
    steps=20, block_steps=10, tail=0.5, num_samples=8, polishing_rounds=2, polishing_draws=34
)
"""A nodal surrogate is polished to the minimum from nearly anywhere, if draws are more than twice
as many as unknowns: gradient steps only make room for a learned epsilon."""
NETWORK = RelaxSettings()
NUTS_LENGTH = (200, 250)  # warm-up and draws, in each of two chains
NUM_WEIGHED = 1000

Method = Callable[[DataSet, int], Posterior]


@lru_cache(maxsize=2)
def norm(*, white: bool) -> ExactPenalty:
    """What errors of the equation are drawn from: the dual norm, or white noise in the source."""
    forward = template(knows_eddy=False, levels=LEVELS).forward
    return exact_penalty(forward, Gram(0.0, 1.0) if white else None)


def by_laplace(data: DataSet, seed: int, *, knows_eddy: bool) -> Posterior:
    """Exact for the model, which is linear with normal priors; nearly so for the oracle."""
    return laplace(posed(data, knows_eddy=knows_eddy), seed=seed)


def by_weighing(data: DataSet, seed: int) -> Posterior:
    """The oracle's posterior as draws of its normal one, weighed by exact solves and drawn again.

    NUTS did not end within a quarter of an hour on one data set, on a busy processor.
    """
    around = by_laplace(data, seed, knows_eddy=True)
    draw_key, key = jr.split(jr.key(seed))
    draws = around.sample(draw_key, NUM_WEIGHED)
    found = smoothed_weights(
        np.asarray(log_weights(around.problem, family_of(around), None, draws))
    )
    again = jr.choice(key, draws, (NUM_WEIGHED,), p=jnp.asarray(found.weights))
    history = {"effective_draws": jnp.asarray([found.effective_draws])}
    return dataclasses.replace(around, distribution=EmpiricalDraws(again[None]), history=history)


def family_of(posterior: Posterior) -> AbstractFamily:
    assert isinstance(posterior.distribution, AbstractFamily)  # laplace gives a normal one
    return posterior.distribution


def by_nuts(data: DataSet, seed: int) -> Posterior:
    problem = posed(data, knows_eddy=False)
    start = laplace(problem, seed=seed).coordinate_mean()
    num_warmup, num_samples = NUTS_LENGTH
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of short chains; their effective draws are in the row
        return nuts(problem, seed=seed, num_warmup=num_warmup, num_samples=num_samples, start=start)


def by_emulate(data: DataSet, seed: int) -> Posterior:
    return emulate(posed(data, knows_eddy=False), seed=seed, quiet=True)


def by_relax(
    data: DataSet, seed: int, *, epsilon_rel: float | AbstractSchedule, white: bool = False
) -> Posterior:
    """With the exact norm and one value a node: what a network is trained to come close to."""
    return relax(
        posed(data, knows_eddy=False),
        epsilon_rel=epsilon_rel,
        seed=seed,
        settings=SETTINGS,
        surrogate="nodal",
        penalty=norm(white=white),
        quiet=True,
    )


def by_network(data: DataSet, seed: int) -> Posterior:
    """As people run it: a network on mini-patches."""
    problem = posed(data, knows_eddy=False)
    return relax(problem, epsilon_rel=Learned(), seed=seed, settings=NETWORK, quiet=True)


METHODS: Mapping[str, Method] = {
    "laplace": partial(by_laplace, knows_eddy=False),
    "oracle": partial(by_laplace, knows_eddy=True),
    "relax-learned": partial(by_relax, epsilon_rel=Learned()),
    "relax-learned-white": partial(by_relax, epsilon_rel=Learned(), white=True),
    "relax-0.3": partial(by_relax, epsilon_rel=0.3),
    "relax-1": partial(by_relax, epsilon_rel=1.0),
    "relax-3": partial(by_relax, epsilon_rel=3.0),
    "nuts": by_nuts,
    "oracle-weighed": by_weighing,
    "emulate": by_emulate,
    "relax-learned-network": by_network,
}
