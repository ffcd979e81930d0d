"""Blocks of observations left out of a model's data, in the way that suits the model.

Where all but few unknowns are integrated out exactly, blocks are left out by closed forms, and the
few are weighed, or found again in seconds. Other posteriors are weighed draw by draw; a block that
holds the posterior where it is cannot be left out so, and takes another fit.
"""

import dataclasses
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from riesz.comparison.blocks import Block
from riesz.comparison.by_draws import draw_logs, elpd_by_draws, without
from riesz.comparison.held_out import Again, HeldOut, by_root, leave_out, mixture_elpd, solve_data
from riesz.comparison.rivals import LikelyValues, likely_values, of_rows
from riesz.engines.base import AbstractEngine
from riesz.engines.conditional.engine import Conditional
from riesz.engines.conditional.host import DataModel, data_model, rough_mode
from riesz.engines.conditional.points import point_map_at_sensors
from riesz.engines.conditional.systems import AbstractDataSystem, Groups, LeftOut
from riesz.engines.table import ENGINES, engine_of
from riesz.errors import RieszError
from riesz.inference.fit import engine_seconds, fit
from riesz.posterior.family import EmpiricalDraws
from riesz.posterior.posterior import Posterior
from riesz.prediction.sampling import quantity_draws
from riesz.problem.linearity import Parts, linear_parts
from riesz.problem.problem import InverseProblem

MOST_VALUES, NUM_DRAWS = 100, 2000
"""Of what is not integrated out, and draws of other posteriors."""

LARGEST_SHARED = 5e7
"""Numbers in matrices of noise that observations share, for all draws."""

BUDGET = 120.0
"""Seconds that refits may take together, roughly, where nobody asked for them."""

Others = Float[np.ndarray, "value other"]
PerOther = Float[np.ndarray, " other"]
PerSensor = Float[np.ndarray, " sensor"]


class LeaveOut(NamedTuple):
    """Which observations are left out together, and whether models may be fitted again."""

    num_observed: int
    block: Block | None
    refit: bool | None
    seed: int

    @property
    def singles(self) -> Groups:
        return list(np.arange(self.num_observed)[:, None])

    @property
    def blocks(self) -> Groups | None:
        if self.block is None:
            return None
        return [np.flatnonzero(self.block == one) for one in range(int(self.block.max()) + 1)]

    @property
    def divisions(self) -> list[Groups]:
        return [self.singles, *([] if self.blocks is None else [self.blocks])]


Pair = tuple[HeldOut, HeldOut | None]
"""Each observation left out by itself, and by blocks."""

Refits = Callable[[int], Posterior]
"""A fit without a block, given by its number."""


def elpd_by_model(
    model: DataModel, observed: PerSensor, how: LeaveOut, mode: PerOther | None = None
) -> Pair:
    """For data that are normal given few scales, whose most probable values may be known."""
    model = model.with_cache()  # what weighs a value of the scales leaves blocks out by it, too
    likely = likely_values(model, mode=mode, seed=how.seed)
    again = None if how.refit is False else partial(refit_scales, model, likely.mean, how)
    return by_mixture(map(model.system, likely.values), observed, likely.weights, how, again)


def elpd_by_problem(problem: InverseProblem, how: LeaveOut) -> Pair | None:
    """Before any fit, by closed forms; None where unknowns do more than scale or blur."""
    model, mode = model_of_data(problem), rough_mode(problem)
    if model is None or mode is None:
        return None
    return elpd_by_model(model, np.asarray(problem.observed, float), how, mode)


def model_of_data(problem: InverseProblem) -> DataModel | None:
    return data_model(problem, linear_parts(problem), point_map_at_sensors(problem))


def by_mixture(
    every: Iterable[AbstractDataSystem],
    observed: PerSensor,
    shares: Float[np.ndarray, " value"],
    how: LeaveOut,
    again: Again | None,
) -> Pair:
    result = leave_out(every, how.divisions)
    alone = mixture_elpd(observed, result[0], shares, how.singles, how.seed)
    rest = (shares, how.blocks or [], how.seed, again)
    return alone, None if how.blocks is None else mixture_elpd(observed, result[1], *rest)


def refit_scales(
    model: DataModel, start: PerOther, how: LeaveOut, number: int
) -> tuple[LeftOut, Float[np.ndarray, " value"]]:
    """What the others say of a block, at scales and noise that they alone leave."""
    assert how.blocks is not None
    rows = how.blocks[number]
    rest = np.setdiff1d(np.arange(len(model.misfit)), rows)
    likely = likely_values(of_rows(model, rest), start=start, seed=how.seed)
    return leave_out(map(model.system, likely.values), [[rows]])[0], likely.weights


def elpd_by(posterior: Posterior, how: LeaveOut, engine: AbstractEngine | None = None) -> Pair:
    """For a posterior, by closed forms as far as they go; refits are by the engine."""
    if engine is None and posterior.engine in ENGINES and posterior.engine != "amortise":
        engine = engine_of(posterior.engine)  # with default settings
    again = refits(posterior, how, engine)
    if posterior.engine == Conditional.name and isinstance(posterior.distribution, EmpiricalDraws):
        return elpd_by_marginals(posterior, how, again)
    if not posterior.problem.likelihood.is_independent:
        return elpd_of_shared_noise(posterior, how)
    drawn = draw_logs(posterior, NUM_DRAWS, how.seed)
    alone = elpd_by_draws(drawn, how.singles, how.seed)
    rest = (how.blocks or [], how.seed, again)
    return alone, None if how.blocks is None else elpd_by_draws(drawn, *rest)


def elpd_by_marginals(posterior: Posterior, how: LeaveOut, fits: Refits | None) -> Pair:
    problem, parts = posterior.problem, linear_parts(posterior.problem)
    # What holds of the data before a fit holds after it, by the same numbers.
    if (result := elpd_by_problem(problem, how)) is not None:
        return result
    at = point_map_at_sensors(problem)
    observed, known = (
        np.asarray(problem.observed, float),
        hyper_values(posterior, parts, how.seed),
    )

    def solve(values: Others) -> Iterable[AbstractDataSystem]:
        return (solve_data(problem, parts, own, at) for own in values)

    def refit_posterior(number: int) -> tuple[LeftOut, Float[np.ndarray, " value"]]:
        assert fits is not None
        assert how.blocks is not None
        again = hyper_values(fits(number), parts, how.seed)
        return leave_out(solve(again.values), [[how.blocks[number]]])[0], again.weights

    again = None if fits is None else refit_posterior
    return by_mixture(solve(known.values), observed, known.weights, how, again)


def hyper_values(posterior: Posterior, parts: Parts, seed: int) -> LikelyValues:
    """Of unknowns that are not integrated out, each once, and how much each counts."""
    assert isinstance(posterior.distribution, EmpiricalDraws)
    every = np.asarray(posterior.distribution.all())[:, np.asarray(parts.others)]
    others, counts = np.unique(every, axis=0, return_counts=True)
    if len(others) > MOST_VALUES:
        chosen = np.random.default_rng(seed).choice(len(others), MOST_VALUES, replace=False)
        others, counts = others[chosen], counts[chosen]
    return LikelyValues(others, counts / counts.sum())


def elpd_of_shared_noise(posterior: Posterior, how: LeaveOut) -> Pair:
    """Given a draw, what observations have in common with those of a block tells of it."""
    problem = posterior.problem
    if not problem.likelihood.is_normal:
        raise RieszError(
            "observations cannot be left out where they share noise that is not normal: "
            f"{problem.likelihood.describe()}."
        )
    count = int(np.clip(LARGEST_SHARED / len(problem.observed) ** 2, 20, 200))
    drawn = quantity_draws(posterior, normal_given, num_draws=count, seed=how.seed)
    kept = ~np.isnan(drawn["misfit"]).any(axis=1)
    each = zip(drawn["misfit"][kept], drawn["root"][kept], strict=True)
    every = (by_root(misfit, root) for misfit, root in each)
    shares = np.full(int(kept.sum()), 1 / kept.sum())
    return by_mixture(every, np.asarray(problem.observed, float), shares, how, None)


def normal_given(
    key: PRNGKeyArray, problem: InverseProblem, state: Float[Array, " _"], z: PyTree
) -> dict[str, Float[Array, "..."]]:
    """Given one draw: observed less expected, and a root of the noise's covariance."""
    predicted = problem.predict(state, z)
    factor = problem.likelihood.factor(predicted, z)
    root = factor.colour(jnp.eye(len(predicted), dtype=predicted.dtype))
    return {"misfit": problem.observed - problem.likelihood.mean(predicted, z), "root": root}


def refits(posterior: Posterior, how: LeaveOut, engine: AbstractEngine | None) -> Refits | None:
    """Fits without each block, where they are wanted and possible."""
    problem = posterior.problem
    if how.blocks is None or how.refit is False or engine is None:
        return None
    blocks = how.blocks
    seconds = engine.compiling + len(blocks) * (engine_seconds(engine, problem) - engine.compiling)
    if how.refit is None and seconds > BUDGET:
        return None
    if without(problem, np.zeros(len(problem.observed), bool)) is None:
        return None

    def refit_posterior(number: int) -> Posterior:
        left = np.zeros(len(problem.observed), bool)
        left[blocks[number]] = True
        blind = without(problem, left)
        assert blind is not None
        again = engine.with_settings(start=posterior) if engine.name == Conditional.name else engine
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            result = fit(blind, again, seed=how.seed, progress=False)
        return dataclasses.replace(result, problem=problem)

    return refit_posterior
