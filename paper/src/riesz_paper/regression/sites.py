"""Places as a model sees them: scaled covariates, and values of a mesh's modes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from riesz_paper.regression.covariates import (
    Covariates,
    check_same_columns,
    check_varies,
    levels_of,
)

Matrix = Float[Array, "place other"]
Variances = Float[Array, " place"]
ModesAt = Callable[[Float[np.ndarray, "place 2"]], Float[Array, "place mode"]]


class Sites(eqx.Module):
    """Arrays for the effects of a model; a category is one column a level, one of them 1."""

    points: Float[Array, "place 2"]
    numbers: Float[Array, "place number"]
    groups: tuple[Float[Array, "place level"], ...]
    modes: Float[Array, "place mode"] | None = None  # of a field on a mesh

    def __len__(self) -> int:
        return len(self.points)


@dataclass(frozen=True, eq=False)
class Encoding:
    """How covariates become sites: scales and levels are those of the training places."""

    training: Covariates
    centre: Float[np.ndarray, " number"]
    scale: Float[np.ndarray, " number"]
    modes_at: ModesAt | None

    def __call__(self, at: Covariates) -> Sites:
        check_same_columns(self.training, at)
        known = Covariates(
            at.points, {name: at.numbers[name] for name in self.training.numbers}, {}
        )
        scaled = np.zeros((len(at), 0))
        if known.numbers:
            scaled = (known.logs() - self.centre) / self.scale
        groups = tuple(
            one_hot(at.categories[name], levels_of(labels))
            for name, labels in self.training.categories.items()
        )
        return Sites(
            jnp.asarray(at.points),
            jnp.asarray(scaled),
            groups,
            None if self.modes_at is None else self.modes_at(at.points),
        )


def encoding_of(training: Covariates, modes_at: ModesAt | None = None) -> Encoding:
    """Logarithms of numbers are scaled to mean 0 and sd 1 over the training places."""
    if not training.numbers:
        return Encoding(training, np.zeros(0), np.ones(0), modes_at)
    for name, values in training.numbers.items():
        check_varies(np.log(values), name)
    logs = training.logs()
    return Encoding(training, logs.mean(axis=0), logs.std(axis=0), modes_at)


def one_hot(labels: Sequence[str], levels: Sequence[str]) -> Float[Array, "place level"]:
    """A level that was never trained has zeros only: its effect is the prior's mean."""
    return jnp.asarray(np.array(labels)[:, None] == np.array(levels)[None, :], float)
