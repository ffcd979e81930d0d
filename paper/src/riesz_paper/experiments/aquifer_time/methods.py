"""The methods of the experiment `aquifer-time`: draws of heads of wells in years to come.

Variants of the model were compared by the evidence of the training readings of split A alone; the
one that was chosen then was scored after that.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from riesz_paper.data.esrp import Aquifer, splits_of
from riesz_paper.experiments.aquifer.data import mesh_of
from riesz_paper.experiments.aquifer_time.changes import responses_of
from riesz_paper.experiments.aquifer_time.fit import Fitted, fitted, forecast
from riesz_paper.experiments.aquifer_time.model import (
    AbstractModel,
    Separable,
    WithoutEquation,
    by_equation,
)
from riesz_paper.experiments.aquifer_time.persistence import (
    Value,
    last_values,
    period_medians,
    persistence,
)
from riesz_paper.experiments.aquifer_time.readings import END, Case, Rows, case_of, record_of

Draws = Float[np.ndarray, "draw row"]

RECHARGE_LENGTH = 15.0
"""Km."""


Build = Callable[[Aquifer], AbstractModel]

Forecast = Callable[[Aquifer, Case, Rows, int], Draws]
"""How heads of wells in years are drawn, in feet; the last argument is a seed."""


@dataclass(frozen=True)
class Entry:
    """A method, and what it is in the table."""

    name: str
    role: str
    draws: Forecast
    build: Build | None = None  # of those that have an evidence
    splits: tuple[str, ...] = ("A", "D")


@lru_cache(maxsize=1)
def equation(
    aquifer: Aquifer, length: float, *, is_held: bool = False, misfit: bool = False
) -> AbstractModel:
    """One for all blocks, which share what is tabulated and compiled."""
    mesh, places = mesh_of(aquifer), record_of(aquifer).places
    responses = responses_of(mesh, places, length=length, is_held=is_held, end=END)
    return by_equation(mesh, places, responses, misfit=misfit)


def kernels(aquifer: Aquifer) -> AbstractModel:
    return WithoutEquation(jnp.asarray(record_of(aquifer).places))


def separable(aquifer: Aquifer) -> AbstractModel:
    return Separable(jnp.asarray(record_of(aquifer).places))


@lru_cache(maxsize=2)
def fitted_to(build: Build, aquifer: Aquifer, case: Case, seed: int) -> Fitted:
    """Padded to the size of the largest case, that of split A."""
    record = record_of(aquifer)
    size = max(len(case_of(record, part).training) for part in splits_of(aquifer, "A"))
    return fitted(build(aquifer), case, max(size, len(case.training)), seed=seed)


def by_model(build: Build) -> Forecast:
    def draws(aquifer: Aquifer, case: Case, targets: Rows, seed: int) -> Draws:
        return forecast(fitted_to(build, aquifer, case, seed), targets, seed=seed)

    return draws


def staying(value: Value) -> Forecast:
    def draws(aquifer: Aquifer, case: Case, targets: Rows, seed: int) -> Draws:
        return persistence(value, record_of(aquifer).places, case, targets, seed=seed)

    return draws


def modelled(name: str, role: str, build: Build, splits: tuple[str, ...] = ("A", "D")) -> Entry:
    return Entry(name, role, by_model(build), build, splits)


CLOSED = partial(equation, length=RECHARGE_LENGTH)
HELD = partial(equation, length=RECHARGE_LENGTH, is_held=True)
RELAXED = partial(equation, length=RECHARGE_LENGTH, misfit=True)


ENTRIES = (
    modelled("equation", "ours", CLOSED),
    modelled("equation-held", "ours", HELD, ("A",)),  # the variant that was not chosen
    modelled("equation-relaxed", "ours", RELAXED),
    modelled("no-equation", "baseline", kernels),
    modelled("gp-separable", "baseline", separable),
    Entry("last-value", "baseline", staying(last_values)),
    Entry("median", "baseline", staying(period_medians)),
)
BY_NAME = {entry.name: entry for entry in ENTRIES}
SELECTED = "equation"
