"""What contradicts a model, in notes for a reader."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from riesz.notes import Note

PRIOR, REGION, COVARIATE, NEIGHBOURS = "prior", "region", "covariate", "neighbours"
SPREAD, TAILS, OBSERVATION = "spread", "tails", "observation"

LEVELS = {
    PRIOR: 0.0175,
    REGION: 0.01,
    COVARIATE: 0.0025,
    NEIGHBOURS: 0.0025,
    SPREAD: 0.0025,
    TAILS: 0.0025,
    OBSERVATION: 0.0025,
}
"""How often each kind may be found where the model is right: 0.04 all together, which leaves some
room below one in twenty for posteriors that are not normal."""

TOLD = 0.05
"""In sd, or of one: what is less is nothing that a reader could look for, however sure it is."""

MOST_NAMED = 4
"""Observations that a sentence names; the others are counted."""


@dataclass(frozen=True)
class Finding:
    """One contradiction between model and data.

    `names` are the unknowns or covariates that it is about, `places` the observations by their
    number, and `p` says how often the like is found where the model is right.
    """

    kind: str
    note: Note
    names: tuple[str, ...] = ()
    places: tuple[int, ...] = ()
    p: float = 0.0

    def __str__(self) -> str:
        return str(self.note)


@dataclass(frozen=True, eq=False)
class Misfit:
    """All that contradicts a model, and what it was found by.

    `residuals` are of each observation against what all others say of it, standard normal if the
    model is right; `k_hat` is large where the posterior hangs on the observation, and NaN where
    that is not known. Both are empty where observations cannot be left out one by one.
    """

    findings: tuple[Finding, ...]
    residuals: Float[np.ndarray, " sensor"]
    k_hat: Float[np.ndarray, " sensor"]
    labels: tuple[str, ...] | None = None  # what observations are called
    caution: Note | None = None  # where the posterior itself is not the right one

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(map(str, self.findings))

    def __str__(self) -> str:
        lines = self.words or ("no observation, place or prior contradicts the model",)
        return "\n".join(lines if self.caution is None else (str(self.caution), *lines))


@dataclass(frozen=True, eq=False)
class Readers:
    """How observations are spoken of: by where they are and, if they have names, by these."""

    points: Float[np.ndarray, "sensor dim"]
    labels: tuple[str, ...] | None = None

    def label(self, which: Int[np.ndarray, " some"] | Sequence[int]) -> str:
        """Some observations, the first ones by their names."""
        rows = [int(one) for one in which]
        names = [f"observation {i}" if self.labels is None else self.labels[i] for i in rows]
        names = list(dict.fromkeys(names))
        words = {name.partition(" ")[0] for name in names}
        if len(words) == 1 and all(" " in name for name in names):  # lines 3, 5 and 8
            kind = words.pop() + ("s" if len(names) > 1 else "")
            names = [name.partition(" ")[2] for name in names]
            return f"{kind} {shorten(names)}"
        return shorten(names)

    def where(self, which: Int[np.ndarray, " some"] | Sequence[int]) -> str:
        """The middle of some observations."""
        finite = self.points[np.isfinite(self.points).all(axis=1)]
        size = float(np.ptp(finite, axis=0).max()) if len(finite) else 0.0
        digits = int(np.clip(2 - np.floor(np.log10(size)), 0, 12)) if size > 0 else 6
        middle = self.points[list(which)].mean(axis=0)
        return f"({', '.join(f'{one:.{digits}f}' for one in middle)})"


def shorten(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
