"""A problem as if some of its observations had not been made, for fits without a block."""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree

from riesz.observe.effects import WithEffects
from riesz.observe.likelihood import (
    AbstractLikelihood,
    Censored,
    Gaussian,
    Scale,
    StudentT,
    scale_at,
)
from riesz.problem.problem import InverseProblem

UNSEEN = 1e6
"""The noise of a left-out observation, in spreads of the data: it tells nothing. So all blocks
share the programs of the whole."""


class Unseen(eqx.Module):
    """A scale of noise where some observations are left out: theirs is fixed, and vast."""

    scale: Scale
    left: Bool[Array, " sensor"]
    vast: Float[Array, ""]

    def __call__(self, z: PyTree) -> Float[Array, " sensor"]:
        return jnp.where(self.left, self.vast, scale_at(self.scale, z).astype(self.vast.dtype))


def without(problem: InverseProblem, left: Bool[np.ndarray, " sensor"]) -> InverseProblem | None:
    """The problem as if some observations had not been made; None where noise has no such form."""
    observed = np.asarray(problem.observed)
    vast = UNSEEN * max(float(observed.std()), float(np.abs(observed).max()) * 1e-3, 1e-12)
    result = blind(problem.likelihood, left, vast)
    return None if result is None else dataclasses.replace(problem, likelihood=result)


def blind(
    likelihood: AbstractLikelihood, left: Bool[np.ndarray, " sensor"], vast: float
) -> AbstractLikelihood | None:
    if isinstance(likelihood, WithEffects):
        base = blind(likelihood.base, left, vast)
        return None if base is None else eqx.tree_at(lambda own: own.base, likelihood, base)
    if not isinstance(likelihood, Gaussian | StudentT | Censored):
        return None
    dtype = jnp.result_type(float)
    scale = Unseen(likelihood.sd, jnp.asarray(left), jnp.asarray(vast, dtype))
    return dataclasses.replace(likelihood, sd=scale)
