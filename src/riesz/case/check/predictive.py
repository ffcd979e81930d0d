"""What the priors of a problem expect at the observations, by exact solves of some draws."""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float
from matplotlib.figure import Figure

from riesz.case.file.problem import Case
from riesz.plot.fields import draw_field
from riesz.plot.figure import new_figure
from riesz.problem.problem import Coordinates, InverseProblem

NUM_DRAWS = 24

WIDE = 30.0
"""Predictions that spread so many times as far as the data say next to nothing."""

NUM_MAPS = 3


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
    states, predicted, noise = (np.asarray(part) for part in solve_draws(problem, draws))
    problem.check_solved(draws, states)
    observed = np.asarray(problem.observed)
    slack = 2 * np.sqrt(np.mean(noise**2, axis=0))
    above = observed > predicted.max(axis=0) + slack
    below = observed < predicted.min(axis=0) - slack
    # A limit is met by all that lies below it.
    return PriorPredictive(states, predicted, observed, (above & ~problem.censored) | below)


@eqx.filter_jit
def solve_draws(
    problem: InverseProblem, draws: Float[Array, "draw coordinate"]
) -> tuple[Float[Array, "draw node"], Float[Array, "draw sensor"], Float[Array, "draw sensor"]]:
    def one(coordinates: Coordinates):
        state, z = problem.state(coordinates), problem.z(coordinates)
        predicted, likelihood = problem.predict(state, z), problem.likelihood
        return state, likelihood.location(predicted, z), likelihood.noise_sd(predicted, z)

    return jax.lax.map(one, draws)


def prior_predictive_figure(case: Case, predictive: PriorPredictive) -> Figure:
    """Maps of a few states that the priors allow, and the data on the range of all draws."""
    mesh = case.problem.forward.space.mesh
    points = case.problem.observations.points
    figure, axes = new_figure(NUM_MAPS + 1)
    for number, (own, state) in enumerate(zip(axes[:-1], predictive.states, strict=False), start=1):
        draw_field(own, mesh, state, label=f"draw {number} of the prior")
        own.plot(*points.T, ".", color="black", markersize=2)
        own.locator_params(nbins=4)
    order = np.argsort(predictive.observed)
    place = np.arange(len(order))
    low, middle, high = np.quantile(predictive.predicted[:, order], (0.025, 0.5, 0.975), axis=0)
    last = axes[-1]
    last.fill_between(place, low, high, color="tab:blue", alpha=0.3, label="95 % of the draws")
    last.plot(place, middle, color="tab:blue", linewidth=0.8, label="their median")
    last.plot(place, predictive.observed[order], ".", color="black", markersize=3, label="observed")
    outside = predictive.outside[order]
    last.plot(
        place[outside],
        predictive.observed[order][outside],
        "x",
        color="tab:red",
        label="outside of all",
    )
    unit = "" if case.unit is None else f" ({case.unit})"
    logged = "log of the " if case.transform == "log" else ""
    last.set(xlabel="observation, by its value", ylabel=f"{logged}value{unit}")
    last.legend(fontsize="small")
    return figure
