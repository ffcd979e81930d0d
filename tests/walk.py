"""The `riesz` command with an engine that only walks about, one slow step at a time.

It takes the name of mcmc, and compiles in no time: for tests of what happens around an engine.
"""

import time

import jax.numpy as jnp
import jax.random as jr
import pytest
from tests.pairs import replace_run

from riesz.cli.main import main
from riesz.method.training import train
from riesz.posterior.family import MeanField
from riesz.posterior.posterior import ExactStates, Posterior

STEPS, SECONDS = 400, 0.02


def step(state, key, data):
    place = state + 0.1 * jr.normal(key, state.shape)
    return place, {"distance": jnp.sum(jnp.sin(place) ** 2)}


def walked(self, problem, *, seed, progress, checkpoint, deadline, devices):
    class Slowly(type(checkpoint)):
        """So that there is time to be killed in."""

        def __init__(self):
            self.__dict__ = checkpoint.__dict__

        def keep(self, stage, state):
            time.sleep(SECONDS)
            super().keep(stage, state)

    place, history = train(
        step,
        jnp.zeros(2 * problem.num_coordinates),
        jr.key(seed),
        None,
        num_steps=STEPS,
        block_steps=10,
        label="walk",
        progress=progress,
        checkpoint=Slowly(),
    )
    family = MeanField(*jnp.split(place, 2))
    history = {name: jnp.asarray(curve) for name, curve in history.items()}
    return Posterior(problem, family, ExactStates(), history, "mcmc", seed, ())


if __name__ == "__main__":
    replace_run(pytest.MonkeyPatch(), "mcmc", walked)
    main()
