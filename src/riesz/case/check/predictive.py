"""What the priors of a problem expect at the observations, by exact solves of some draws."""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float

from riesz.case.file.problem import Case
from riesz.problem.problem import Coordinates, InverseProblem

NUM_DRAWS = 24

WIDE = 30.0
"""Predictions that spread so many times as far as the data say next to nothing."""


@dataclass(frozen=True, eq=False)
class PriorPredictive:
    """States of some draws of the prior, and what they predict where there are observations."""

    states: Float[np.ndarray, "draw node"]
    predicted: Float[np.ndarray, "draw sensor"]
    observed: Float[np.ndarray, " sensor"]
    outside: Bool[np.ndarray, " sensor"]  # beyond what any draw predicts, by two noise sd

    def lines(self) -> list[str]:
        """In words, with a warning where the data are not what was expected."""
        low, high = np.quantile(self.predicted, (0.025, 0.975))
        told = [
            f"{len(self.predicted)} draws of the priors predict {low:.4g} .. {high:.4g} (95 %) at "
            f"the observations, which are {self.observed.min():.4g} .. {self.observed.max():.4g}"
        ]
        count = int(self.outside.sum())
        if count:
            told.append(
                f"warning: {count} of {len(self.observed)} observations lie outside of all that "
                "the draws predict there: are units and priors right?"
            )
        if high - low > WIDE * np.ptp(self.observed) > 0:
            told.append(
                f"warning: the priors predict values {(high - low) / np.ptp(self.observed):.0f} "
                "times as far apart as the observations: narrower ones would help"
            )
        return told


def prior_predictive(case: Case, *, seed: int = 0) -> PriorPredictive:
    """Draw the unknowns and solve for the state, some times."""
    problem = case.problem
    size = (NUM_DRAWS, problem.num_coordinates)
    draws = jr.normal(jr.key(seed), size, problem.forward.dtype)
    states, predicted, noise = (np.asarray(part) for part in solved(problem, draws))
    observed = np.asarray(problem.observed)
    slack = 2 * np.sqrt(np.mean(noise**2, axis=0))
    above = observed > predicted.max(axis=0) + slack
    below = observed < predicted.min(axis=0) - slack
    # A limit is met by all that lies below it.
    return PriorPredictive(states, predicted, observed, (above & ~case.censored) | below)


@eqx.filter_jit
def solved(
    problem: InverseProblem, draws: Float[Array, "draw coordinate"]
) -> tuple[Float[Array, "draw node"], Float[Array, "draw sensor"], Float[Array, "draw sensor"]]:
    def one(coordinates: Coordinates):
        state, z = problem.state(coordinates), problem.z(coordinates)
        mean = problem.likelihood.mean(problem.operator @ state, z)
        return state, mean, problem.noise_sd(z)

    return jax.lax.map(one, draws)
