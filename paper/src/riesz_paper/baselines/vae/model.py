r"""A conditional variational autoencoder: the paper's model of the Swiss Jura without physics.

The encoder reads place and secondaries, $q(z \mid x, s)$, a Gaussian with any covariance; the
decoder gives mean and scale of the primary, $p(y \mid x, z)$ (supplement D of Tait & Damoulas,
2020). Predictions draw $z$ from $q$ and $y$ from the decoder.
"""

import dataclasses
from dataclasses import dataclass
from functools import partial
from typing import Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from riesz.method.training import History
from riesz.penalty.penalty import AbstractPenalty
from riesz_paper.baselines.vae.columns import Columns, Places, columns_of
from riesz_paper.baselines.vae.networks import Networks, fresh_networks
from riesz_paper.baselines.vae.settings import MODERN, PAPER, VaeSettings
from riesz_paper.baselines.vae.training import AbstractCoefficients, Task, Trained, fitted
from riesz_paper.regression.covariates import Covariates, check_same_columns
from riesz_paper.regression.method import NUM_DRAWS, Draws, Method, Values

__all__ = ["MODERN", "PAPER", "Equation", "VaePredictor", "VaeSettings", "trained_vae", "vae"]


@runtime_checkable
class Equation(Protocol):
    """An equation that the decoder's mean is to satisfy."""

    def penalty(self, places: Places, num_patches: int) -> AbstractPenalty:
        """Its weak form on a mesh around the places."""
        ...

    def coefficients(
        self, key: PRNGKeyArray, num_codes: int, dtype: np.dtype
    ) -> AbstractCoefficients:
        """Networks of its coefficients, to start from."""
        ...


@dataclass(frozen=True, eq=False)
class VaePredictor:
    """A trained autoencoder; `history` has the terms of its objective at each step."""

    trained: Trained
    columns: Columns
    training: Covariates
    seed: int
    history: History

    def __call__(self, at: Covariates) -> Draws:
        """Draws of the quantity as it would be measured, noise included."""
        check_same_columns(self.training, at)
        places, known = jnp.asarray(self.columns.places(at)), jnp.asarray(self.columns.known(at))
        draws = drawn(self.trained.networks, places, known, key_for(self.seed, "prediction"))
        return self.columns.in_units(np.asarray(draws, dtype=float))


def vae(settings: VaeSettings = MODERN) -> Method:
    """The autoencoder alone."""
    return partial(trained_vae, settings=settings, equation=None)


def trained_vae(
    training: Covariates,
    target: Values,
    *,
    seed: int = 0,
    settings: VaeSettings,
    equation: Equation | None,
) -> VaePredictor:
    """Train; an equation changes neither the first networks nor batches nor draws of z.

    An infinite `epsilon` allows any error of the equation, which is then left out.
    """
    columns = columns_of(training, target, logs=settings.logs)
    places, known = columns.places(training), jnp.asarray(columns.known(training))
    networks = fresh_networks(known.shape[1], settings, key_for(seed, "networks"), known.dtype)
    coefficients = penalty = None
    if equation is not None and np.isfinite(settings.epsilon):
        key = key_for(seed, "equation")
        coefficients = equation.coefficients(key, settings.num_codes, known.dtype)
        penalty = equation.penalty(places, settings.num_patches)
    task = Task(
        places=jnp.asarray(places),
        known=known,
        target=jnp.asarray(columns.standardised(target)),
        penalty=penalty,
        penalty_weight=jnp.asarray(0.5 / settings.epsilon**2, known.dtype),
        settings=dataclasses.replace(settings, epsilon=1.0),  # another one compiles nothing new
    )
    start = Trained(networks, coefficients)
    trained, history = fitted(start, task, key_for(seed, "steps"))
    return VaePredictor(trained, columns, training, seed, history)


PURPOSES = ("networks", "steps", "prediction", "equation")


def key_for(seed: int, purpose: str) -> PRNGKeyArray:
    """Keys that no other purpose can change."""
    return jr.fold_in(jr.key(seed), PURPOSES.index(purpose))


@eqx.filter_jit
def drawn(
    networks: Networks,
    places: Float[Array, "place dim"],
    known: Float[Array, "place known"],
    key: PRNGKeyArray,
) -> Float[Array, "draw place"]:
    """Standardised draws: z from q, then the target."""

    def at(one: tuple[Array, Array, Array]) -> Float[Array, " draw"]:
        index, x, known = one
        code_key, noise_key = jr.split(jr.fold_in(key, index))
        codes = networks.encoded(x, known).sample(code_key, NUM_DRAWS)
        same = jnp.broadcast_to(x, (NUM_DRAWS, len(x)))
        return jnp.asarray(networks.observed(same, codes).sample(noise_key))

    return jax.lax.map(at, (jnp.arange(len(places)), places, known)).T
