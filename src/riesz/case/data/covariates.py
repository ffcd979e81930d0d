"""Covariates as columns of numbers, whose effects are unknowns of the problem."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.linalg as sla
from jaxtyping import Float

from riesz.case.data.rows import Covariate, DataRows
from riesz.errors import FileFormatError, any_of
from riesz.priors.kernels import Matern52, covariance_factor
from riesz.priors.representatives import farthest_points

EFFECTS, LOCAL = "effects", "local"
"""The names of the unknowns: effects of covariates, and what neighbours share."""

MOST_CATEGORIES = 50

CURVE = "curve"
MOST_KNOTS = 80
CURVE_LENGTH, CURVE_SHARE = 2.0, 0.5
"""How far curves reach, in sds of the numbers, and how large they are beside slopes."""

Cells = Mapping[str, Covariate]


@dataclass(frozen=True)
class Number:
    """A number by the mean and the sd of the observations, after a logarithm or not."""

    name: str
    log: bool
    mean: float
    sd: float

    @property
    def labels(self) -> list[str]:
        return [f"{'log ' if self.log else ''}{self.name}, by its sd of {self.sd:.4g}"]

    def columns(self, path: Path, cells: Cells) -> Float[np.ndarray, "row 1"]:
        own = cells[self.name]
        if isinstance(own, list):
            raise FileFormatError(f"{path}: {self.name} holds words, but was fitted as a number.")
        return ((log_if_wanted(path, self.name, own, log=self.log) - self.mean) / self.sd)[:, None]


@dataclass(frozen=True)
class Category:
    """Words: a column for each but the most frequent one."""

    name: str
    first: str
    others: tuple[str, ...]

    @property
    def labels(self) -> list[str]:
        return [f"{self.name}: {word} against {self.first}" for word in self.others]

    def columns(self, path: Path, cells: Cells) -> Float[np.ndarray, "row word"]:
        own = cells[self.name]
        words = own if isinstance(own, list) else list(map(str, own))
        known = (self.first, *self.others)
        new = [word for word in words if word not in known]
        if new:
            raise FileFormatError(
                f"{path}: {self.name} is {new[0]!r} in {len(new)} of {len(words)} rows, of which "
                f"there is no observation: it was {any_of(known)}. Leave those rows out."
            )
        return np.array([[float(word == one) for one in self.others] for word in words])


@dataclass(frozen=True, eq=False)
class Curve:
    """A smooth function of all numbers together, beside what is proportional to each.

    It is a Gaussian process of the standardised numbers through some of the observations, so that
    numbers may bend and act upon each other; far from all observations it is nothing.
    """

    numbers: tuple[Number, ...]
    knots: Float[np.ndarray, "knot number"]

    @property
    def labels(self) -> list[str]:
        return [f"{CURVE} {index + 1}" for index in range(len(self.knots))]

    def columns(self, path: Path, cells: Cells) -> Float[np.ndarray, "row knot"]:
        kernel = Matern52(CURVE_LENGTH, CURVE_SHARE)
        near = kernel.matrix(self.knots, effect_design(path, self.numbers, cells))
        return sla.solve_triangular(covariance_factor(kernel, self.knots), near, lower=True).T


Single = Number | Category
Encoding = Single | Curve


def encodings_of(prepared: DataRows, logs: Sequence[str]) -> tuple[Single, ...]:
    """How each covariate becomes columns, by what the observations hold."""
    return tuple(
        category_of(prepared.path, name, cells, logs)
        if isinstance(cells, list)
        else number_of(prepared.path, name, cells, log=name in logs)
        for name, cells in prepared.covariates.items()
    )


def every_encoding(
    prepared: DataRows, logs: Sequence[str], *, curved: bool
) -> tuple[Encoding, ...]:
    """Of each covariate and, where effects are curved, of all numbers together."""
    result = encodings_of(prepared, logs)
    return (*result, curve_of(prepared, result)) if curved else result


def curve_of(prepared: DataRows, encodings: Sequence[Single]) -> Curve:
    numbers = tuple(one for one in encodings if isinstance(one, Number))
    if not numbers:
        raise FileFormatError(
            f"{prepared.path}: curved is true, but all covariates are words: leave it out."
        )
    rows = np.unique(effect_design(prepared.path, numbers, prepared.covariates), axis=0)
    return Curve(numbers, rows[np.sort(farthest_points(rows, min(MOST_KNOTS, len(rows))))])


def covariate_design(
    observations: DataRows,
    at: DataRows | None = None,
    *,
    logs: Sequence[str] = (),
    curved: bool = False,
) -> tuple[Float[np.ndarray, "row effect"], tuple[str, ...]]:
    """Columns for `rz.observe.WithEffects` from covariates of observations, and a word for each.

    Numbers are standardised, those in `logs` by their logarithm; words get a column for each but
    the most frequent one. With `curved` come columns of a smooth function of all numbers together.
    `at` are other places, whose columns are made as those of observations.
    """
    if not observations.covariates:
        raise FileFormatError(
            f"{observations.path} was read without covariates: name their columns, as in "
            "read_observations(..., covariates=['zinc'])."
        )
    encodings = every_encoding(observations, logs, curved=curved)
    rows = observations if at is None else at
    labels = tuple(label for one in encodings for label in one.labels)
    return effect_design(rows.path, encodings, rows.covariates), labels


def effect_design(
    path: Path, encodings: Sequence[Encoding], covariates: Cells
) -> Float[np.ndarray, "row effect"]:
    """What multiplies each effect, at observations or at other places."""
    return np.hstack([one.columns(path, covariates) for one in encodings])


def category_of(path: Path, name: str, cells: list[str], logs: Sequence[str]) -> Category:
    if name in logs:
        raise FileFormatError(f"{path}: {name} is in log_covariates, but holds words.")
    counts = Counter(cells)
    if not 2 <= len(counts) <= MOST_CATEGORIES:
        raise FileFormatError(
            f"{path}: the covariate {name} has {len(counts)} categories: give one with 2 to "
            f"{MOST_CATEGORIES}."
        )
    first = min(counts, key=lambda word: (-counts[word], word))
    return Category(name, first, tuple(sorted(word for word in counts if word != first)))


def number_of(path: Path, name: str, numbers: Float[np.ndarray, " row"], *, log: bool) -> Number:
    values = log_if_wanted(path, name, numbers, log=log)
    sd = float(values.std())
    if not sd > 1e-12 * np.abs(values).max():
        raise FileFormatError(
            f"{path}: the covariate {name} is the same in all rows: it can have no effect."
        )
    return Number(name, log, float(values.mean()), sd)


def log_if_wanted(
    path: Path, name: str, numbers: Float[np.ndarray, " row"], *, log: bool
) -> Float[np.ndarray, " row"]:
    if log and not (numbers > 0).all():
        raise FileFormatError(
            f"{path}: {name} is in log_covariates, but goes down to {numbers.min():g}: logarithms "
            "need positive numbers."
        )
    return np.log(numbers) if log else numbers
