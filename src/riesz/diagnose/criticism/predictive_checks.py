"""Which observations, which places and which priors contradict a model, and what to look for.

Each observation is held against what all others say of it. What is found is rarer, where the model
is right, than the level of its kind; all levels add up to less than one in twenty, so that a right
model is contradicted in one of twenty problems at most, not one of twenty times that one looks.
(With few observations and limits of detection among them a little more often: the law of residuals
takes these to say nothing of the unknowns.)
"""

from collections.abc import Mapping, Sequence

import jax.random as jr
import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from riesz.diagnose.criticism import sizes
from riesz.diagnose.criticism.findings import Finding, Misfit, Readers
from riesz.diagnose.criticism.law import Law
from riesz.diagnose.criticism.patterns import covariate, neighbours, region_findings, site_points
from riesz.diagnose.criticism.prior import prior_conflicts
from riesz.diagnose.criticism.residuals import (
    Residuals,
    can_be_left_out,
    has_learned_noise,
    residuals_of,
)
from riesz.errors import RieszError
from riesz.notes import Note
from riesz.observe.effects import WithEffects
from riesz.observe.likelihood import StudentT
from riesz.posterior.checks import K_HAT, R_HAT
from riesz.posterior.posterior import Posterior, representative_draws
from riesz.prediction.drawing import posterior_draws
from riesz.prediction.draws import NodalDraws, PosteriorDraws
from riesz.problem.problem import InverseProblem

NUM_DRAWS = 1000
NUM_COPIES, FEWEST_COPIES = 2000, 500
MOST_NUMBERS = 20_000_000
"""In copies of residuals that are held at once."""

FEW, FEW_SHARE = 2, 0.05
"""Observations that are far off by themselves, and left out of patterns; more of them are one."""

FEWEST, FEWEST_DRAWS = 3, 50
"""Observations, and draws, from which residuals tell something."""

TIME, AXES = "time", ("x", "y", "z")

HEAVY, COUNTED, HEAVIER = Note("state_heavy"), Note("state_counts"), Note("state_heavier")


def misfit(
    posterior: Posterior,
    *,
    num_draws: int = NUM_DRAWS,
    seed: int = 0,
    covariates: Mapping[str, ArrayLike] | None = None,
    labels: Sequence[str] | None = None,
) -> Misfit:
    """What contradicts a posterior's model, in words, by so many draws with a solve each.

    `covariates` are numbers for each observation that might explain residuals, whether the model
    has them or not; `labels` are names by which observations are spoken of.
    """
    drawn = posterior_draws(posterior, num_draws=num_draws, seed=seed, for_summary=True)
    return misfit_of(posterior, drawn, covariates=covariates, labels=labels)


def misfit_of(
    posterior: Posterior,
    draws: PosteriorDraws,
    *,
    covariates: Mapping[str, ArrayLike] | None = None,
    labels: Sequence[str] | None = None,
) -> Misfit:
    """The same by draws that were made already: nothing is solved."""
    problem, observed = posterior.problem, draws.observed
    count = len(observed.values)
    given = check_covariates(covariates or {}, count)
    if labels is not None and len(labels) != count:
        raise RieszError(f"there are {len(labels)} labels for {count} observations: give one each.")
    names = None if labels is None else tuple(labels)
    empty = np.zeros(0)
    if draws.num_draws < FEWEST_DRAWS:
        return Misfit((), empty, empty, names, caution_of(posterior))
    coordinates, aligned = coordinates_of(posterior, draws)
    result = prior_conflicts(problem.latents, coordinates, levels_of(draws) if aligned else {})
    if count < FEWEST or not can_be_left_out(problem.likelihood, count):
        return Misfit(tuple(result), empty, empty, names, caution_of(posterior))
    rng = np.random.default_rng(draws.seed)
    own = residuals_of(
        problem, observed, coordinates if aligned else None, coordinates.mean(axis=0), rng
    )
    readers = Readers(problem.observations.points, names)
    result += residual_findings(problem, draws, own, given, readers, rng)
    # The surest first: what is far off may be what moves the rest.
    result = tuple(sorted(result, key=lambda one: one.p))
    return Misfit(result, own.values, own.k_hat, names, caution_of(posterior))


def caution_of(posterior: Posterior) -> Note | None:
    """Where a posterior is not the one of its model, what contradicts it may be its own doing."""
    check, r_hat = posterior.check, posterior.history.get("r_hat")
    why = None
    if check is not None and check.warnings:
        why = Note("k_hat_high", value=check.k_hat)
        why = Note("moments_off") if check.k_hat <= check.good else why
    elif r_hat is not None and not float(np.max(np.asarray(r_hat))) <= R_HAT.bad:
        why = Note("r_hat_high", value=np.max(np.asarray(r_hat)))
    return None if why is None else Note("posterior_in_doubt", reason=why)


def check_covariates(
    covariates: Mapping[str, ArrayLike], count: int
) -> dict[str, Float[np.ndarray, " sensor"]]:
    result = {name: np.asarray(one, float) for name, one in covariates.items()}
    for name, one in result.items():
        if one.shape != (count,):
            raise RieszError(
                f"the covariate {name!r} has shape {one.shape}: give a number for each of {count} "
                "observations."
            )
    return result


def coordinates_of(
    posterior: Posterior, draws: PosteriorDraws
) -> tuple[Float[np.ndarray, "draw coordinate"], bool]:
    """Of the draws, and whether row by row; of some that were lost, nobody knows which, and those
    farthest out are taken for them."""
    key, _ = jr.split(jr.key(draws.seed))
    asked = draws.num_draws + draws.num_lost
    result = np.asarray(representative_draws(posterior, key, max(asked, 2)), float)
    if len(result) == draws.num_draws:
        return result, True
    middle = np.median(result, axis=0)
    spread = np.median(np.abs(result - middle), axis=0)
    far = np.max(np.abs(result - middle) / np.maximum(spread, 1e-300), axis=1)
    return result[np.argsort(far)[: draws.num_draws]], False


def levels_of(draws: PosteriorDraws) -> dict[str, Float[np.ndarray, " draw"]]:
    """Means of fields over the nodes, of logarithms where these are what is kept."""
    return {
        name: one.at_nodes.values().mean(axis=1)
        for name, one in draws.unknowns.items()
        if isinstance(one, NodalDraws)
    }


def residual_findings(
    problem: InverseProblem,
    draws: PosteriorDraws,
    own: Residuals,
    given: dict[str, Float[np.ndarray, " sensor"]],
    readers: Readers,
    rng: np.random.Generator,
) -> list[Finding]:
    """In the order in which one would ask: where, with what, how much, and which single ones."""
    observed, law = draws.observed, own.law
    count = len(own.values)
    num_copies = int(np.clip(MOST_NUMBERS // count, FEWEST_COPIES, NUM_COPIES))
    against = sizes.Against(own.values, law.copies(rng, num_copies) / own.sd)
    noise, advice = describe_noise(problem)
    scattered = sizes.scatter_findings(against, readers, noise)
    far, _ = sizes.outliers(own.values)
    is_few = 0 < len(far) <= max(FEW, FEW_SHARE * count)
    shape, law = without_outliers(against, law, far if is_few else far[:0])
    if any(one.places for one in scattered) or has_learned_noise(problem.likelihood, count):
        # Patterns beyond the spread, which is told by itself or was learned.
        shape = shape.of_size_one()
    sd = np.sqrt(law.variances())
    places, times = site_points(readers.points), problem.observations.times
    known = by_axes(problem) | effects_squared(problem) | given
    hangs = own.k_hat > K_HAT.bad  # the posterior would be elsewhere without them
    return [
        *region_findings(shape, law, places, readers, sd),
        *covariate(shape, law, known, observed.predicted.values().mean(axis=0), sd),
        *neighbours(shape, law, places, readers, sd, times),
        *scattered,
        *sizes.tails(against, readers, noise, advice),
        *sizes.outlier_findings(against, readers, observed.values, observed.censored, hangs),
    ]


def without_outliers(
    against: sizes.Against, law: Law, far: Int[np.ndarray, " some"]
) -> tuple[sizes.Against, Law]:
    """Residuals to look for patterns in: without a few that are told by themselves, which would
    move all others."""
    if not len(far):
        return against.clip(), law
    before, after = np.sqrt(law.variances()), law.without(far)
    sd = np.sqrt(after.variances())
    scores = (law.scores_without(far, one * before) for one in (against.residuals, against.copies))
    cleared = [one / sd for one in scores]
    for one in cleared:
        one[..., far] = 0.0
    return sizes.Against(*cleared).clip(), after


def describe_noise(problem: InverseProblem) -> tuple[str, Note]:
    """The noise in a few words, and what to state where it has too light tails."""
    main = problem.likelihood.noise
    if problem.likelihood.is_discrete:
        return "counts" if "counts" in main.describe() else "shares", COUNTED
    if isinstance(main, StudentT):
        return main.describe(), HEAVIER
    return problem.likelihood.noise.describe().split(";")[0], HEAVY


def by_axes(problem: InverseProblem) -> dict[str, Float[np.ndarray, " sensor"]]:
    """What every observation has: where it is, and when it was made."""
    points = problem.observations.points
    result = {AXES[axis]: points[:, axis] for axis in range(points.shape[1])}
    times = problem.observations.times
    return result | ({} if times is None else {TIME: times})


def effects_squared(problem: InverseProblem) -> dict[str, Float[np.ndarray, " sensor"]]:
    """Covariates that the model has, which may have a curved effect."""
    main, count = problem.likelihood.main, len(problem.observed)
    if not isinstance(main, WithEffects) or main.design is None or len(main.design) != count:
        return {}
    design = np.asarray(main.design, float)
    labels = main.labels or tuple(map(str, range(design.shape[1])))
    return {
        f"the square of {label}": (own - own.mean()) ** 2
        for label, own in zip(labels, design.T, strict=True)
        if len(np.unique(own)) > 2
    }
