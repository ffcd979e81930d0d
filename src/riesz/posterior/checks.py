"""What checks found of a posterior, as it carries it: figures, and what they mean in words; and
what else is told of a fit beside its draws."""

from collections.abc import Mapping
from typing import NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Float
from scipy.special import ndtr, ndtri

from riesz.notes import Note


class Limits(NamedTuple):
    """Up to where a figure is good, and from where it is bad; in between it is doubtful."""

    good: float
    bad: float


K_HAT = Limits(0.5, 0.7)
"""Shapes of the tail of weights up to which q is good, and above which not even what is corrected
by them is (Vehtari et al. 2024)."""

R_HAT = Limits(1.01, 1.05)
"""Agreement of chains: above the first they have not converged (Vehtari et al. 2021), above the
second they have not found the posterior."""

EFFECTIVE_DRAWS = Limits(400.0, 100.0)
"""Independent draws: enough for intervals, and below which means and quantiles are rough."""

MANY_DRAWS = 1000
"""Draws from which nothing is said of their number."""

MISSED = 3.0
"""Over the number of draws: the share of q that, by a chance of one in twenty, none of them met."""

TOLERATED_SHIFT, TOLERATED_GROWTH = 0.25, 0.2
"""Of a mean in posterior standard deviations, and of a standard deviation (in logarithms)."""

CLOSE = 0.1
"""Standard deviations of q by which any mean may be off and q still be left as it is."""

FAIR = 200
"""Effective draws from which corrected ones may stand for the posterior: means to 7 % of an sd."""

SURE = 3.0
"""Monte-Carlo errors by which a moment must be off before it is told, of one unknown; of many, as
many errors as are as improbable for the largest of them."""


STRAY = 0.003
"""Share of transitions that may diverge: with fewer, and chains that agree, the posteriors of blind
problems (paper/docs/blind.md) were right."""


class Worst(NamedTuple):
    """The coordinate with the largest offset of those beyond chance, or of all where none is."""

    coordinate: int
    is_beyond_chance: bool


def worst_offset(
    offsets: Float[np.ndarray, " coordinate"],
    errors: Float[np.ndarray, " coordinate"],
    tolerated: float,
) -> Worst:
    """Offsets count that are larger than tolerated, and than the largest of so many by chance."""
    sizes, sure = np.abs(offsets), -ndtri(ndtr(-SURE) / len(offsets))
    beyond = sizes > np.maximum(tolerated, sure * errors)
    is_any = bool(beyond.any())
    return Worst(int(np.argmax(np.where(beyond, sizes, -1.0) if is_any else sizes)), is_any)


class ImportanceCheck(eqx.Module):
    """What weights say of q: shape of their tail, effective draws, and corrected moments.

    `mean_shift` is how far the corrected mean lies from that of q in corrected standard
    deviations, `sd_ratio` the standard deviation of q over the corrected one, both for each
    coordinate, and with their Monte-Carlo errors. Where it `is_applied`, the posterior is no longer
    q but draws of it that were kept by their weights.
    """

    names: tuple[str, ...] = eqx.field(static=True)
    num_draws: int
    k_hat: float = eqx.field(converter=float)
    effective_draws: float = eqx.field(converter=float)
    mean: Float[np.ndarray, " coordinate"]
    sd: Float[np.ndarray, " coordinate"]
    mean_shift: Float[np.ndarray, " coordinate"]
    mean_shift_error: Float[np.ndarray, " coordinate"]
    sd_ratio: Float[np.ndarray, " coordinate"]
    sd_ratio_error: Float[np.ndarray, " coordinate"]
    is_applied: bool = False

    @property
    def worst_shift(self) -> Worst:
        return worst_offset(self.mean_shift, self.mean_shift_error, TOLERATED_SHIFT)

    @property
    def worst_width(self) -> Worst:
        ratio, error = self.sd_ratio, self.sd_ratio_error
        return worst_offset(np.log(ratio), error / ratio, TOLERATED_GROWTH)

    @property
    def is_sparse(self) -> bool:
        """Whether it rests on few draws, as where a solve takes seconds."""
        return self.num_draws < MANY_DRAWS

    @property
    def doubtful(self) -> float:
        """The shape above which so many draws are too few for corrected moments.

        (Vehtari et al. 2024: as many as 10^(1 / (1 - k)) are wanted.)
        """
        if not self.is_sparse:
            return K_HAT.bad
        return min(K_HAT.bad, 1 - 1 / np.log10(max(self.num_draws, 11)))

    @property
    def good(self) -> float:
        return min(K_HAT.good, self.doubtful)

    @property
    def largest_bias(self) -> float:
        r"""Of the mean of any quantity under q, in its standard deviations there.

        By the scatter of the weights, $|E_p f - E_q f| \le \mathrm{sd}_q(f)\,\mathrm{sd}_q(p/q)$.
        """
        return float(np.sqrt(max(0.0, self.num_draws / self.effective_draws - 1)))

    @property
    def is_adequate(self) -> bool:
        """Whether weighed draws may stand for the posterior, and are worth it."""
        is_fair = self.k_hat <= self.doubtful and self.effective_draws >= FAIR
        return bool(is_fair and self.largest_bias > CLOSE)

    @property
    def verdict(self) -> str:
        """In a few words, as the tail of the weights has it, which alone does not make q good."""
        if self.is_applied:
            return "good, as corrected" if self.k_hat <= self.good else "corrected in part"
        if self.k_hat <= self.good:
            good = f"good as far as {self.num_draws} draws tell" if self.is_sparse else "good"
            return "no heavy tail, but see below" if self.warnings else good
        if self.k_hat <= self.doubtful:
            return "to be taken with its corrected moments"
        return "not trusted"

    @property
    def warnings(self) -> tuple[Note, ...]:
        """What a reader of the posterior must know; nothing where q is good, or corrected by
        weights with a light tail.

        Weights with a heavy tail still give means; spreads hang on draws that are too rare, and
        come out a fifth too small (blind problems, paper/docs/blind.md).
        """
        if self.is_applied and not self.k_hat <= self.good:
            return (Note("importance_tail", value=self.k_hat, limit=self.good),)
        if self.is_applied:
            return ()
        if not self.k_hat <= self.doubtful:
            # Of the moments nothing: a few draws have all the weight, like a narrow posterior.
            code = "importance_failed_sparse" if self.is_sparse else "importance_failed"
            limit = {"limit": self.doubtful, "num_draws": self.num_draws}
            return (Note(code, value=self.k_hat, **limit),)
        result, shift, width = [], self.worst_shift, self.worst_width
        if shift.is_beyond_chance:
            i = shift.coordinate
            size = {"shift": self.mean_shift[i], "error": self.mean_shift_error[i]}
            result.append(Note("importance_shift", unknown=self.names[i], **size))
        if width.is_beyond_chance:
            i = width.coordinate
            size = {"ratio": self.sd_ratio[i], "error": self.sd_ratio_error[i]}
            code = "importance_narrow" if self.sd_ratio[i] < 1 else "importance_wide"
            result.append(Note(code, unknown=self.names[i], **size))
        return tuple(result)

    @property
    def reach(self) -> str:
        """What so few draws cannot see, in words; nothing where they are many."""
        if not self.is_sparse:
            return ""
        return (
            f"rests on {self.num_draws} draws, which may all have missed what has less than "
            f"{min(1.0, MISSED / self.num_draws):.1%} of q"
        )

    def __str__(self) -> str:
        reach = f"; {self.reach}" if self.is_sparse else ""
        text = (
            f"importance sampling with {self.num_draws} exact solves: k-hat {self.k_hat:.2f} "
            f"({self.verdict}), {self.effective_draws:.0f} effective draws{reach}"
        )
        if not np.isfinite(self.sd_ratio).all():  # a single draw has all the weight
            return text
        shift, ratio = self.worst_shift.coordinate, self.worst_width.coordinate
        if self.is_applied:
            return (
                f"{text}; the posterior is draws of q kept by these weights, which moved the mean "
                f"of {self.names[shift]} by {self.mean_shift[shift]:+.2f} +- "
                f"{self.mean_shift_error[shift]:.2f} sd, and made the sd of {self.names[ratio]} "
                f"{1 / self.sd_ratio[ratio]:.2f} of what it was"
            )
        return (
            f"{text}; corrected mean of {self.names[shift]} {self.mean_shift[shift]:+.2f} +- "
            f"{self.mean_shift_error[shift]:.2f} sd away, sd of {self.names[ratio]} "
            f"{self.sd_ratio[ratio]:.2f} +- {self.sd_ratio_error[ratio]:.2f} of the corrected one"
        )


class SamplerCheck(eqx.Module):
    """Over all coordinates the worst agreement of chains, and the fewest effective draws."""

    num_chains: int
    num_draws: int
    r_hat: float
    effective_draws: float
    divergences: int

    def __str__(self) -> str:
        return (
            f"{self.num_chains} chain{'' if self.num_chains == 1 else 's'} of {self.num_draws} "
            f"draws by exact solves: r_hat at most {self.r_hat:.3f} (1 where chains agree), worth "
            f"at least {self.effective_draws:.0f} independent draws, {self.divergences} diverged"
        )


class SurrogateError(eqx.Module):
    """For draws of a posterior: estimate and true error, by the energy norm of the state.

    `sensor_error` is the largest error at a sensor, in units of the noise.
    """

    estimate: Float[np.ndarray, " draw"]
    error: Float[np.ndarray, " draw"]
    sensor_error: Float[np.ndarray, " draw"]

    @property
    def efficiency(self) -> Float[np.ndarray, " draw"]:
        """Estimate over error: one at best; far below, residuals hide errors."""
        return self.estimate / self.error

    def __str__(self) -> str:
        index = self.efficiency
        return (
            f"surrogate over {len(self.error)} exact solves: off by {rms_of(self.error):.2%} of "
            f"the state in the energy norm, the dual residual says {rms_of(self.estimate):.2%} "
            f"(efficiency index {np.median(index):.2f}, {index.min():.2f} to {index.max():.2f}); "
            f"at the sensors by up to {self.sensor_error.max():.2g} of the noise"
        )


def rms_of(values: Float[np.ndarray, " draw"]) -> float:
    return float(np.sqrt(np.mean(values**2)))


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
