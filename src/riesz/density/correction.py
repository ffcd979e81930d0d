"""Exact solves beside an approximate density: how far it is off, and weights that make up for it.

Some draws of chains by the approximation are solved for exactly, weighed by the ratio of both
densities, and drawn again by their weights, so that the posterior is the exact one as far as the
tail of the weights vouches for it. (Pareto-smoothed importance sampling, Vehtari et al. 2024.)
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from riesz.arrays import evenly_spaced
from riesz.errors import EngineError
from riesz.method.base import Inferred, TargetDensity
from riesz.method.mcmc.diagnostics import sampler_warnings
from riesz.posterior.checks import rms_of
from riesz.posterior.density import AbstractRecordDensity
from riesz.posterior.family import Draws, EmpiricalDraws
from riesz.posterior.importance import weight_draws
from riesz.posterior.posterior import AT_ONCE, ExactStates
from riesz.problem.problem import InverseProblem

FEWEST = 4
"""Exact states without which nothing can be told."""


class SolvedStates(NamedTuple):
    """Exact states at some places, NaN where there is none."""

    points: Float[np.ndarray, "draw coordinate"]
    states: Float[np.ndarray, "draw node"]

    def finite(self) -> "SolvedStates":
        """Without places where there is none."""
        good = np.flatnonzero(np.isfinite(self.states).all(axis=1))
        if len(good) < FEWEST:
            count = f"{len(good)} of {len(self.points)}"
            raise EngineError(
                f"the equation could be solved exactly at {count} draws. Look "
                "for priors that allow impossible coefficients."
            )
        return SolvedStates(self.points[good], self.states[good])


def solve_at(problem: InverseProblem, states: ExactStates, places: Draws) -> SolvedStates:
    return SolvedStates(np.asarray(places), states.in_parts(problem, places))


def join_states(one: SolvedStates, other: SolvedStates) -> SolvedStates:
    return SolvedStates(*(np.concatenate(pair) for pair in zip(one, other, strict=True)))


class DensityErrors(NamedTuple):
    """An approximate density beside exact states, for each draw."""

    gaps: Float[np.ndarray, "draw sensor"]  # in standard deviations of the noise
    log_ratios: Float[np.ndarray, " draw"]  # exact less approximate log-density

    def size(self) -> float:
        """The root mean square of the gaps; infinite where there is none."""
        gap = rms_of(self.gaps.ravel())
        return gap if np.isfinite(gap) else np.inf


def density_errors(density: AbstractRecordDensity, exact: SolvedStates) -> DensityErrors:
    size = len(exact.points)
    count = -(-size // AT_ONCE) * AT_ONCE  # so that few programs are made
    places, states = (np.resize(one, (count, one.shape[1])) for one in exact)
    gaps, ratios = predict_both(density, jnp.asarray(places), jnp.asarray(states))
    return DensityErrors(np.asarray(gaps)[:size], np.asarray(ratios)[:size])


@eqx.filter_jit
def predict_both(
    density: AbstractRecordDensity, places: Draws, states: Float[Array, "draw node"]
) -> tuple[Float[Array, "draw sensor"], Float[Array, " draw"]]:
    problem = density.problem

    def one(pair):
        coordinates, state = pair
        z = problem.z(coordinates)
        gap = density.record(coordinates) - problem.predict(state, z)
        exact = problem.latents.log_prior(coordinates) + problem.log_likelihood(coordinates, state)
        return problem.whiten(gap, z), exact - density(coordinates)

    return jax.lax.map(one, (places, states))


def correct_draws(
    problem: InverseProblem,
    target: TargetDensity,
    result: Inferred,
    states: ExactStates,
    num_exact: int,
    key: PRNGKeyArray,
) -> Inferred:
    """Draws of an approximate density, drawn again by the weights that exact solves give them.

    Where the equation could not be solved there is no exact posterior, and no weight; and a chain
    that is where the exact posterior is not loses its draws.
    """
    density, by_chain = target.density, result.distribution
    assert isinstance(density, AbstractRecordDensity)
    assert isinstance(by_chain, EmpiricalDraws)
    num_chains, num_draws, _ = by_chain.by_chain.shape
    chosen = evenly_spaced(num_draws, -(-num_exact // num_chains))
    history = {n: rows[:, chosen] if rows.ndim > 1 else rows for n, rows in result.history.items()}
    draws = by_chain.by_chain[:, chosen]
    exact = solve_at(problem, states, flatten_chains(draws))
    logs = density_errors(density, exact).log_ratios
    if not np.isfinite(logs).any():
        raise EngineError(
            "the equation could be solved exactly at none of the draws of an approximate density. "
            "Look for priors that allow impossible coefficients."
        )
    sample = weight_draws(exact.points, logs)
    resampled = sample.resample(logs.size, float(jr.uniform(key))).reshape(draws.shape)
    if "effective_draws" in history:
        fewer = jnp.minimum(history["effective_draws"], sample.effective_draws)
        history["effective_draws"] = fewer
    codes = {note.code for note in result.notes}
    more = [n for n in sampler_warnings(history, target.names) if n.code not in codes]
    history |= {
        "k_hat": jnp.asarray(sample.k_hat),
        "log_ratio": jnp.asarray(logs.reshape(draws.shape[:2])),
    }
    notes = (*result.notes, *more, *sample.notes("reduced_k_hat"))
    return Inferred(EmpiricalDraws(jnp.asarray(resampled)), history, notes)


def flatten_chains(
    by_chain: Float[Array, "chain draw coordinate"],
) -> Float[Array, "every coordinate"]:
    return by_chain.reshape(-1, by_chain.shape[-1])
