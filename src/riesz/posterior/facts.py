"""What is told of a fit beside its draws: how it was made, and what checks found."""

from collections.abc import Mapping, Sequence

import equinox as eqx
import numpy as np
from jaxtyping import Float

from riesz.posterior.checks import ImportanceCheck, SamplerCheck, SurrogateError

EXACT, PARTLY, WEIGHED = "exact", "partly", "weighed"
SAMPLED, APPROXIMATE = "sampled", "approximate"
"""How a posterior was found that no check came with."""

TOOK, WILL_DO = "auto took", "will do"
"""How the account begins of the engines that `auto` went through, and ends where one passed."""


def doubtful_notes(notes: Sequence[str]) -> tuple[str, ...]:
    """Notes without that account, unless it ended with an engine that did not pass."""
    first = next((i for i, note in enumerate(notes) if note.startswith(TOOK)), len(notes))
    last = next((i for i, note in enumerate(notes) if i > first and note.endswith(WILL_DO)), None)
    return tuple(notes) if last is None else (*notes[:first], *notes[last + 1 :])


class FitFacts(eqx.Module):
    """The engine and its equation in words, its curves, and its checks."""

    engine: str
    method: str  # one of these
    equation: str
    curves: Mapping[str, Float[np.ndarray, "line step"]]
    check: ImportanceCheck | SamplerCheck | None
    surrogate_error: SurrogateError | None
