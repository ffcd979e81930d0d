"""The surrogate of GP-D and GP-DT, trained on the measurements alone: what physics must beat."""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from riesz.method.training import History
from riesz_paper.baselines.gp_physics.settings import PAPER, GpPhysicsSettings
from riesz_paper.baselines.gp_physics.spatial_surrogate import (
    Places,
    SpatialSurrogate,
    Units,
    spatial_surrogate,
    units_of,
)
from riesz_paper.baselines.gp_physics.training import Task, Trained, fitted, key_for
from riesz_paper.regression.covariates import Covariates, check_target
from riesz_paper.regression.method import Draws, Method, Values


@dataclass(frozen=True, eq=False)
class SpatialNetworkPredictor:
    """A trained surrogate; `history` has the misfit at each epoch."""

    surrogate: SpatialSurrogate
    units: Units
    history: History

    def __call__(self, at: Covariates) -> Draws:
        return surrogate_draws(self.surrogate, self.units, at)


def surrogate_draws(surrogate: SpatialSurrogate, units: Units, at: Covariates) -> Draws:
    """Measurements: normal about the surrogate, with its noise."""
    mean = means(surrogate, jnp.asarray(units.places(at.points)))
    return units.values.draws(mean, jnp.full(mean.shape, surrogate.noise**2))


@eqx.filter_jit
def means(surrogate: SpatialSurrogate, places: Places) -> Float[Array, " place"]:
    return jax.vmap(surrogate.mean)(places)


def spatial_network(settings: GpPhysicsSettings = PAPER) -> Method:
    """Of the settings, epochs and learning rate count."""

    def train(training: Covariates, target: Values, *, seed: int) -> SpatialNetworkPredictor:
        check_target(training, target)
        units = units_of(training, target)
        start = Trained(spatial_surrogate(key_for(seed, "surrogate")))
        task = Task(
            places=jnp.asarray(units.places(training.points)),
            target=units.values.scaled(np.asarray(target)),
            physics=None,
            settings=settings,
        )
        trained, history = fitted(start, task, key_for(seed, "steps"))
        return SpatialNetworkPredictor(trained.surrogate, units, history)

    return train
