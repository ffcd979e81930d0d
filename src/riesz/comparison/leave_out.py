"""Blocks of observations left out of a model's data, in the way that suits the model.

Where all but few unknowns are integrated out exactly, blocks are left out by closed forms, and the
few are weighed, or found again in seconds. Other posteriors are weighed draw by draw; a block that
holds the posterior where it is cannot be left out so, and takes another fit.
"""

import dataclasses
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree
from numpy.typing import ArrayLike

from riesz.arrays import on_device
from riesz.comparison.blocks import BLOCKS, ONE, Block
from riesz.comparison.rivals import LikelyValues, likely_values, of_rows
from riesz.density.engine import AbstractEngine, Engine
from riesz.density.marginal.host import DataModel, data_model, rough_mode
from riesz.density.marginal.linear import MarginalDensity, hyper_values
from riesz.density.marginal.points import point_map_at_sensors
from riesz.density.marginal.systems import AbstractDataSystem, DataSpace, Groups
from riesz.diagnose.held_out import (
    NUM_DRAWS,
    AbstractMixture,
    Again,
    HeldOut,
    NormalMixture,
    check_shared_noise,
    draw_mixture,
    normal_mixtures,
    predictive_densities,
    single_groups,
)
from riesz.inference.fit import engine_seconds, fit
from riesz.inference.table import AMORTISE, METHODS, engine_of
from riesz.observe.effects import WithEffects
from riesz.observe.likelihood import (
    AbstractLikelihood,
    Censored,
    Gaussian,
    Scale,
    StudentT,
    scale_at,
)
from riesz.posterior.family import EmpiricalDraws
from riesz.posterior.posterior import MARGINAL, Posterior
from riesz.prediction.sampling import quantity_draws
from riesz.problem.linearity import linear_parts
from riesz.problem.problem import InverseProblem

UNSEEN = 1e6
"""The noise of a left-out observation, in spreads of the data: it tells nothing. So all blocks
share the programs of the whole."""


class Unseen(eqx.Module):
    """A scale of noise where some observations are left out: theirs is fixed, and vast."""

    scale: Scale
    left: Bool[Array, " sensor"]
    vast: Float[Array, ""]

    def __call__(self, z: PyTree) -> Float[Array, " sensor"]:
        return jnp.where(self.left, self.vast, scale_at(self.scale, z).astype(self.vast.dtype))


def without(problem: InverseProblem, left: Bool[np.ndarray, " sensor"]) -> InverseProblem | None:
    """The problem as if some observations had not been made; None where noise has no such form."""
    observed = np.asarray(problem.observed)
    vast = UNSEEN * max(float(observed.std()), float(np.abs(observed).max()) * 1e-3, 1e-12)
    result = blind(problem.likelihood, left, vast)
    return None if result is None else dataclasses.replace(problem, likelihood=result)


def blind(
    likelihood: AbstractLikelihood, left: Bool[np.ndarray, " sensor"], vast: float
) -> AbstractLikelihood | None:
    if isinstance(likelihood, WithEffects):
        base = blind(likelihood.base, left, vast)
        return None if base is None else eqx.tree_at(lambda own: own.base, likelihood, base)
    if not isinstance(likelihood, Gaussian | StudentT | Censored):
        return None
    dtype = jnp.result_type(float)
    scale = Unseen(likelihood.sd, jnp.asarray(left), jnp.asarray(vast, dtype))
    return dataclasses.replace(likelihood, sd=scale)


MOST_VALUES, NUM_REFIT = 100, 1000
"""Of what is not integrated out, and draws of other posteriors that are fitted without a block."""

LARGEST_SHARED = 5e7
"""Numbers in matrices of noise that observations share, for all draws."""

BUDGET = 120.0
"""Seconds that refits may take together, roughly, where nobody asked for them."""

HeldOutByWay = dict[str, HeldOut]
"""Each observation left out by itself, and by blocks where there are any."""

Others = Float[np.ndarray, "value other"]
PerOther = Float[np.ndarray, " other"]
PerSensor = Float[np.ndarray, " sensor"]


class LeaveOut(NamedTuple):
    """Which observations are left out together, and whether models may be fitted again."""

    observed: PerSensor
    block: Block | None
    refit: bool | None
    seed: int

    @property
    def groups(self) -> dict[str, Groups]:
        """Each observation by itself and, where there are enough places, blocks of them."""
        alone = {ONE: single_groups(len(self.observed))}
        if self.block is None:
            return alone
        numbers = range(int(self.block.max()) + 1)
        return alone | {BLOCKS: [np.flatnonzero(self.block == number) for number in numbers]}

    def by(self, mixtures: Sequence[AbstractMixture], again: Again | None) -> HeldOutByWay:
        """By a mixture for each way of leaving out; blocks may be by another fit."""
        refits = {BLOCKS: again}
        return {
            way: predictive_densities(one, self.observed, groups, self.seed, refits.get(way))
            for one, (way, groups) in zip(mixtures, self.groups.items(), strict=True)
        }

    def by_systems(
        self,
        solve: Callable[[Others], Iterable[AbstractDataSystem]],
        known: LikelyValues,
        again: Callable[[int], LikelyValues] | None,
    ) -> HeldOutByWay:
        """By closed forms given each of some values; where their weights fail, given others."""

        def mixtures(given: LikelyValues, divisions: Sequence[Groups]) -> list[NormalMixture]:
            return normal_mixtures(solve(given.values), given.weights, self.observed, divisions)

        def without(number: int) -> NormalMixture:
            assert again is not None
            return mixtures(again(number), [[self.groups[BLOCKS][number]]])[0]

        every = mixtures(known, list(self.groups.values()))
        return self.by(every, None if again is None else without)


Refits = Callable[[int], Posterior]
"""A fit without a block, given by its number."""


def elpd_by_model(model: DataModel, how: LeaveOut, mode: PerOther | None = None) -> HeldOutByWay:
    """For data that are normal given few scales, whose most probable values may be known."""
    model = model.with_cache()  # what weighs a value of the scales leaves blocks out by it, too
    likely = likely_values(model, mode=mode, seed=how.seed)

    def scales_without(number: int) -> LikelyValues:
        rest = np.setdiff1d(np.arange(len(model.misfit)), how.groups[BLOCKS][number])
        return likely_values(of_rows(model, rest), start=likely.mean, seed=how.seed)

    again = None if how.refit is False else scales_without
    return how.by_systems(lambda values: map(model.system, values), likely, again)


def elpd_by_problem(problem: InverseProblem, how: LeaveOut) -> HeldOutByWay | None:
    """Before any fit, by closed forms; None where unknowns do more than scale or blur."""
    model, mode = model_of_data(problem), rough_mode(problem)
    if model is None or mode is None:
        return None
    return elpd_by_model(model, how, mode)


def model_of_data(problem: InverseProblem) -> DataModel | None:
    return data_model(problem, linear_parts(problem), point_map_at_sensors(problem))


def elpd_by(
    posterior: Posterior, how: LeaveOut, engine: AbstractEngine | None = None
) -> HeldOutByWay:
    """For a posterior, by closed forms as far as they go; refits are by the engine."""
    method = posterior.engine.partition("(")[0]
    if engine is None and method in METHODS and method != AMORTISE:
        engine = engine_of(posterior.engine)  # with default settings
    fits = refits(posterior, how, engine)
    if posterior.density == MARGINAL and isinstance(posterior.distribution, EmpiricalDraws):
        return elpd_by_marginals(posterior, how, fits)
    if not posterior.problem.likelihood.is_independent:
        return elpd_of_shared_noise(posterior, how)
    again = None if fits is None else lambda number: draw_mixture(fits(number), NUM_REFIT, how.seed)
    drawn = draw_mixture(posterior, NUM_DRAWS, how.seed)
    return how.by([drawn] * len(how.groups), again)


def elpd_by_marginals(posterior: Posterior, how: LeaveOut, fits: Refits | None) -> HeldOutByWay:
    problem, parts = posterior.problem, linear_parts(posterior.problem)
    # What holds of the data before a fit holds after it, by the same numbers.
    if (result := elpd_by_problem(problem, how)) is not None:
        return result
    density = MarginalDensity(problem, parts, point_map_at_sensors(problem))

    def hyper_values_of(posterior: Posterior) -> LikelyValues:
        assert isinstance(posterior.distribution, EmpiricalDraws)
        return LikelyValues(*hyper_values(posterior.distribution, parts, MOST_VALUES, how.seed))

    def solve(values: Others) -> Iterable[AbstractDataSystem]:
        for own in values:
            yield by_root(*jax.block_until_ready(moments_of(density, on_device(own))))

    again = None if fits is None else lambda number: hyper_values_of(fits(number))
    return how.by_systems(solve, hyper_values_of(posterior), again)


@eqx.filter_jit
def moments_of(
    density: MarginalDensity, others: Float[Array, " other"]
) -> tuple[Float[Array, " sensor"], Float[Array, "sensor column"]]:
    """Observed less expected, and a root of the covariance, by solves."""
    offset, responses = density.data(others)
    root = density.noise(others).colour(jnp.eye(len(offset), dtype=offset.dtype))
    return density.problem.observed - offset, jnp.hstack([responses, root])


def by_root(misfit: ArrayLike, root: ArrayLike) -> DataSpace:
    """Data with a covariance that is a root times its transpose, noise and all."""
    misfit = np.asarray(misfit, float)
    return DataSpace(np.asarray(root, float), misfit, np.zeros_like(misfit))


def elpd_of_shared_noise(posterior: Posterior, how: LeaveOut) -> HeldOutByWay:
    """Given a draw, what observations have in common with those of a block tells of it."""
    check_shared_noise(posterior.problem.likelihood)
    count = int(np.clip(LARGEST_SHARED / len(how.observed) ** 2, 20, 200))
    drawn = quantity_draws(posterior, normal_given, num_draws=count, seed=how.seed)
    kept = ~np.isnan(drawn["misfit"]).any(axis=1)
    misfits, roots = drawn["misfit"][kept], drawn["root"][kept]
    alike = LikelyValues(np.zeros((len(roots), 0)), np.full(len(roots), 1 / len(roots)))
    return how.by_systems(lambda _: map(by_root, misfits, roots), alike, None)


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
    problem, block = posterior.problem, how.block
    if block is None or how.refit is False or engine is None:
        return None
    each = engine_seconds(engine, problem) - engine.compiling
    seconds = engine.compiling + (block.max() + 1) * each
    if how.refit is None and seconds > BUDGET:
        return None
    if without(problem, block < 0) is None:
        return None

    def refit_posterior(number: int) -> Posterior:
        blind = without(problem, block == number)
        assert blind is not None
        again = engine
        if isinstance(engine, Engine) and engine.density.name == MARGINAL:
            again = engine.with_start(posterior)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            result = fit(blind, again, seed=how.seed, progress=False)
        return dataclasses.replace(result, problem=problem)

    return refit_posterior
