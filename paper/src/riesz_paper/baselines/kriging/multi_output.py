r"""Several quantities at the same places as one Gaussian field of many outputs.

The primary is known at the training places; secondaries there and, when predicting, at the places
to predict as well, where the primary is conditioned on them too. Each output is standardised and
has a mean that is an unknown constant. Parameters maximise the restricted likelihood at the
training places times weak normal priors around the initial values.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float

from riesz.method.training import minimise
from riesz_paper.baselines.kriging.unbiased import best_unbiased, restricted_cost
from riesz_paper.baselines.standard import Standard, standard_of
from riesz_paper.regression.covariates import Covariates, check_same_columns, check_target
from riesz_paper.regression.effects import PRIOR_SPREAD
from riesz_paper.regression.gaussian import jittered
from riesz_paper.regression.method import Draws, Method, Values

JITTER = 1e-6
MAX_STEPS = 60

Parameters = Mapping[str, Float[Array, "..."]]
Points = Float[Array, "place 2"]
Measured = Float[Array, "place output"]  # the primary is the first output
Blocks = Float[Array, "output output place place"]


class AbstractOutputs(eqx.Module):
    """A Gaussian model of outputs that are measured at the same places."""

    @abstractmethod
    def initial(self, points: Points, measured: Measured) -> Parameters:
        """Parameters to start from: the centres of their priors."""

    @abstractmethod
    def covariance(self, parameters: Parameters, points: Points) -> Blocks:
        """Between all outputs at all places as they are measured, noise included."""


@dataclass(frozen=True, eq=False)
class MultiOutput:
    """A trained model with its measurements."""

    outputs: AbstractOutputs
    parameters: Parameters
    training: Covariates
    measured: Measured
    standards: tuple[Standard, ...]

    def __call__(self, at: Covariates) -> Draws:
        """Draws of the primary; the secondaries at all these places act together."""
        check_same_columns(self.training, at)
        columns = [at.numbers[name] for name in self.training.numbers]
        moments = primary_moments(
            self.outputs,
            self.parameters,
            jnp.asarray(np.concatenate([self.training.points, at.points])),
            self.measured,
            standardised(columns, self.standards[1:], len(at)),
        )
        return self.standards[0].draws(*moments)


def multi_output(outputs: AbstractOutputs) -> Method:
    """The method that fits a model of many outputs; categories are not looked at."""

    def train(training: Covariates, target: Values, *, seed: int) -> MultiOutput:
        check_target(training, target)
        known = Covariates(training.points, training.numbers, {})
        columns = [target, *known.numbers.values()]
        standards = tuple(standard_of(column) for column in columns)
        measured = standardised(columns, standards, len(known))
        points = jnp.asarray(known.points)
        centre = outputs.initial(points, measured)
        start = centre if seed == 0 else jittered(centre, jr.key(seed))
        found = minimise(start, cost, centre, outputs, points, measured, max_steps=MAX_STEPS)
        return MultiOutput(outputs, found, known, measured, standards)

    return train


def standardised(columns: list[Values], standards: tuple[Standard, ...], length: int) -> Measured:
    scaled = [s.scaled(column) for s, column in zip(standards, columns, strict=True)]
    return jnp.stack(scaled, axis=1) if scaled else jnp.zeros((length, 0))


@eqx.filter_jit
@eqx.filter_value_and_grad
def cost(
    parameters: Parameters,
    centre: Parameters,
    outputs: AbstractOutputs,
    points: Points,
    measured: Measured,
):
    """The negative log of restricted likelihood and priors, up to a constant."""
    covariance = as_matrix(outputs.covariance(parameters, points))
    misfit = restricted_cost(covariance, means_of(*measured.shape), measured.T.reshape(-1))
    away = jax.tree.map(lambda a, b: jnp.sum(((a - b) / PRIOR_SPREAD) ** 2), parameters, centre)
    return misfit + 0.5 * sum(jax.tree.leaves(away))


@eqx.filter_jit
def primary_moments(
    outputs: AbstractOutputs,
    parameters: Parameters,
    points: Points,
    training: Float[Array, "training output"],
    secondaries: Float[Array, "new secondary"],
) -> tuple[Float[Array, " new"], Float[Array, " new"]]:
    """Moments of the primary at the last of the points, where only secondaries are known."""
    (num_training, num_outputs), num_places = training.shape, len(points)
    covariance = as_matrix(outputs.covariance(parameters, points))
    means = means_of(num_places, num_outputs)
    rows = np.arange(num_outputs * num_places)
    unknown = rows[num_training:num_places]
    known = np.delete(rows, unknown)
    of_secondaries = jnp.concatenate([training[:, 1:], secondaries])
    return best_unbiased(
        covariance[np.ix_(known, known)],
        means[known],
        jnp.concatenate([training[:, 0], of_secondaries.T.reshape(-1)]),
        covariance[np.ix_(known, unknown)],
        means[unknown],
        jnp.diag(covariance)[unknown],
    )


def as_matrix(blocks: Blocks) -> Float[Array, "row row"]:
    """All outputs at all places in one row, place after place within output after output."""
    size = blocks.shape[0] * blocks.shape[2]
    return blocks.transpose(0, 2, 1, 3).reshape(size, size) + JITTER * jnp.eye(size)


def means_of(num_places: int, num_outputs: int) -> Float[Array, "row output"]:
    """Which of the constants is the mean of each row."""
    return jnp.repeat(jnp.eye(num_outputs), num_places, axis=0)
