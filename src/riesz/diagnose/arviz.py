"""Posteriors for ArviZ: one adapter for its two generations."""

import dataclasses
import inspect
import warnings
from importlib import import_module
from typing import Any

import jax.random as jr
import numpy as np

from riesz.diagnose.held_out import observation_draws
from riesz.errors import RieszError
from riesz.posterior.family import EmpiricalDraws
from riesz.posterior.posterior import NUM_DRAWS, Posterior
from riesz.prediction.sampling import quantity_draws

OBSERVED = "observed"

SAMPLER_STATISTICS = {
    "log_density": "lp",
    "diverging": "diverging",
    "num_steps": "n_steps",
    "accept_probability": "acceptance_rate",
    "step_size": "step_size",
}
"""Ours, and what ArviZ calls them."""


def to_arviz(
    posterior: Posterior,
    *,
    num_draws: int = NUM_DRAWS,
    seed: int = 0,
    predictive: bool = False,
) -> Any:
    """The unknowns as ArviZ reads them: `InferenceData`, or a `DataTree` from version 1 on.

    A sampler's draws are kept by chain, with its statistics; of any other distribution so many
    draws are taken. Fields are given at the nodes. With `predictive`, which takes a solve a draw,
    the groups `posterior_predictive`, new data, and `log_likelihood`, that of each observation,
    are there as well.
    """
    drawn = posterior.distribution
    is_sampled = isinstance(drawn, EmpiricalDraws)
    draws = drawn.by_chain if is_sampled else posterior.sample(jr.key(seed), num_draws)[None]
    pooled = EmpiricalDraws(draws)
    chosen = dataclasses.replace(posterior, distribution=pooled)

    def by_chain(values: Any) -> np.ndarray:
        result = np.asarray(values)
        return result.reshape(*draws.shape[:2], *result.shape[1:])

    names = posterior.problem.latents.names
    groups = {
        "posterior": {name: by_chain(chosen.values(name)) for name in names},
        "observed_data": {OBSERVED: np.asarray(posterior.problem.observed)},
    }
    if predictive:
        result = quantity_draws(chosen, observation_draws, num_draws=pooled.num_draws, seed=seed)
        groups |= {group: {OBSERVED: by_chain(own)} for group, own in result.items()}
    if is_sampled:
        groups["sample_stats"] = {
            name: np.asarray(posterior.history[ours])
            for ours, name in SAMPLER_STATISTICS.items()
            if ours in posterior.history
        }
    return convert(arviz(), groups)


def convert(library: Any, groups: dict[str, dict[str, np.ndarray]]) -> Any:
    """Version 1 takes one dictionary of groups, its predecessors an argument for each."""
    if "posterior" in inspect.signature(library.from_dict).parameters:
        return library.from_dict(**groups)
    return library.from_dict(groups)


def arviz() -> Any:
    """ArviZ itself, which is an optional dependency and announces its future when imported."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return import_module("arviz")
    except ImportError:
        raise RieszError(
            "to_arviz needs ArviZ, which is not installed: pip install '.[arviz]'."
        ) from None
