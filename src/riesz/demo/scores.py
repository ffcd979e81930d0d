"""Rows of the demo's table: scores of predictions where samples were held back."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr

from riesz.case.data.prepared import Prepared

METAL, SECONDARIES = "Cd", ("Pb", "Ni", "Zn")
PLACE, ALL = "place", f"place, {', '.join(SECONDARIES)}"
"""What a prediction goes by."""

PUBLISHED = {"GPDK": 0.451, "VAE": 0.569, "VAE-DT": 0.478, "VAE-NLD": 0.549}
"""Mean absolute errors in mg/kg, of Tait & Damoulas (2020), Table 1; by `ALL`."""

Row = dict[str, Any]


@dataclass(frozen=True, eq=False)
class LogNormal:
    """What is predicted for each sample: its logarithm is normal."""

    mean: Float[np.ndarray, " sample"]
    sd: Float[np.ndarray, " sample"]

    def quantile(self, normal: float) -> Float[np.ndarray, " sample"]:
        """So many standard deviations above the median."""
        return np.exp(self.mean + normal * self.sd)

    def crps(self, truth: Float[np.ndarray, " sample"]) -> Float[np.ndarray, " sample"]:
        """The continuous ranked probability score (Baran & Lerch 2015, section 2.2)."""
        reached = (np.log(truth) - self.mean) / self.sd
        beyond = ndtr(reached - self.sd) + ndtr(self.sd / np.sqrt(2)) - 1
        expected = np.exp(self.mean + self.sd**2 / 2)
        return truth * (2 * ndtr(reached) - 1) - 2 * expected * beyond


def row_of(
    method: str,
    role: str,
    knows: str,
    mae: float,
    *,
    crps: float | None = None,
    coverage95: float | None = None,
    seconds: float | None = None,
) -> Row:
    return {
        "method": method,
        "role": role,
        "knows": knows,
        "metal": METAL,
        "mae": mae,
        "crps": crps,
        "coverage95": coverage95,
        "seconds": seconds,
    }


def scored(predicted: LogNormal, truth: Float[np.ndarray, " sample"]) -> Row:
    low, high = (predicted.quantile(normal) for normal in (-1.96, 1.96))
    return {
        "mae": float(np.abs(predicted.quantile(0.0) - truth).mean()),
        "crps": float(predicted.crps(truth).mean()),
        "coverage95": float(np.mean((low <= truth) & (truth <= high))),
    }


def references(known: Prepared, held_back: Prepared) -> Sequence[Row]:
    """What takes no model, one distribution for all and the nearest sample; what was published."""
    truth = np.exp(held_back.values)
    alike = LogNormal(*np.full((len(truth), 2), [known.values.mean(), known.values.std()]).T)
    apart = np.linalg.norm(held_back.points[:, None] - known.points, axis=-1)
    nearest = np.exp(known.values[apart.argmin(axis=1)])
    return (
        row_of("all samples alike", "baseline", "nothing", **scored(alike, truth)),
        row_of("nearest sample", "baseline", PLACE, float(np.abs(nearest - truth).mean())),
        *(row_of(method, "published", ALL, mae) for method, mae in PUBLISHED.items()),
    )
