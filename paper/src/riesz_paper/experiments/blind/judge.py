"""One blind problem from its draw to its row: the fit, its verdict, and how right it was."""

import dataclasses
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter, process_time

import numpy as np
from jaxtyping import Float

import riesz as rz
from riesz.case.report.trust import BAD, DOUBTFUL, GOOD, OPEN, overall, verdicts
from riesz.diagnose.criticism.findings import Finding
from riesz.diagnose.criticism.predictive_checks import misfit
from riesz.diagnose.facts import fit_facts
from riesz.errors import RieszError
from riesz.io.store.results import Row
from riesz.notes import doubts, note_of_warning
from riesz.posterior.family import AbstractGaussian
from riesz.posterior.posterior import Posterior
from riesz.prediction.sensors import DataFit
from riesz.problem.posing import with_observations
from riesz_paper.experiments.blind.breaks import points_at
from riesz_paper.experiments.blind.marginal import known_sd
from riesz_paper.experiments.blind.problem import BlindProblem, draw_problem
from riesz_paper.experiments.blind.reference import SECONDS, UNSETTLED, Reference, reference_of

FIT_SECONDS = 120.0
"""That a fit is given; `auto` ends with what it has when they are over."""

VERDICTS = {GOOD: "good", OPEN: "good", DOUBTFUL: "doubtful", BAD: "failed"}
"""What was not checked is good as long as nobody says otherwise: a user is not warned of it."""

MEAN_OFF, SD_OFF = 0.3, 0.25
"""A mean off by more of its sd, or an sd by more of itself, is wrong; by less than half, right."""

SURE = 3.0
"""Monte-Carlo errors, of reference and fit together, by which it must be off as well."""

NUM_BATCHES = 50
COVERAGE_DRAWS = 256


@dataclass(frozen=True)
class Fitted:
    """A posterior, and what a user is told of its computation."""

    posterior: Posterior
    verdict: str
    is_checked: bool
    notes: tuple[str, ...]
    seconds: float
    cpu_seconds: float


def fitted(blind: BlindProblem, seconds: float = FIT_SECONDS) -> Fitted:
    """As a problem file is, with a time limit; the verdict is that of a report's trust panel.

    Of the panel those lines count that are about the computation: checks, notes of the engine and
    warnings. How the data are met, and what they tell of an unknown, is not about it; nor is the
    error of the mesh, which a reference on the same mesh has as well.
    """
    clock, cpu = perf_counter(), process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        how = {"progress": False, "time_limit": seconds, "mesh_error": "correct"}
        posterior = rz.fit(blind.problem, seed=blind.number, **how)
    spent = perf_counter() - clock, process_time() - cpu
    others = dict.fromkeys(note_of_warning(one.message) for one in caught)
    facts = fit_facts(posterior)
    found = verdicts(
        facts.check,
        facts.surrogate_error,
        met=DataFit(len(blind.problem.observed), 0, None, None),
        contraction={},
        method=facts.method,
    )
    every = dict.fromkeys((*posterior.notes, *others))
    notes = tuple(one for one in every if one.code != "mesh_error")
    level = overall(found, notes)
    is_checked = OPEN not in {one.level for one in found}
    said = tuple(f"{v.name}: {v.found}" for v in found if v.level in (DOUBTFUL, BAD))
    return Fitted(posterior, VERDICTS[level], is_checked, (*said, *map(str, doubts(notes))), *spent)


@dataclass(frozen=True)
class Moments:
    """Of all coordinates by a fit, with Monte-Carlo errors: of means in sds, of log sds."""

    mean: Float[np.ndarray, " coordinate"]
    sd: Float[np.ndarray, " coordinate"]
    mean_error: Float[np.ndarray, " coordinate"]
    log_sd_error: Float[np.ndarray, " coordinate"]


def moments_of(posterior: Posterior) -> Moments:
    """Exact for a normal q; of draws, with what these are worth."""
    distribution = posterior.distribution
    if isinstance(distribution, AbstractGaussian):
        none = np.zeros(distribution.num_coordinates)
        return Moments(
            np.asarray(distribution.mean), np.sqrt(np.asarray(distribution.variances())), none, none
        )
    draws = np.asarray(distribution.all())
    mean, sd = draws.mean(axis=0), draws.std(axis=0)
    white = (draws - mean) / np.maximum(sd, 1e-300)
    if posterior.check is not None:  # weighed draws of q
        effective = np.full(len(mean), min(posterior.check.effective_draws, len(draws)))
    elif "effective_draws" in posterior.history:
        effective = np.nan_to_num(np.asarray(posterior.history["effective_draws"]), nan=1.0)
        tails = np.nan_to_num(np.asarray(posterior.history["tail_draws"]), nan=1.0)
        effective = np.minimum(effective, tails)
    else:  # some draws share the values of unknowns that were not integrated out
        return Moments(mean, sd, batch_error(white), batch_error(white**2) / 2)
    kurtosis = np.mean(white**4, axis=0)
    return Moments(mean, sd, 1 / np.sqrt(effective), np.sqrt((kurtosis - 1) / 4 / effective))


def batch_error(values: Float[np.ndarray, "draw coordinate"]) -> Float[np.ndarray, " coordinate"]:
    """Of a mean, by the scatter of those of batches, as draws come in groups."""
    length = max(1, len(values) // NUM_BATCHES)
    count = len(values) // length
    means = values[: count * length].reshape(count, length, -1).mean(axis=1)
    return means.std(axis=0, ddof=1) / np.sqrt(count)


def compared(ours: Moments, theirs: Reference) -> Row:
    """Errors by the reference's sds, and what they amount to."""
    zero = np.zeros(len(ours.mean))
    errors = np.abs(ours.mean - theirs.mean) / theirs.sd
    logs = np.log(np.maximum(ours.sd, 1e-300) / theirs.sd)
    mean_error, log_error = zero, zero
    if theirs.effective is not None and theirs.tails is not None:
        mean_error = 1 / np.sqrt(theirs.effective)
        log_error = np.sqrt((theirs.tails - 1) / 4 / theirs.effective)
    mean_noise = np.hypot(mean_error, ours.mean_error * np.exp(logs))
    log_noise = np.hypot(log_error, ours.log_sd_error)
    off = errors > np.maximum(MEAN_OFF, SURE * mean_noise)
    wide = np.abs(logs) > np.maximum(np.log(1 + SD_OFF), SURE * log_noise)
    near = (errors <= MEAN_OFF / 2).all() and (np.abs(logs) <= np.log(1 + SD_OFF / 2)).all()
    return {
        "worst_mean_error_sd": float(errors.max()),
        "sd_ratio_low": float(np.exp(logs.min())),
        "sd_ratio_high": float(np.exp(logs.max())),
        "is_wrong": bool(off.any() or wide.any()),
        "is_right": bool(near),
        "largest_monte_carlo_error": float(max(mean_noise.max(), log_noise.max())),
    }


def coverage_of(blind: BlindProblem, posterior: Posterior) -> float | None:
    """The share of places without a sensor whose true state lies in its 95 % interval."""
    how = {"num_draws": COVERAGE_DRAWS, "keep_draws": True, "seed": blind.number}
    try:
        states = rz.predict(posterior, "u", blind.places, **how).draws
    except RieszError:  # some draws have none
        return None
    assert states is not None
    low, high = np.quantile(states, (0.025, 0.975), axis=0)
    # What is known exactly, beside a given value, has no width to be judged by.
    varies = high - low > 1e-9 * np.abs(states).max()
    inside = (low <= blind.true_probes) & (blind.true_probes <= high)
    return float(inside[varies].mean()) if varies.any() else None


def as_fitted(blind: BlindProblem, posterior: Posterior) -> BlindProblem:
    """With the correction of the mesh that the fit has made: its posterior is what is judged.

    Of normal noise data are moved in the place of predictions, as closed forms know it then.
    """
    shift, sd = posterior.shift, known_sd(blind.problem)
    if shift is None:
        return blind
    problem = posterior.problem
    if sd is not None:
        given = blind.problem.observations
        moved = rz.observations(given.points, np.asarray(given.values) - shift.at_sensors)
        problem = with_observations(blind.problem, moved, rz.Gaussian(np.hypot(sd, shift.sd)))
    return dataclasses.replace(blind, problem=problem)


def row_of(seed: int, number: int, reference_seconds: float = SECONDS) -> Row:
    """All of one problem."""
    clock, cpu = perf_counter(), process_time()
    blind = draw_problem(seed, number)
    found = fitted(blind)
    posterior = found.posterior
    covariance = np.atleast_2d(np.asarray(posterior.coordinate_covariance()))
    theirs = reference_of(as_fitted(blind, posterior), covariance, reference_seconds)
    findings = findings_of(posterior, number)
    judged = theirs.kind != UNSETTLED
    errors = compared(moments_of(posterior), theirs) if judged else dict.fromkeys(ERRORS)
    return {
        **described(blind),
        "engine": posterior.engine,
        "verdict": found.verdict,
        **errors,
        "coverage95": coverage_of(blind, posterior),
        "is_corrected": posterior.shift is not None,
        "seconds": found.seconds,
        "is_checked": found.is_checked,
        "reference": theirs.kind,
        "reference_draws": worth_of(theirs),
        "reference_r_hat": theirs.r_hat,
        "reference_seconds": theirs.seconds,
        "fit_limit": FIT_SECONDS,
        "reference_limit": reference_seconds,
        "points_at_break": pointing(blind, findings),
        "findings": len(findings),
        "words": [f"{one.kind}: {one}" for one in findings],
        "notes": list(found.notes),
        "fit_cpu_seconds": found.cpu_seconds,
        "all_cpu_seconds": process_time() - cpu,
        "all_seconds": perf_counter() - clock,
    }


def findings_of(posterior: Posterior, seed: int) -> tuple[Finding, ...]:
    """Words on the model; none where most draws of a posterior that failed have no state."""
    try:
        return misfit(posterior, seed=seed).findings
    except RieszError:
        return ()


def worth_of(theirs: Reference) -> float | None:
    """Independent draws, of the coordinate with the fewest; nothing where none were drawn."""
    if theirs.effective is None or not np.isfinite(theirs.effective).all():
        return None
    return float(theirs.effective.min())


ERRORS = (
    *("worst_mean_error_sd", "sd_ratio_low", "sd_ratio_high", "is_wrong", "is_right"),
    "largest_monte_carlo_error",
)


def described(blind: BlindProblem) -> Row:
    """What a problem is."""
    problem, broken = blind.problem, blind.broken
    return {
        "family": blind.model.family,
        "shape": blind.shape,
        "terms": " ".join(name.replace(" ", "-") for name in blind.model.terms),
        "nodes": problem.forward.space.mesh.num_nodes,
        "unknowns": problem.num_coordinates,
        "sensors": len(problem.observed),
        "clustered": blind.clustered,
        "noise": blind.noise,
        "misspecified": broken is not None,
        "break": None if broken is None else broken.kind,
        "break_what": None if broken is None else broken.what,
        "break_seen": None if broken is None else broken.seen,
    }


def pointing(blind: BlindProblem, findings: Sequence[Finding]) -> bool | None:
    return None if blind.broken is None else points_at(blind.broken, findings)
