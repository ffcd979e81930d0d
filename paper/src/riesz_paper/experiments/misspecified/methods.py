"""The methods that are compared under misspecified physics, each from data to a posterior."""

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from riesz.diagnose.importance import log_weights
from riesz.engines.emulate.engine import Emulate
from riesz.engines.laplace.engine import Laplace
from riesz.engines.nuts.engine import Nuts
from riesz.engines.relax.engine import Relax
from riesz.engines.relax.schedule import AbstractSchedule, Learned
from riesz.penalty.gram import Gram
from riesz.posterior.family import AbstractGaussian, EmpiricalDraws
from riesz.posterior.posterior import Posterior
from riesz.posterior.psis import smoothed_weights
from riesz_paper.experiments.misspecified.data import DataSet, posed

NODAL = Relax(
    surrogate="nodal",
    norm="exact",
    steps=20,
    block_steps=10,
    tail=0.5,
    num_samples=8,
    polishing_draws=34,
)
"""A nodal surrogate is polished to the minimum from nearly anywhere, if draws are more than twice
as many as unknowns: gradient steps only make room for a learned epsilon."""
NETWORK, ENGINE = Relax(epsilon_rel=Learned()), Emulate()
WHITE = Gram(diffusivity=0.0, reaction=1.0)
"""Errors of the source that are white noise."""
NUTS_LENGTH = (200, 250)  # warm-up and draws, in each of two chains
NUM_WEIGHED = 1000

Method = Callable[[DataSet, int], Posterior]


def by_laplace(data: DataSet, seed: int, *, knows_eddy: bool) -> Posterior:
    """Exact for the model, which is linear with normal priors; nearly so for the oracle."""
    return Laplace().run(posed(data, knows_eddy=knows_eddy), seed=seed)


def by_weighing(data: DataSet, seed: int) -> Posterior:
    """The oracle's posterior as draws of its normal one, weighed by exact solves and drawn again.

    NUTS did not end within a quarter of an hour on one data set, on a busy processor.
    """
    around = by_laplace(data, seed, knows_eddy=True)
    draw_key, key = jr.split(jr.key(seed))
    draws = around.sample(draw_key, NUM_WEIGHED)
    problem = around.problem
    logs = log_weights(problem, family_of(around), None, problem.default_solver(), draws)
    found = smoothed_weights(np.asarray(logs))
    again = jr.choice(key, draws, (NUM_WEIGHED,), p=jnp.asarray(found.weights))
    history = {"effective_draws": jnp.asarray([found.effective_draws])}
    return dataclasses.replace(around, distribution=EmpiricalDraws(again[None]), history=history)


def family_of(posterior: Posterior) -> AbstractGaussian:
    assert isinstance(posterior.distribution, AbstractGaussian)  # laplace gives a normal one
    return posterior.distribution


def by_nuts(data: DataSet, seed: int) -> Posterior:
    problem = posed(data, knows_eddy=False)
    start = Laplace().run(problem, seed=seed).coordinate_mean()
    num_warmup, num_samples = NUTS_LENGTH
    engine = Nuts(num_warmup=num_warmup, num_samples=num_samples, start=start)
    return engine.run(problem, seed=seed)


def by_emulate(data: DataSet, seed: int) -> Posterior:
    return ENGINE.run(posed(data, knows_eddy=False), seed=seed)


def by_relax(
    data: DataSet, seed: int, *, epsilon_rel: float | AbstractSchedule, white: bool = False
) -> Posterior:
    """With the exact norm and one value a node: what a network is trained to come close to."""
    engine = NODAL.with_settings(epsilon_rel=epsilon_rel, gram=WHITE if white else None)
    return engine.run(posed(data, knows_eddy=False), seed=seed)


def by_network(data: DataSet, seed: int) -> Posterior:
    """As people run it: a network on mini-patches."""
    return NETWORK.run(posed(data, knows_eddy=False), seed=seed)


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
