"""Covariates and target as numbers of size one, and back."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from riesz.errors import RieszError
from riesz.regression.covariates import Covariates, check_length, levels_of
from riesz.regression.method import Draws, Values

Places = Float[np.ndarray, "place 2"]
Known = Float[np.ndarray, "place known"]


@dataclass(frozen=True)
class Scale:
    """A centre and a spread."""

    centre: float
    spread: float

    def apply(self, values: np.ndarray) -> np.ndarray:
        return (values - self.centre) / self.spread

    def undo(self, values: np.ndarray) -> np.ndarray:
        return self.centre + self.spread * values


@dataclass(frozen=True, eq=False)
class Columns:
    """How each column is standardised; learnt from the places of training."""

    logs: bool
    centre: Float[np.ndarray, " dim"]
    length: float  # one for all directions, so that equations keep their form
    numbers: Mapping[str, Scale]
    levels: Mapping[str, tuple[str, ...]]
    target: Scale

    def places(self, at: Covariates) -> Places:
        """Coordinates of size one."""
        return (at.points - self.centre) / self.length

    def known(self, at: Covariates) -> Known:
        """Numbers of size one, then a column of ones and zeros for each level of a category.

        A level that was not seen in training has zeros only.
        """
        empty = [np.zeros((len(at), 0))]
        numbers = [
            scale.apply(self.raw(at.numbers[name]))[:, None] for name, scale in self.numbers.items()
        ]
        flags = [
            (np.array(at.categories[name])[:, None] == np.array(levels)[None, :]).astype(float)
            for name, levels in self.levels.items()
        ]
        return np.concatenate(empty + numbers + flags, axis=1)

    def raw(self, values: Values) -> Values:
        return np.log(values) if self.logs else values

    def standardised(self, target: Values) -> Values:
        return self.target.apply(self.raw(target))

    def in_units(self, draws: Draws) -> Draws:
        """Standardised draws in the target's own units."""
        values = self.target.undo(draws)
        return np.exp(values) if self.logs else values


def columns_of(training: Covariates, target: Values, *, logs: bool) -> Columns:
    """What standardises the given places and values."""
    check_length("the target", len(target), len(training))
    check_target(target)
    raw = np.log if logs else np.asarray
    return Columns(
        logs=logs,
        centre=training.points.mean(axis=0),
        length=spread_of(np.sqrt(training.points.var(axis=0).mean()), "the coordinates"),
        numbers={name: scale_of(raw(values), name) for name, values in training.numbers.items()},
        levels={name: levels_of(labels) for name, labels in training.categories.items()},
        target=scale_of(raw(target), "the target"),
    )


def check_target(target: Values) -> None:
    (bad,) = np.nonzero(~(np.isfinite(target) & (target > 0)))
    if bad.size:
        raise RieszError(
            f"the target is {target[bad[0]]:g} at place {bad[0]} ({bad.size} of {len(target)} are "
            "missing or not positive): leave those places out."
        )


def scale_of(values: Values, name: str) -> Scale:
    return Scale(float(values.mean()), spread_of(values.std(), name))


def spread_of(sd: float, name: str) -> float:
    if not sd > 0:
        raise RieszError(
            f"{name} has the same value at all places of training, from which nothing can be "
            "learnt: leave it out, or add places."
        )
    return float(sd)
