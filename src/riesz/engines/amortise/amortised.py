"""What `amortise` returns: posteriors of new data sets at the cost of one pass of a network."""

import dataclasses
import warnings
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from riesz.engines.amortise.encoder import Encoder
from riesz.engines.amortise.simulate import DataSets, Simulator
from riesz.errors import RieszError
from riesz.observe.observations import Observations, as_numbers
from riesz.posterior.family import FullRank
from riesz.posterior.posterior import Posterior, SurrogateStates
from riesz.problem.problem import InverseProblem

ENGINE = "amortise"


class Amortised(eqx.Module):
    """The posterior of any data set from the same sensors, in milliseconds.

    The observations of the simulator's problem are one example.
    """

    simulator: Simulator
    encoder: Encoder
    usual_fit: Float[Array, ""]  # that hardly any simulated data set falls below
    history: dict[str, Array]
    seed: int = eqx.field(static=True)

    @property
    def problem(self) -> InverseProblem:
        return self.simulator.problem

    def posterior(self, observed: Any) -> Posterior:
        """The posterior of one data set: a value for each sensor, in the order of the problem's."""
        return self.posteriors(as_numbers(observed, "values")[None])[0]

    def posteriors(self, observed: Any) -> tuple[Posterior, ...]:
        """Those of several data sets, one a row."""
        found = self.answered(observed)
        for note in (note for one in found for note in one.notes):
            warnings.warn(note, stacklevel=2)
        return found

    def answered(self, observed: Any) -> tuple[Posterior, ...]:
        """The posteriors, which carry their notes."""
        values = checked(as_numbers(observed, "values"), self.problem.observations.num_sensors)
        seen = jnp.asarray(values, self.problem.forward.dtype)
        found, fits = encoded(self.encoder, self.simulator, seen)
        # Taken apart on the host: slices on the device would be compiled, and take longer.
        found, fits = jax.tree.map(np.asarray, (found, fits))
        parts = [jax.tree.map(lambda leaf, k=k: leaf[k], found) for k in range(len(values))]
        return tuple(map(self.of_data_set, values, parts, fits.tolist()))

    def of_data_set(
        self, values: Float[np.ndarray, " sensor"], q: FullRank, fit: float
    ) -> Posterior:
        problem = dataclasses.replace(
            self.problem,
            observed=jnp.asarray(values, self.problem.forward.dtype),
            observations=Observations(self.problem.observations.points, values),
        )
        states = SurrogateStates(self.simulator.surrogate)
        notes = doubts(fit, float(self.usual_fit))
        q = jax.tree.map(jnp.asarray, q)
        return Posterior(problem, q, states, self.history, ENGINE, self.seed, notes)


@eqx.filter_jit
def encoded(
    encoder: Encoder, simulator: Simulator, observed: DataSets
) -> tuple[FullRank, Float[Array, " data"]]:
    """The posterior of each data set, and the log-likelihood at its mean."""

    def one(seen):
        q = encoder(seen)
        return q.family(), simulator.log_likelihood(seen, q.mean)

    return jax.vmap(one)(observed)


def checked(values: Float[np.ndarray, "..."], num_sensors: int) -> Float[np.ndarray, "data sensor"]:
    if values.ndim != 2 or values.shape[1] != num_sensors:
        raise RieszError(
            f"the values of a data set have shape {values.shape[1:]}, but the encoder was trained "
            f"for {num_sensors} sensors: give one value for each, in their order; for other "
            "sensors, train again."
        )
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        raise RieszError(
            f"{len(bad)} observed values are NaN or infinite, first that of sensor {bad[0][1]} in "
            f"data set {bad[0][0]}: an encoder needs all of them; data with gaps are for another "
            "engine."
        )
    return values


def doubts(fit: float, usual: float) -> tuple[str, ...]:
    """A network answers everything: say so where it was asked what it was not trained for."""
    if fit >= usual:
        return ()
    note = (
        f"these data are unlike those that the encoder was trained on (log-likelihood {fit:.4g}, "
        f"usually above {usual:.4g}): check their units and order, or use another engine."
    )
    return (note,)
