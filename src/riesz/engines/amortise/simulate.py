"""Data sets made up by a surrogate and a noise model: what an encoder is trained on."""

import equinox as eqx
import jax
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from riesz.engines.emulate.start import at_sensors
from riesz.errors import RieszError
from riesz.posterior.family import Draws
from riesz.prediction.predict import measured
from riesz.problem.problem import InverseProblem
from riesz.surrogate.surrogate import Surrogate

Coordinates = Float[Array, " coordinate"]
Observed = Float[Array, " sensor"]
DataSets = Float[Array, "data sensor"]


def check_simulable(problem: InverseProblem) -> None:
    """Raise where data made up from the prior would not be like the observations."""
    num_censored = int(problem.censored.sum())
    if num_censored:
        raise RieszError(
            f"{num_censored} of {len(problem.observed)} observations are only known to lie below "
            "a limit, and below which limits the others would have been is not known: no data sets "
            "can be made up like these. Leave them out for that, or replace them by values."
        )


class Simulator(eqx.Module):
    """The joint distribution of unknowns and observations; those of the problem are not read."""

    problem: InverseProblem
    surrogate: Surrogate

    def pairs(self, key: PRNGKeyArray, num_data: int) -> tuple[Draws, DataSets]:
        """Unknowns from the prior, and observations of their states with noise."""
        draw_key, noise_key = jr.split(key)
        size, dtype = self.problem.num_coordinates, self.problem.forward.dtype
        truths = jr.normal(draw_key, (num_data, size), dtype)
        return truths, jax.vmap(self.observed)(jr.split(noise_key, num_data), truths)

    def observed(self, key: PRNGKeyArray, coordinates: Coordinates) -> Observed:
        values = at_sensors(self.problem, self.surrogate, coordinates)
        return measured(key, self.problem, values, self.problem.z(coordinates))

    def log_likelihood(self, observed: Observed, coordinates: Coordinates) -> Float[Array, ""]:
        """The log-density of a data set, given the unknowns."""
        values = at_sensors(self.problem, self.surrogate, coordinates)
        return self.problem.likelihood.log_prob(observed, values, self.problem.z(coordinates))
