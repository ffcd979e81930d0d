"""How well a field is found again, and how honestly: scores over all cells."""

import numpy as np
from jaxtyping import Bool, Float

from riesz.io.store.results import Row

CENTRE = 7.0
"""What the authors take from the truth before they divide by it."""

INTERVAL = 1.959964
"""Standard deviations of a normal 95 % interval."""

KNOWN = 1e-3
"""Values with a standard deviation below it are known, and told apart by nothing but rounding."""


def scores(
    mean: Float[np.ndarray, " cell"],
    sd: Float[np.ndarray, " cell"],
    truth: Float[np.ndarray, " cell"],
) -> Row:
    """Errors over all cells; the log-density over those whose value is not known exactly."""
    error, unknown = mean - truth, sd > KNOWN
    inside = is_inside(error, sd)
    spread = sd[unknown]
    z = error[unknown] / spread
    return {
        "e7": float(np.linalg.norm(error) / np.linalg.norm(truth - CENTRE)),
        "e": float(np.linalg.norm(error) / np.linalg.norm(truth)),
        "largest": float(np.abs(error).max()),
        "coverage95": float(inside.mean()),
        "coverage95_unknown": float(inside[unknown].mean()),
        "lpp": float(np.sum(-0.5 * z**2 - 0.5 * np.log(2 * np.pi) - np.log(spread))),
        "z_rms": float(np.sqrt(np.mean(z**2))),
        "mean_sd": float(sd.mean()),
    }


def is_inside(
    error: Float[np.ndarray, " cell"], sd: Float[np.ndarray, " cell"]
) -> Bool[np.ndarray, " cell"]:
    return np.abs(error) <= INTERVAL * sd + KNOWN
