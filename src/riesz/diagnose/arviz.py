"""Posteriors for ArviZ: one adapter for its two generations."""

import inspect
import warnings
from importlib import import_module
from typing import Any

import jax
import jax.random as jr
import numpy as np

from riesz.errors import RieszError
from riesz.posterior.family import EmpiricalDraws
from riesz.posterior.posterior import NUM_DRAWS, Posterior

SAMPLER_STATISTICS = {
    "log_density": "lp",
    "diverging": "diverging",
    "num_steps": "n_steps",
    "accept_probability": "acceptance_rate",
    "step_size": "step_size",
}
"""Ours, and what ArviZ calls them."""


def to_arviz(posterior: Posterior, *, num_draws: int = NUM_DRAWS, seed: int = 0) -> Any:
    """The unknowns as ArviZ reads them: `InferenceData`, or a `DataTree` from version 1 on.

    A sampler's draws are kept by chain, with its statistics; of any other distribution so many
    draws are taken. Fields are given by their weights.
    """
    drawn = posterior.distribution
    is_sampled = isinstance(drawn, EmpiricalDraws)
    draws = drawn.by_chain if is_sampled else posterior.sample(jr.key(seed), num_draws)[None]
    unknowns = jax.vmap(jax.vmap(posterior.problem.z))(draws)
    groups = {
        "posterior": {name: np.asarray(unknowns[name]) for name in posterior.problem.latents.names},
        "observed_data": {"observed": np.asarray(posterior.problem.observed)},
    }
    if is_sampled:
        groups["sample_stats"] = {
            name: np.asarray(posterior.history[ours])
            for ours, name in SAMPLER_STATISTICS.items()
            if ours in posterior.history
        }
    return converted(arviz(), groups)


def converted(library: Any, groups: dict[str, dict[str, np.ndarray]]) -> Any:
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
