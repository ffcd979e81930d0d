"""Ranks and coverage over many data sets: what simulation-based calibration finds."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import chdtrc, ndtr, ndtri

LEVELS = (0.5, 0.8, 0.95)
NUM_BINS = 20
"""Of a rank histogram; fewer where there would be less than five data sets in one."""

FEWEST_IN_BIN = 5
DOUBTFUL = 0.01
"""P-values below which ranks are called not uniform; of many unknowns, all together."""

SURE = 3.0
"""Binomial standard errors beyond which a coverage is called wrong; of many unknowns, as many as
are as improbable for the worst of them."""

HIDDEN = 0.1
"""Errors of a surrogate in units of the noise that do not show."""

AGREED = 0.1
"""Posterior standard deviations within which two fits are called the same."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """Where the truths of many data sets lie in their posteriors.

    `ranks` are the posterior's probabilities below the truth, uniform between 0 and 1 where
    posteriors are right (Talts et al. 2018). `sensor_errors` is the largest error of the surrogate
    at a sensor for each truth, in units of the noise; `contraction` the part of the prior variance
    that data take away; `start_gaps` how far apart two fits of one data set by other draws end, in
    posterior standard deviations.
    """

    names: tuple[str, ...]
    ranks: Float[np.ndarray, "data coordinate"]
    contraction: Float[np.ndarray, " coordinate"]
    sensor_errors: Float[np.ndarray, " data"]
    start_gaps: Float[np.ndarray, " again"]
    num_unsettled: int
    seconds: float

    @property
    def num_data_sets(self) -> int:
        return len(self.ranks)

    @cached_property
    def histograms(self) -> Float[np.ndarray, "coordinate bin"]:
        """Data sets by rank."""
        bins = max(2, min(NUM_BINS, self.num_data_sets // FEWEST_IN_BIN))
        edges = np.linspace(0.0, 1.0, bins + 1)
        return np.array([np.histogram(column, edges)[0] for column in self.ranks.T], float)

    @cached_property
    def p_values(self) -> Float[np.ndarray, " coordinate"]:
        """Of the chi-square test that ranks are uniform."""
        expected = self.histograms.mean(axis=1, keepdims=True)
        squares = np.sum((self.histograms - expected) ** 2 / expected, axis=1)
        return chdtrc(self.histograms.shape[1] - 1, squares)

    def coverage(self, level: float) -> Float[np.ndarray, " coordinate"]:
        """The share of truths inside the central interval of this probability."""
        return np.mean(np.abs(self.ranks - 0.5) <= level / 2, axis=0)

    def standard_error(self, level: float) -> float:
        """Of a coverage that is right."""
        return float(np.sqrt(level * (1 - level) / self.num_data_sets))

    @property
    def sensor_error(self) -> float:
        """Not exceeded on 95 % of the prior."""
        return float(np.quantile(self.sensor_errors, 0.95))

    @property
    def calibrated(self) -> bool:
        """Whether nothing speaks against the posteriors."""
        return not self.warnings()

    def warnings(self) -> tuple[str, ...]:
        """What speaks against the posteriors, in words."""
        result = []
        count = len(self.names)
        sure = -ndtri(ndtr(-SURE) / count)
        for i, name in enumerate(self.names):
            if self.p_values[i] < DOUBTFUL / count:
                result.append(
                    f"the ranks of {name} are not uniform (p = {self.p_values[i]:.2g}): its "
                    f"posteriors are {self.fault(i)}."
                )
            for level in LEVELS:
                gap = self.coverage(level)[i] - level
                if abs(gap) > sure * self.standard_error(level):
                    result.append(
                        f"{level:.0%} intervals of {name} hold {self.coverage(level)[i]:.1%} of "
                        f"the truths: they are too {'narrow' if gap < 0 else 'wide'}."
                    )
        if not self.sensor_error <= HIDDEN:
            result.append(
                f"the surrogate is off by more than {HIDDEN} of the noise for more than 5 % of the "
                f"prior (95th percentile {self.sensor_error:.2g}): ask for more features, or "
                "narrow the prior."
            )
        apart = float(np.mean(~(self.start_gaps <= AGREED))) if len(self.start_gaps) else 0.0
        if apart > 0.05:
            result.append(
                f"{apart:.0%} of the data sets end elsewhere by other draws: the posterior may "
                "have several modes, or be hard to find; fit some of them by sample."
            )
        if self.num_unsettled > 0.05 * self.num_data_sets:
            result.append(
                f"of {self.num_unsettled} of {self.num_data_sets} data sets weighed draws tell too "
                "little: narrow the prior, or fit some of them by sample."
            )
        return tuple(result)

    def fault(self, i: int) -> str:
        """How the posteriors of one unknown are wrong, by mean and spread of its ranks."""
        ranks = self.ranks[:, i]
        lean = (ranks.mean() - 0.5) * np.sqrt(12 * len(ranks))
        spread = ranks.var() * 12  # one where uniform
        if abs(lean) > SURE:
            return f"too {'low' if lean > 0 else 'high'}"
        return "too narrow" if spread > 1 else "too wide"

    def rows(self) -> list[dict[str, Any]]:
        """One for each unknown number."""
        return [
            {
                "unknown": name,
                "chi_square_p": float(self.p_values[i]),
                **{f"coverage{level:.0%}".rstrip("%"): float(self.coverage(level)[i])
                   for level in LEVELS},
                "contraction": float(self.contraction[i]),
                "histogram": self.histograms[i].astype(int).tolist(),
            }
            for i, name in enumerate(self.names)
        ]  # fmt: skip

    def figures(self) -> dict[str, Any]:
        """The rest, by name."""
        return {
            "num_data_sets": self.num_data_sets,
            "calibrated": self.calibrated,
            "sensor_error_95th_percentile": self.sensor_error,
            "sensor_error_worst": float(self.sensor_errors.max()),
            **{f"standard_error{level:.0%}".rstrip("%"): self.standard_error(level)
               for level in LEVELS},
            "same_by_other_draws": float(np.mean(self.start_gaps <= AGREED)),
            "num_unsettled": self.num_unsettled,
            "seconds": self.seconds,
            "warnings": list(self.warnings()),
        }  # fmt: skip

    def __str__(self) -> str:
        heading = "unknown  p of uniform ranks  " + "  ".join(f"in {x:.0%}" for x in LEVELS)
        lines = [f"{self.num_data_sets} data sets from the prior, fitted in {self.seconds:.0f} s"]
        lines += [f"{heading}  contraction"]
        for i, name in enumerate(self.names):
            shares = "  ".join(f"{self.coverage(x)[i]:>6.1%}" for x in LEVELS)
            lines.append(f"{name}  {self.p_values[i]:.2g}  {shares}  {self.contraction[i]:.1%}")
        lines.append(
            f"surrogate at the sensors: off by at most {self.sensor_error:.2g} of the noise on "
            "95 % of the prior; "
            f"{np.mean(self.start_gaps <= AGREED):.0%} of fits by other draws end the same"
        )
        lines += [f"warning: {note}" for note in self.warnings()]
        return "\n".join([*lines] if self.warnings() else [*lines, "calibrated: nothing speaks "
                         "against these posteriors"])  # fmt: skip
