"""What is told of a fit beside its draws: how it was made, and what checks found."""

from collections.abc import Mapping

import equinox as eqx
import numpy as np
from jaxtyping import Float

from riesz.posterior.checks import ImportanceCheck, SamplerCheck, SurrogateError

EXACT, PARTLY, WEIGHED = "exact", "partly", "weighed"
SAMPLED, APPROXIMATE = "sampled", "approximate"
"""How a posterior was found that no check came with."""


class FitFacts(eqx.Module):
    """The engine and its equation in words, its curves, and its checks."""

    engine: str
    method: str  # one of these
    equation: str
    curves: Mapping[str, Float[np.ndarray, "line step"]]
    check: ImportanceCheck | SamplerCheck | None
    surrogate_error: SurrogateError | None
