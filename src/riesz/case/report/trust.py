"""How far a posterior is to be trusted: each figure in words, with what to do about it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from riesz.diagnose.criticism import findings
from riesz.notes import Note, doubts
from riesz.posterior import checks
from riesz.prediction.sensors import DataFit

GOOD, OPEN, DOUBTFUL, BAD = "good", "not checked", "doubtful", "bad"
"""Open is what nobody looked at, which is no reason to doubt it, nor to trust it."""

SENSOR_GOOD, SENSOR_BAD = 0.1, 0.5
"""Errors of a surrogate at the sensors, in units of the noise."""

INDEX_GOOD, INDEX_BAD = 0.5, 0.2
"""Efficiency below which residuals hide errors."""

RESIDUALS_GOOD, RESIDUALS_BAD = 1.25, 2.0
RESIDUALS_SMALL = 0.5
COVERAGE = 0.95
SURE = 3.0
"""Standard errors by which the share of covered observations may be off."""

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

CONTRACTION_SEEN = 0.1
"""Share of the prior's variance that the data took away, below which they told nothing."""


@dataclass(frozen=True)
class Verdict:
    """One figure: what it is, what was found, how good that is, and what to do."""

    name: str
    found: str
    level: str
    words: str


UNCHECKED = {
    checks.EXACT: Verdict(
        "Method",
        "exact",
        GOOD,
        "All unknowns were integrated out exactly: there is no approximation to check.",
    ),
    checks.PARTLY: Verdict(
        "Method",
        "exact in part",
        OPEN,
        "Most unknowns were integrated out exactly, the others drawn about their most probable "
        'values and weighed. To sample those, set name = "mcmc" in [engine].',
    ),
    checks.WEIGHED: Verdict(
        "Method",
        "exact by weights",
        GOOD,
        "Most unknowns were integrated out exactly; the others were drawn about their most "
        "probable values and weighed by their exact density, and many draws share the weight.",
    ),
    checks.SAMPLED: Verdict(
        "r_hat (agreement of chains)",
        "unknown",
        BAD,
        "There are too few draws to say whether the chains agree. Take more.",
    ),
    checks.APPROXIMATE: Verdict(
        "Check by exact solves",
        "not done",
        OPEN,
        "Nobody compared this approximation with exact solves. Run riesz fit again with --check.",
    ),
}


def grade(value: float, good: float, bad: float) -> str:
    """Smaller is better; what is no number is bad."""
    if value <= good:
        return GOOD
    return DOUBTFUL if value <= bad else BAD


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
    result: list[Verdict] = []
    if isinstance(check, checks.ImportanceCheck):
        result += importance_verdict(check)
    elif isinstance(check, checks.SamplerCheck):
        result += sampler_verdict(check)
    else:
        result.append(UNCHECKED[method])
    result += [] if surrogate is None else surrogate_verdict(surrogate)
    result += [] if met.residual_rms is None else [residual_verdict(met.residual_rms)]
    num_exact = met.num_observations - met.num_censored
    result += [] if met.coverage is None else [coverage_verdict(met.coverage, num_exact)]
    result += [] if misfit is None else misfit_verdict(misfit)
    result += contraction_verdict(contraction)
    return result


def overall(every: Sequence[Verdict], notes: Sequence[Note]) -> str:
    """The worst of all; a warning alone is doubt."""
    levels = {one.level for one in every} | ({DOUBTFUL} if doubts(notes) else set())
    return next((level for level in (BAD, DOUBTFUL, OPEN) if level in levels), GOOD)


def importance_verdict(check: checks.ImportanceCheck) -> Iterator[Verdict]:
    if check.is_applied:
        yield from correction_verdict(check)
        return
    level = grade(check.k_hat, check.good, check.doubtful)
    reach = f" This {check.reach}." if check.is_sparse else ""
    words = {
        GOOD: f"The approximation reaches wherever the exact posterior does.{reach}",
        DOUBTFUL: "The exact posterior has more in its tails than the approximation: take the "
        "corrected means and intervals, or compare with --engine mcmc.",
        BAD: "The exact posterior reaches places that the approximation hardly ever visits: do "
        "not use these intervals. Fit with --engine mcmc, or with a richer family.",
    }[level]
    yield Verdict("k-hat (tail of the weights)", f"{check.k_hat:.2f}", level, words)
    share = check.effective_draws / check.num_draws
    level = grade(1 - share, 0.5, 0.9)
    words = {
        GOOD: "Most draws count: the approximation is close to the exact posterior.",
        DOUBTFUL: "Many draws hardly count: the approximation has the wrong shape in part.",
        BAD: "A few draws have nearly all the weight: the approximation is somewhere else than "
        "the posterior. Compare with --engine mcmc.",
    }[level]
    effective = f"{check.effective_draws:.0f} of {check.num_draws}"
    yield Verdict("Effective draws", effective, level, words)
    if level != BAD and np.isfinite(check.sd_ratio).all():
        yield shift_verdict(check)
        yield width_verdict(check)


def correction_verdict(check: checks.ImportanceCheck) -> Iterator[Verdict]:
    """Of a posterior that consists of weighed draws: what counts is their tail, and their worth."""
    level = GOOD if check.k_hat <= check.good else DOUBTFUL
    words = {
        GOOD: "The posterior consists of draws of the approximation, each as often as exact solves "
        "say: means and intervals are corrected.",
        DOUBTFUL: "The posterior consists of draws of the approximation, each as often as exact "
        "solves say, but a few of them have much of the weight: means are corrected, intervals may "
        "still be too narrow. Compare with --engine mcmc.",
    }[level]
    yield Verdict("k-hat (tail of the weights)", f"{check.k_hat:.2f}", level, words)
    level = grade(-check.effective_draws, -checks.EFFECTIVE_DRAWS.good, -checks.EFFECTIVE_DRAWS.bad)
    words = {
        GOOD: "Enough for means and intervals.",
        DOUBTFUL: "Means are rough, and quantiles in the tails rougher: compare with --engine "
        "mcmc before you publish intervals.",
        BAD: "Too few for means and intervals: compare with --engine mcmc.",
    }[level]
    effective = f"{check.effective_draws:.0f} of {check.num_draws}"
    yield Verdict("Effective draws", effective, level, words)


def shift_verdict(check: checks.ImportanceCheck) -> Verdict:
    worst, beyond = check.worst_shift
    shift = check.mean_shift[worst]
    level = GOOD if not beyond else (DOUBTFUL if abs(shift) < 1 else BAD)
    words = (
        "Means are where exact solves put them."
        if level == GOOD
        else f"The mean of {check.names[worst]} should lie {shift:+.2f} standard deviations away: "
        "train longer, or compare with --engine mcmc."
    )
    return Verdict("Means against exact solves", f"{shift:+.2f} sd at most", level, words)


def width_verdict(check: checks.ImportanceCheck) -> Verdict:
    worst, beyond = check.worst_width
    ratio = check.sd_ratio[worst]
    level = GOOD if not beyond else (DOUBTFUL if 0.5 < ratio < 2 else BAD)
    size = "too narrow" if ratio < 1 else "too wide"
    words = (
        "Intervals are as wide as exact solves make them."
        if level == GOOD
        else f"The interval of {check.names[worst]} is {size}, {ratio:.2f} of what it should be: "
        "train longer, or compare with --engine mcmc."
    )
    return Verdict("Widths against exact solves", f"{ratio:.2f} of the exact", level, words)


def sampler_verdict(check: checks.SamplerCheck) -> Iterator[Verdict]:
    level = grade(check.r_hat, *checks.R_HAT)
    words = {
        GOOD: "All chains tell the same.",
        DOUBTFUL: "The chains nearly agree: take more draws before you publish intervals.",
        BAD: "The chains do not agree: the posterior was not explored. Take more warm-up and "
        "draws, or look for unknowns that the data cannot tell apart.",
    }[level]
    yield Verdict("r_hat (agreement of chains)", f"{check.r_hat:.3f}", level, words)
    level = grade(-check.effective_draws, -checks.EFFECTIVE_DRAWS.good, -checks.EFFECTIVE_DRAWS.bad)
    words = {
        GOOD: "Enough independent draws for means and 95 % intervals.",
        DOUBTFUL: "Enough for means; the ends of intervals are rough. Take more draws.",
        BAD: "Too few independent draws, even for means. Take more draws.",
    }[level]
    yield Verdict("Effective draws", f"{check.effective_draws:.0f}", level, words)
    total = check.num_chains * check.num_draws
    level = grade(check.divergences / total, checks.STRAY, 0.01)
    words = (
        "The sampler followed the posterior wherever it went, or nearly."
        if level == GOOD
        else "Some steps went astray, so that a part of the posterior may be missed: raise "
        "target_accept, or look at the priors."
    )
    yield Verdict("Divergences", f"{check.divergences} of {total}", level, words)


def surrogate_verdict(error: checks.SurrogateError) -> Iterator[Verdict]:
    at_sensors = float(np.max(error.sensor_error))
    level = grade(at_sensors, SENSOR_GOOD, SENSOR_BAD)
    words = {
        GOOD: "The emulated state is the exact one as far as the measurements can tell.",
        DOUBTFUL: "The emulated state is off by a visible part of the noise: train longer.",
        BAD: "The emulated state is off by as much as the noise, which moves the posterior: "
        "train longer, or take the density exact.",
    }[level]
    yield Verdict("Emulator at the sensors", f"{at_sensors:.2g} of the noise", level, words)
    index = float(np.median(error.efficiency))
    level = grade(-index, -INDEX_GOOD, -INDEX_BAD)
    words = (
        "What training measures, the residual in the dual norm, is about the true error."
        if level == GOOD
        else "The residual hides a part of the error: refine the coarse levels of the mesh, or "
        "check with the density exact."
    )
    text = f"{checks.rms_of(error.estimate):.2%} of the state, efficiency index {index:.2f}"
    yield Verdict("Dual residual", text, level, words)


def residual_verdict(rms: float) -> Verdict:
    level = grade(rms, RESIDUALS_GOOD, RESIDUALS_BAD)
    words = {
        GOOD: "Measurements scatter about the prediction as the noise says.",
        DOUBTFUL: "Measurements scatter more than the noise says: the noise is larger, or the "
        "equation misses something there. Look at the largest residuals on the map.",
        BAD: "The model does not explain the measurements: intervals are too narrow to believe. "
        "Look for outliers, a missing source or a wrong boundary condition, raise the noise, or "
        "allow for model error with --density relaxed.",
    }[level]
    if level == GOOD and rms < RESIDUALS_SMALL:
        level = DOUBTFUL
        words = (
            "Measurements are met far better than their noise allows: the noise is overstated, or "
            "the unknowns follow every measurement."
        )
    return Verdict("Residuals", f"{rms:.2f} noise sd", level, words)


def coverage_verdict(coverage: float, num_observations: int) -> Verdict:
    chance = SURE * np.sqrt(COVERAGE * (1 - COVERAGE) / max(num_observations, 1))
    missing = COVERAGE - coverage
    level = grade(missing, float(chance), float(chance) + 0.15)
    words = (
        "About as many measurements lie inside their 95 % intervals as should."
        if level == GOOD
        else "Too many measurements lie outside their 95 % intervals: see Residuals."
    )
    return Verdict("Coverage of 95 % intervals", f"{coverage:.0%}", level, words)


def misfit_verdict(misfit: findings.Misfit) -> Iterator[Verdict]:
    """What contradicts the model, each by itself; in good posteriors of wrong models, too."""
    if not misfit.findings:
        words = "No observation, place, covariate or prior contradicts the model beyond chance."
        yield Verdict("Model against data", "nothing found", GOOD, words)
    if misfit.findings and misfit.caution is not None:
        yield Verdict("Model against data", "by a posterior in doubt", OPEN, str(misfit.caution))
    for one in misfit.findings:
        chance = "1 in 1,000 or less" if one.p < 1e-3 else f"1 in {1 / one.p:,.0f}"
        yield Verdict(ABOUT.get(one.kind, one.kind), f"chance {chance}", DOUBTFUL, str(one))


def as_percent(share: float) -> str:
    return "more than 99 %" if share > 0.99 else f"{max(share, 0):.0%}"


def contraction_verdict(contraction: Mapping[str, float]) -> Iterator[Verdict]:
    for name, share in contraction.items():
        is_informed = share >= CONTRACTION_SEEN
        words = (
            "The data narrowed what was believed before."
            if is_informed
            else "The data say next to nothing of it: what you see is your prior. Measure where "
            "it matters, or state the prior with care."
        )
        yield Verdict(
            f"Learned about {name}", as_percent(share), GOOD if is_informed else DOUBTFUL, words
        )
