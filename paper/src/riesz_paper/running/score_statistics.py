"""Statistics of scores: over restarts of a method, and over the same points of two methods."""

from collections.abc import Sequence

import numpy as np
import scipy.stats
from jaxtyping import Float


def spread_of(errors: Sequence[float]) -> float | None:
    return float(np.std(errors, ddof=1)) if len(errors) > 1 else None


def wilcoxon_p(own: Float[np.ndarray, " pair"], other: Float[np.ndarray, " pair"]) -> float:
    _, p = np.asarray(scipy.stats.wilcoxon(own, other), dtype=float)
    return float(p)
