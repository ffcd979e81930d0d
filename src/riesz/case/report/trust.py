"""How far a posterior is to be trusted: each figure in words, with what to do about it."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from riesz.case.report.figures import SENTENCES
from riesz.diagnose.criticism import findings
from riesz.notes import Note, doubts
from riesz.posterior import checks
from riesz.prediction.sensors import DataFit

GOOD, OPEN, DOUBTFUL, BAD = "good", "not checked", "doubtful", "bad"
"""Open is what nobody looked at, which is no reason to doubt it, nor to trust it."""

SENSOR_LIMITS = 0.1, 0.5
"""Errors of a surrogate at the sensors, in units of the noise."""

INDEX_LIMITS = -0.5, -0.2
"""Efficiency below which residuals hide errors: more is better."""

RESIDUALS_SMALL, RESIDUALS_LIMITS = 0.5, (1.25, 2.0)
COVERAGE = 0.95
SURE = 3.0
"""Standard errors by which the share of covered observations may be off."""

CONTRACTION_SEEN = 0.1
"""Share of the prior's variance that the data took away, below which they told nothing."""

WORTH, WORTH_LIMITS = "Effective draws", [-limit for limit in checks.EFFECTIVE_DRAWS]
TAIL, CHAINS = "k-hat (tail of the weights)", "r_hat (agreement of chains)"

ABOUT = {
    findings.REGION: "Residuals by place",
    findings.COVARIATE: "Residuals by covariate",
    findings.NEIGHBOURS: "Residuals of neighbours",
    findings.SPREAD: "Spread of residuals",
    findings.TAILS: "Tails of residuals",
    findings.OBSERVATION: "A single observation",
    findings.PRIOR: "Prior against data",
}
"""What each kind of contradiction is called."""

UNCHECKED = {
    checks.EXACT: ("Method", "exact", GOOD),
    checks.PARTLY: ("Method", "exact in part", OPEN),
    checks.WEIGHED: ("Method", "exact by weights", GOOD),
    checks.SAMPLED: (CHAINS, "unknown", BAD),
    checks.APPROXIMATE: ("Check by exact solves", "not done", OPEN),
}
"""Where no check was made: by what the method is."""


@dataclass(frozen=True)
class Verdict:
    """One figure: what it is, what was found, how good that is, and what to do."""

    name: str
    found: str
    level: str
    words: str


def grade(value: float, good: float, bad: float = math.inf) -> str:
    """Smaller is better; what is no number is bad."""
    if value <= good:
        return GOOD
    return DOUBTFUL if value <= bad else BAD


def verdict_of(code: str, name: str, found: str, level: str, **values: Any) -> Verdict:
    words = SENTENCES.get(f"{code} {level}") or SENTENCES[f"{code} {DOUBTFUL}"]
    return Verdict(name, found, level, words.format(**values))


def verdicts(
    check: checks.ImportanceCheck | checks.SamplerCheck | None,
    surrogate: checks.SurrogateError | None,
    *,
    met: DataFit,
    contraction: Mapping[str, float],
    method: str = checks.APPROXIMATE,
    misfit: findings.Misfit | None = None,
) -> list[Verdict]:
    """All figures of a posterior; where no check was made, `method` says what that means."""
    if isinstance(check, checks.ImportanceCheck):
        result = list(importance_verdicts(check))
    elif isinstance(check, checks.SamplerCheck):
        result = list(sampler_verdicts(check))
    else:
        result = [Verdict(*UNCHECKED[method], SENTENCES[f"unchecked {method}"])]
    result += [] if surrogate is None else surrogate_verdicts(surrogate)
    result += data_verdicts(met)
    result += [] if misfit is None else misfit_verdicts(misfit)
    for name, share in contraction.items():
        level = GOOD if share >= CONTRACTION_SEEN else DOUBTFUL
        words = "more than 99 %" if share > 0.99 else f"{max(share, 0):.0%}"
        result.append(verdict_of("learned", f"Learned about {name}", words, level))
    return result


def overall(every: Sequence[Verdict], notes: Sequence[Note]) -> str:
    """The worst of all; a warning alone is doubt."""
    levels = {one.level for one in every} | ({DOUBTFUL} if doubts(notes) else set())
    return next((level for level in (BAD, DOUBTFUL, OPEN) if level in levels), GOOD)


def importance_verdicts(check: checks.ImportanceCheck) -> Iterator[Verdict]:
    tail, worth = f"{check.k_hat:.2f}", f"{check.effective_draws:.0f} of {check.num_draws}"
    if check.is_applied:  # the posterior is weighed draws: what counts is their tail and worth
        yield verdict_of("corrected tail", TAIL, tail, grade(check.k_hat, check.good))
        level = grade(-check.effective_draws, *WORTH_LIMITS)
        yield verdict_of("corrected worth", WORTH, worth, level)
        return
    level = grade(check.k_hat, check.good, check.doubtful)
    reach = f" This {check.reach}." if check.is_sparse else ""
    yield verdict_of("tail", TAIL, tail, level, reach=reach)
    level = grade(1 - check.effective_draws / check.num_draws, 0.5, 0.9)
    yield verdict_of("worth", WORTH, worth, level)
    if level == BAD or not np.isfinite(check.sd_ratio).all():
        return
    worst, is_off = check.worst_shift
    shift = check.mean_shift[worst]
    level = GOOD if not is_off else (DOUBTFUL if abs(shift) < 1 else BAD)
    values = {"unknown": check.names[worst], "shift": shift}
    found = f"{shift:+.2f} sd at most"
    yield verdict_of("shift", "Means against exact solves", found, level, **values)
    worst, is_off = check.worst_width
    ratio = check.sd_ratio[worst]
    level = GOOD if not is_off else (DOUBTFUL if 0.5 < ratio < 2 else BAD)
    values = {
        "unknown": check.names[worst],
        "ratio": ratio,
        "size": "narrow" if ratio < 1 else "wide",
    }
    found = f"{ratio:.2f} of the exact"
    yield verdict_of("width", "Widths against exact solves", found, level, **values)


def sampler_verdicts(check: checks.SamplerCheck) -> Iterator[Verdict]:
    level = grade(check.r_hat, *checks.R_HAT)
    yield verdict_of("chains", CHAINS, f"{check.r_hat:.3f}", level)
    level = grade(-check.effective_draws, *WORTH_LIMITS)
    yield verdict_of("sampled worth", WORTH, f"{check.effective_draws:.0f}", level)
    total = check.num_chains * check.num_draws
    level = grade(check.divergences / total, checks.STRAY, 0.01)
    yield verdict_of("divergences", "Divergences", f"{check.divergences} of {total}", level)


def surrogate_verdicts(error: checks.SurrogateError) -> Iterator[Verdict]:
    size = float(np.max(error.sensor_error))
    found, level = f"{size:.2g} of the noise", grade(size, *SENSOR_LIMITS)
    yield verdict_of("sensors", "Emulator at the sensors", found, level)
    index = float(np.median(error.efficiency))
    found = f"{checks.rms_of(error.estimate):.2%} of the state, efficiency index {index:.2f}"
    yield verdict_of("index", "Dual residual", found, grade(-index, *INDEX_LIMITS))


def data_verdicts(met: DataFit) -> Iterator[Verdict]:
    """How the data are met; nothing where all of them are limits."""
    if met.residual_rms is not None:
        is_small, found = met.residual_rms < RESIDUALS_SMALL, f"{met.residual_rms:.2f} noise sd"
        level = DOUBTFUL if is_small else grade(met.residual_rms, *RESIDUALS_LIMITS)
        yield verdict_of("small residuals" if is_small else "residuals", "Residuals", found, level)
    if met.coverage is not None:
        count = max(met.num_observations - met.num_censored, 1)
        chance = SURE * math.sqrt(COVERAGE * (1 - COVERAGE) / count)
        level = grade(COVERAGE - met.coverage, chance, chance + 0.15)
        yield verdict_of("coverage", "Coverage of 95 % intervals", f"{met.coverage:.0%}", level)


def misfit_verdicts(misfit: findings.Misfit) -> Iterator[Verdict]:
    """What contradicts the model, each by itself; in good posteriors of wrong models, too."""
    name = "Model against data"
    if not misfit.findings:
        yield verdict_of("model", name, "nothing found", GOOD)
    elif misfit.caution is not None:
        yield Verdict(name, "by a posterior in doubt", OPEN, str(misfit.caution))
    for one in misfit.findings:
        chance = "1 in 1,000 or less" if one.p < 1e-3 else f"1 in {1 / one.p:,.0f}"
        yield Verdict(ABOUT.get(one.kind, one.kind), f"chance {chance}", DOUBTFUL, str(one))
