"""A fit of one test: the mode by few cells and steps, then the Gaussian about it by many."""

from dataclasses import dataclass
from time import process_time
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Float

import riesz as rz
from riesz_paper.data.pumping import Readings
from riesz_paper.experiments.pumping.field_tests import FieldTest
from riesz_paper.experiments.pumping.flow import PRIORS, flow_problem

NOISE_SD, DRIFT_SD, MEMORY = "noise_sd", "drift_sd", "memory"
NOISE_PRIORS = {
    NOISE_SD: dist.LogNormal(np.log(0.01), 1.5),  # m: from half a millimetre to 20 cm
    DRIFT_SD: dist.LogNormal(np.log(0.01), 1.5),
    MEMORY: dist.LogNormal(0.0, 1.0),  # of the drift, in units of the logarithm of time
}

INDEPENDENT, DRIFT = "independent", "drift"
"""Readings with errors of their own, and readings of a well that share what the model lacks."""

NUM_DRAWS = 20_000


@dataclass(frozen=True, eq=False)
class Fit:
    """Draws of the parameters, and what readings should have been."""

    draws: dict[str, Float[np.ndarray, " draw"]]
    predicted: Float[np.ndarray, " reading"]  # at the mode
    published: dict[str, Float[np.ndarray, " reading"]]  # by source, where that tells all values
    cpu_seconds: float


def noise_of(kind: str, seen: Readings) -> tuple[rz.AbstractLikelihood, dict[str, Any]]:
    """The likelihood, and the priors of what it names."""
    if kind == INDEPENDENT:
        return rz.Gaussian(NOISE_SD), {NOISE_SD: NOISE_PRIORS[NOISE_SD]}
    shared = rz.GroupedNormal(
        NOISE_SD,
        [seen.wells[number] for number in seen.well],
        drift_sd=DRIFT_SD,
        correlation_time=MEMORY,
        times=np.log(seen.time),
    )
    return shared, NOISE_PRIORS


def fit(test: FieldTest, seen: Readings, noise: str, seed: int) -> Fit:
    likelihood, priors = noise_of(noise, seen)
    coarse, fine = (
        flow_problem(test.well, seen, likelihood, fine=one, **priors) for one in (False, True)
    )
    searched(coarse, fine)  # compiles all that is needed
    began = process_time()
    posterior = searched(coarse, fine)
    seconds = process_time() - began
    z = jax.vmap(fine.z)(posterior.sample(jr.key(seed), NUM_DRAWS))
    mode = np.asarray(posterior.coordinate_mean())
    levels = jax.jit(lambda own: fine.predicted(fine.state(own), fine.z(own)))
    return Fit(
        draws={name: np.asarray(z[name]) for name in test.well.parameters},
        predicted=np.asarray(levels(jnp.asarray(mode))),
        published={
            source: np.asarray(levels(jnp.asarray(coordinates_of(fine, values, mode))))
            for source, values in test.published.items()
            if set(values) == set(test.well.parameters)
        },
        cpu_seconds=seconds,
    )


def searched(coarse: rz.InverseProblem, fine: rz.InverseProblem) -> rz.Posterior:
    """By few cells and steps first: the mode of many is then two or three steps away."""
    start = rz.fit(coarse, rz.Laplace(), progress=False, check=False)
    return rz.fit(fine, rz.Laplace(start=start.coordinate_mean()), progress=False, check=False)


def coordinates_of(
    problem: rz.InverseProblem, values: Any, mode: Float[np.ndarray, " coordinate"]
) -> Float[np.ndarray, " coordinate"]:
    """Where parameters have these values; what the noise names stays."""
    found = mode.copy()
    for place, name in enumerate(problem.latents.coordinate_names()):
        if name in values:
            prior = PRIORS[name]
            found[place] = (np.log(values[name]) - prior.loc) / prior.scale
    return found
