"""Covariates as columns of numbers, whose effects are unknowns of the problem."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from riesz.case.data.prepared import Covariate, Prepared
from riesz.errors import FileFormatError

EFFECTS = "effects"
"""The name of the unknown."""

MOST_CATEGORIES = 50


@dataclass(frozen=True, eq=False)
class Design:
    """What multiplies each effect, and a word for it."""

    columns: Float[np.ndarray, "row effect"]
    labels: tuple[str, ...]


def design_of(prepared: Prepared, logs: list[str]) -> Design | None:
    """Standardised numbers, and a column for each category but the most frequent one."""
    if not prepared.covariates:
        return None
    columns: list[Float[np.ndarray, " row"]] = []
    labels: list[str] = []
    for name, cells in prepared.covariates.items():
        own, words = encoded(prepared.path, name, cells, logs)
        columns += own
        labels += words
    return Design(np.column_stack(columns), tuple(labels))


def encoded(
    path: Path, name: str, cells: Covariate, logs: list[str]
) -> tuple[list[Float[np.ndarray, " row"]], list[str]]:
    if not isinstance(cells, list):
        return standardised(path, name, cells, log=name in logs)
    if name in logs:
        raise FileFormatError(f"{path}: {name} is in log_covariates, but holds words.")
    counts = Counter(cells)
    if not 2 <= len(counts) <= MOST_CATEGORIES:
        raise FileFormatError(
            f"{path}: the covariate {name} has {len(counts)} categories: give one with 2 to "
            f"{MOST_CATEGORIES}."
        )
    first = min(counts, key=lambda word: (-counts[word], word))
    others = sorted(word for word in counts if word != first)
    columns = [np.array([float(cell == word) for cell in cells]) for word in others]
    return columns, [f"{name}: {word} against {first}" for word in others]


def standardised(
    path: Path, name: str, numbers: Float[np.ndarray, " row"], *, log: bool
) -> tuple[list[Float[np.ndarray, " row"]], list[str]]:
    if log and not (numbers > 0).all():
        raise FileFormatError(
            f"{path}: {name} is in log_covariates, but goes down to {numbers.min():g}: logarithms "
            "need positive numbers."
        )
    values = np.log(numbers) if log else numbers
    sd = values.std()
    if not sd > 1e-12 * np.abs(values).max():
        raise FileFormatError(
            f"{path}: the covariate {name} is the same in all rows: it can have no effect."
        )
    shown = f"log {name}" if log else name
    return [(values - values.mean()) / sd], [f"{shown}, by its sd of {sd:.4g}"]
