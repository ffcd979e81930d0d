"""Covariates and target as numbers of size one, and back."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from riesz_paper.regression.covariates import Covariates, check_target, check_varies, levels_of
from riesz_paper.regression.method import Draws, Values

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
    check_target(training, target)
    check_varies(training.points.ravel(), "a coordinate")
    raw = np.log if logs else np.asarray
    return Columns(
        logs=logs,
        centre=training.points.mean(axis=0),
        length=float(np.sqrt(training.points.var(axis=0).mean())),
        numbers={name: scale_of(raw(values), name) for name, values in training.numbers.items()},
        levels={name: levels_of(labels) for name, labels in training.categories.items()},
        target=scale_of(raw(target), "the target"),
    )


def scale_of(values: Values, name: str) -> Scale:
    check_varies(values, name)
    return Scale(float(values.mean()), float(values.std()))
