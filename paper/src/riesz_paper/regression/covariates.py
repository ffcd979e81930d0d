"""What is known at some places: coordinates, numbers and categories."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from riesz.errors import RieszError

SAME = 1e-12
"""Values that differ by less, relatively, are the same."""


@dataclass(frozen=True, eq=False)
class Covariates:
    """Places with their coordinates, positive numbers such as concentrations, and categories."""

    points: Float[np.ndarray, "place 2"]
    numbers: Mapping[str, Float[np.ndarray, " place"]]
    categories: Mapping[str, tuple[str, ...]]

    def __post_init__(self):
        if not np.isfinite(self.points).all():
            (row,) = np.nonzero(~np.isfinite(self.points).all(axis=1))
            raise RieszError(f"place {row[0]} has no finite coordinates: leave it out.")
        for name, values in self.numbers.items():
            check_length(name, len(values), len(self))
            (bad,) = np.nonzero(~(np.isfinite(values) & (values > 0)))
            if bad.size:
                raise RieszError(
                    f"{name} is {values[bad[0]]:g} at place {bad[0]} ({bad.size} of {len(values)} "
                    "are missing or not positive): leave those places out, or that column."
                )
        for name, labels in self.categories.items():
            check_length(name, len(labels), len(self))

    def __len__(self) -> int:
        return len(self.points)

    def subset(self, kept: Bool[np.ndarray, " place"]) -> "Covariates":
        """Some of the places."""
        return Covariates(
            self.points[kept],
            {name: values[kept] for name, values in self.numbers.items()},
            {name: tuple(np.array(v)[kept].tolist()) for name, v in self.categories.items()},
        )

    def logs(self) -> Float[np.ndarray, "place number"]:
        """Logarithms of the numbers, one a column."""
        return np.log(np.stack(list(self.numbers.values()), axis=1))


def check_length(name: str, found: int, wanted: int) -> None:
    if found != wanted:
        raise RieszError(f"{name} has {found} values for {wanted} places: give one for each.")


def check_target(training: Covariates, target: Float[np.ndarray, " value"]) -> None:
    """One positive number for each place, and not the same everywhere."""
    check_length("the target", len(target), len(training))
    (bad,) = np.nonzero(~(np.isfinite(target) & (target > 0)))
    if bad.size:
        raise RieszError(
            f"the target is {target[bad[0]]:g} at place {bad[0]} ({bad.size} of {len(target)} are "
            "missing or not positive): leave those places out."
        )
    check_varies(np.log(target), "the target")


def check_varies(values: Float[np.ndarray, " value"], name: str) -> None:
    # Rounding leaves a spread of some 1e-16 where all values are the same.
    if np.ptp(values) <= SAME * (1 + np.abs(values).max()):
        raise RieszError(
            f"{name} has the same value at all places of training, from which nothing can be "
            "learnt: leave it out, or add places."
        )


def check_same_columns(training: Covariates, at: Covariates) -> None:
    """Places of a prediction have what the model was trained with."""
    for kind, known, found in (
        ("number", training.numbers, at.numbers),
        ("category", training.categories, at.categories),
    ):
        missing = [name for name in known if name not in found]
        if missing:
            raise RieszError(
                f"the places have no {kind} {', '.join(missing)}, which the model was trained "
                f"with: they have {', '.join(found) or 'none'}."
            )


def levels_of(labels: Sequence[str]) -> tuple[str, ...]:
    """The labels of a category, each once, in order of the alphabet."""
    return tuple(sorted(set(labels)))
