r"""What `amortise` returns: posteriors of new data sets at the cost of one pass of a network.

The encoder: from the observations of one data set to a Gaussian $q(z \mid y)$, at once.

A residual network reads observations of size one and gives a mean $m$ and a lower triangular $R$
with a positive diagonal; $q$ is the Gaussian in which $R\,(z - m)$ is standard normal. With the
inverse factor of the covariance instead of the factor itself, the log-density needs no solve, and
it is concave in $R$.
"""

import dataclasses
import warnings
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from riesz.engines.amortise.simulate import DataSets, Simulator
from riesz.errors import RieszError
from riesz.observe.given import as_numbers
from riesz.penalty.norm import solve_positive
from riesz.posterior.family import FullRank, standard_log_density
from riesz.posterior.posterior import Posterior
from riesz.problem.problem import InverseProblem

Examples = Float[Array, "example sensor"]

Observed = Float[Array, " sensor"]
Coordinates = Float[Array, " coordinate"]

ENGINE = "amortise"


class Encoded(eqx.Module):
    """A Gaussian by its mean and the inverse factor of its covariance."""

    mean: Coordinates
    log_diagonal: Coordinates
    below: Float[Array, "coordinate coordinate"]  # strictly below the diagonal, zero elsewhere

    def inverse_factor(self) -> Float[Array, "coordinate coordinate"]:
        return self.below + jnp.diag(jnp.exp(self.log_diagonal))

    def factor(self) -> Float[Array, "coordinate coordinate"]:
        """The lower triangular factor of the covariance."""
        # Elimination without pivots is right for triangular matrices too, and safe in batches.
        identity = jnp.eye(len(self.mean), dtype=self.mean.dtype)
        return solve_positive(self.inverse_factor(), identity)

    def log_prob(self, coordinates: Coordinates) -> Float[Array, ""]:
        white = self.inverse_factor() @ (coordinates - self.mean)
        return standard_log_density(white) + jnp.sum(self.log_diagonal)

    def family(self) -> FullRank:
        """The same Gaussian as engines give it."""
        return FullRank(self.mean, -self.log_diagonal, jnp.tril(self.factor(), -1))


class ResidualNetwork(eqx.Module):
    """Layers that add to what they read, with a linear map from inputs to outputs beside them."""

    first: Float[Array, "input hidden"]
    inner: Float[Array, "layer hidden hidden"]
    biases: Float[Array, "layer_plus_one hidden"]
    readout: Float[Array, "hidden output"]
    direct: Float[Array, "input output"]
    offset: Float[Array, " output"]

    def __call__(self, inputs: Float[Array, " input"]) -> Float[Array, " output"]:
        hidden = jax.nn.silu(inputs @ self.first + self.biases[0])
        for weight, bias in zip(self.inner, self.biases[1:], strict=True):
            hidden = hidden + jax.nn.silu(hidden @ weight + bias)
        return hidden @ self.readout + inputs @ self.direct + self.offset


class Encoder(eqx.Module):
    """A Gaussian for each data set."""

    network: ResidualNetwork
    centre: Observed  # of the observations, as the model makes them up
    scale: Observed

    def __call__(self, observed: Observed) -> Encoded:
        return as_encoded(self.network((observed - self.centre) / self.scale))


def num_outputs(num_coordinates: int) -> int:
    """A mean and a triangle."""
    return num_coordinates + num_coordinates * (num_coordinates + 1) // 2


def as_encoded(outputs: Float[Array, " output"]) -> Encoded:
    size = int((np.sqrt(9 + 8 * len(outputs)) - 3) / 2 + 0.5)
    below = jnp.zeros((size, size), outputs.dtype)
    return Encoded(
        mean=outputs[:size],
        log_diagonal=outputs[size : 2 * size],
        below=below.at[np.tril_indices(size, -1)].set(outputs[2 * size :]),
    )


def encoder(
    examples: Examples, num_coordinates: int, key: PRNGKeyArray, *, width: int, num_layers: int
) -> Encoder:
    """The prior itself for all data, to start from; `examples` tell the size of observations."""
    dtype, num_sensors = examples.dtype, examples.shape[1]
    first_key, inner_key, bias_key = jr.split(key, 3)
    size = num_outputs(num_coordinates)
    network = ResidualNetwork(
        first=jr.normal(first_key, (num_sensors, width), dtype) / num_sensors**0.5,
        inner=jr.normal(inner_key, (num_layers - 1, width, width), dtype) / width**0.5,
        biases=0.5 * jr.normal(bias_key, (num_layers, width), dtype),
        readout=jnp.zeros((width, size), dtype),
        direct=jnp.zeros((num_sensors, size), dtype),
        offset=jnp.zeros(size, dtype),
    )
    return Encoder(network, jnp.mean(examples, axis=0), jnp.std(examples, axis=0))


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
            observations=dataclasses.replace(self.problem.observations, values=values),
        )
        notes = doubts(fit, float(self.usual_fit))
        q = jax.tree.map(jnp.asarray, q)
        states = self.simulator.states()
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
