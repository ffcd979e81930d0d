"""The methods that are compared under misspecified physics, each from data to a posterior."""

import dataclasses
import warnings
from collections.abc import Callable, Mapping
from functools import partial

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from riesz.density.engine import Engine
from riesz.density.exact import ExactDensity
from riesz.density.relaxed.relaxed import Learned, Relaxed
from riesz.density.surrogate.surrogate import Surrogate
from riesz.diagnose.importance import log_weights
from riesz.inference.fit import fit
from riesz.method.gaussian_vi import GaussianVI
from riesz.method.laplace import Laplace
from riesz.method.mcmc.mcmc import MCMC
from riesz.penalty.gram import Gram
from riesz.posterior.family import AbstractGaussian, EmpiricalDraws
from riesz.posterior.importance import smoothed_weights
from riesz.posterior.posterior import Posterior
from riesz.problem.problem import InverseProblem
from riesz_paper.baselines.joint_training import JointTraining, train_jointly
from riesz_paper.experiments.misspecified.data import DataSet, posed

NETWORK, ENGINE = JointTraining(epsilon_rel=1.0), Engine(GaussianVI(), Surrogate())
WHITE = Gram(diffusivity=0.0, reaction=1.0)
"""Errors of the source that are white noise."""
NUTS_LENGTH = (200, 250)  # warm-up and draws, in each of two chains
NUM_WEIGHED = 1000

Method = Callable[[DataSet, int], Posterior]


def by_laplace(data: DataSet, seed: int, *, knows_eddy: bool) -> Posterior:
    """Exact for the model, which is linear with normal priors; nearly so for the oracle."""
    return Engine(Laplace()).run(posed(data, knows_eddy=knows_eddy), seed=seed)


def by_weighing(data: DataSet, seed: int) -> Posterior:
    """The oracle's posterior as draws of its normal one, weighed by exact solves and drawn again.

    NUTS did not end within a quarter of an hour on one data set, on a busy processor.
    """
    around = by_laplace(data, seed, knows_eddy=True)
    draw_key, key = jr.split(jr.key(seed))
    draws = around.sample(draw_key, NUM_WEIGHED)
    problem = around.problem
    density = ExactDensity(problem, problem.default_solver())
    logs = log_weights(density, family_of(around), draws)
    found = smoothed_weights(np.asarray(logs))
    again = jr.choice(key, draws, (NUM_WEIGHED,), p=jnp.asarray(found.weights))
    history = {"effective_draws": jnp.asarray([found.effective_draws])}
    return dataclasses.replace(around, distribution=EmpiricalDraws(again[None]), history=history)


def family_of(posterior: Posterior) -> AbstractGaussian:
    assert isinstance(posterior.distribution, AbstractGaussian)  # laplace gives a normal one
    return posterior.distribution


def by_nuts(data: DataSet, seed: int) -> Posterior:
    problem = posed(data, knows_eddy=False)
    start = Engine(Laplace()).run(problem, seed=seed).coordinate_mean()
    num_warmup, num_samples = NUTS_LENGTH
    engine = Engine(
        MCMC(kernel="nuts", num_warmup=num_warmup, num_samples=num_samples, start=start)
    )
    return engine.run(problem, seed=seed)


def by_emulate(data: DataSet, seed: int) -> Posterior:
    return ENGINE.run(posed(data, knows_eddy=False), seed=seed)


def by_relax(
    data: DataSet, seed: int, *, epsilon_rel: float | Learned, white: bool = False
) -> Posterior:
    density = Relaxed(epsilon_rel=epsilon_rel, gram=WHITE if white else None)
    return relaxed_fit(posed(data, knows_eddy=False), GaussianVI(), density, seed)


def by_network(data: DataSet, seed: int) -> Posterior:
    """From where the paper's training with a network on mini-patches ends."""
    problem = posed(data, knows_eddy=False)
    start = train_jointly(problem, NETWORK, seed=seed).coordinate_mean()
    return relaxed_fit(problem, GaussianVI(start=start), Relaxed(epsilon_rel=Learned()), seed)


def relaxed_fit(
    problem: InverseProblem, method: GaussianVI, density: Relaxed, seed: int
) -> Posterior:
    """With its check: over a learned epsilon the posterior has longer tails than any normal one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # they are kept as notes
        return fit(problem, method, density=density, seed=seed, check=True, progress=False)


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
