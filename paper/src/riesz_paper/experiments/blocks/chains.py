"""Chains of NUTS side by side, each in a process of its own on processors of its own."""

from collections.abc import Callable
from dataclasses import dataclass
from time import process_time

import jax
import jax.random as jr
import numpy as np
from jaxtyping import Bool, Float, Int

from riesz.density.engine import Engine
from riesz.method.mcmc.mcmc import MCMC
from riesz.posterior.posterior import representative_draws
from riesz_many.scheduler import Pool, Task, run_tasks
from riesz_paper.experiments.blocks.problem import block_problem


@dataclass(frozen=True)
class ChainSettings:
    """Of one chain, and of how many it is one."""

    seed: int
    levels: int
    pilot_warmup: int
    pilot_samples: int
    num_warmup: int
    num_samples: int
    num_chains: int


@dataclass(frozen=True, eq=False)
class Chain:
    """What is left of a chain."""

    coordinates: Float[np.ndarray, "draw coordinate"]
    num_steps: Int[np.ndarray, " draw"]
    diverging: Bool[np.ndarray, " draw"]
    num_gradients: int  # pilot and warm-up included
    cpu_seconds: float  # of its whole process


def side_by_side(job: Callable[[int], Chain], num_chains: int) -> list[Chain]:
    """All chains at once: `job` makes the one of a number, and can be sent to a process."""
    tasks = [Task((number,), str(number)) for number in range(num_chains)]
    found: dict[int, Chain] = {}
    for outcome in run_tasks(job, tasks, Pool(num_chains)):
        if outcome.error is not None:
            raise outcome.error
        found[outcome.place] = outcome.value
    return [found[number] for number in range(num_chains)]


def block_chain(settings: ChainSettings, number: int) -> Chain:
    """One chain on the problem of blocks, as a process runs it.

    Draws with a diagonal mass are its pilot, whose covariance makes the dense mass: from nothing,
    dense ones take a window of draws several times as long as there are unknowns; and the curvature
    at the mode is that of no other place here.
    """
    jax.config.update("jax_enable_x64", True)  # a process of its own may choose
    problem = block_problem(settings.seed, levels=settings.levels)
    seed = 2 * (settings.num_chains * settings.seed + number)
    pilot = Engine(
        MCMC(
            kernel="nuts",
            num_warmup=settings.pilot_warmup,
            num_samples=settings.pilot_samples,
            num_chains=1,
            dense_mass=False,
        )
    ).run(problem, seed=seed)
    found = Engine(
        MCMC(
            kernel="nuts",
            num_warmup=settings.num_warmup,
            num_samples=settings.num_samples,
            num_chains=1,
            start=pilot,
        )
    ).run(problem, seed=seed + 1)
    return Chain(
        coordinates=np.asarray(representative_draws(found, jr.key(0), None)),
        num_steps=np.asarray(found.history["num_steps"])[0],
        diverging=np.asarray(found.history["diverging"])[0],
        num_gradients=sum(int(one.history["num_gradients"]) for one in (pilot, found)),
        cpu_seconds=process_time(),
    )
