"""A fit of one test: a start by closed forms, then the Gaussian about the mode of the equation.

Errors are independent, or readings of a well share some as well: a level, by which all of them are
off, and a drift, which forgets itself over some share of a decade of time. What the model lacks is
not noise, and intervals that take it for noise are too narrow.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Float

from riesz.engines.laplace.engine import Laplace
from riesz.errors import RieszError
from riesz.inference.fit import fit
from riesz.observe.grouped import GroupedNormal
from riesz.observe.likelihood import AbstractLikelihood, Gaussian
from riesz.posterior.checks import rms
from riesz.posterior.posterior import Posterior
from riesz.problem.problem import InverseProblem
from riesz.pumping.closed_forms import closest, superposed
from riesz.pumping.flow import PRIORS, pumped_problem
from riesz.pumping.well import Numbers, Pumped, Readings

NOISE_SD, LEVEL_SD, DRIFT_SD, MEMORY = SCALES = ("noise_sd", "level_sd", "drift_sd", "memory")
NOISE_PRIORS = {
    **dict.fromkeys(SCALES[:3], dist.LogNormal(np.log(0.01), 1.5)),  # m: half a mm to 20 cm
    MEMORY: dist.LogNormal(0.0, 1.0),  # of the drift, in units of the logarithm of time
}

INDEPENDENT, DRIFT, AUTO = "independent", "drift", "auto"
NOISES = (INDEPENDENT, DRIFT)

NUM_DRAWS, NUM_CURVES = 20_000, 40
LEAST = 1e-4  # m, of errors where a search begins

Coordinates = Float[np.ndarray, " coordinate"]


@dataclass(frozen=True, eq=False)
class Fitted:
    """Draws of the parameters, and what readings should have been."""

    posterior: Posterior
    draws: dict[str, Float[np.ndarray, " draw"]]
    predicted: Numbers  # at the mode
    residual: Numbers  # readings less that
    band: tuple[Numbers, Numbers]  # 95 % of what the parameters leave open
    readings_band: tuple[Numbers, Numbers]  # the same of readings, with their errors
    noise: str  # of errors: independent, or some that a well's readings share
    log_evidence: dict[str, float]  # of each kind of noise that was tried


def noise_of(kind: str, seen: Readings) -> tuple[AbstractLikelihood, dict[str, Any]]:
    """The likelihood, and the priors of what it names."""
    if kind == INDEPENDENT:
        return Gaussian(NOISE_SD), {NOISE_SD: NOISE_PRIORS[NOISE_SD]}
    shared = GroupedNormal(
        NOISE_SD,
        [seen.wells[number] for number in seen.well],
        level_sd=LEVEL_SD,
        drift_sd=DRIFT_SD,
        correlation_time=MEMORY,
        times=np.log(seen.time),
    )
    return shared, NOISE_PRIORS


def fit_test(well: Pumped, seen: Readings, *, noise: str = AUTO, seed: int = 0) -> Fitted:
    """What readings of a test say of the aquifer.

    With `noise="auto"` errors are of the kind under which the readings are more probable.
    """
    check_readings(well, seen)
    guess, found, failed = first_guess(well, seen), {}, None
    for kind in NOISES if noise == AUTO else (noise,):
        own = pumped_problem(well, seen, *noise_of(kind, seen))
        try:
            found[kind] = normal_about(own, coordinates_of(own, guess), seed)
        except RieszError as error:
            failed = error
    if not found:
        assert failed is not None
        raise failed
    evidence = {kind: log_evidence(one) for kind, one in found.items()}
    chosen = max(evidence, key=evidence.__getitem__)
    posterior, problem = found[chosen], found[chosen].problem
    levels = levels_of(problem)
    predicted = levels(posterior.coordinate_mean())
    coordinates = posterior.sample(jr.key(seed), NUM_DRAWS)
    curves = np.array([levels(one) for one in coordinates[:NUM_CURVES]])
    variance, errors = curves.var(axis=0, ddof=1), problem.z(posterior.coordinate_mean())
    wide = sum(float(errors[name]) ** 2 for name in SCALES[:3] if name in errors)
    spread, of_readings = (1.96 * np.sqrt(one) for one in (variance, variance + wide))
    return Fitted(
        posterior=posterior,
        draws={name: np.asarray(value) for name, value in jax.vmap(problem.z)(coordinates).items()},
        predicted=predicted,
        residual=seen.level - predicted,
        band=(predicted - spread, predicted + spread),
        readings_band=(predicted - of_readings, predicted + of_readings),
        noise=chosen,
        log_evidence=evidence,
    )


def log_evidence(posterior: Posterior) -> float:
    """Of the readings, by the curvature about the mode."""
    bends = np.log1p(np.asarray(posterior.history["eigenvalues"]))
    return float(-posterior.history["cost"][-1] - 0.5 * bends.sum())


def check_readings(well: Pumped, seen: Readings) -> None:
    """Raise where readings cannot be of such a well."""
    unknowns = len(well.parameters) + 1
    if len(seen) <= unknowns:
        raise RieszError(f"{len(seen)} readings are too few for {unknowns} unknowns.")
    if seen.radius.min() < well.well_radius:
        raise RieszError(
            f"a reading is {seen.radius.min():g} m from the axis of the pumped well, whose radius "
            f"is {well.well_radius:g} m: those in the well itself are at its radius."
        )
    last = seen.time.max()
    taken = sum(change * max(last - time, 0.0) for time, change in well.changes())
    if taken * seen.level.mean() <= 0:
        raise RieszError(
            f"{taken:.4g} m3 were pumped, but drawdowns are {seen.level.mean():.3g} m in the mean: "
            "a fall of head is positive, and so is a rate of water taken out."
        )
    if well.skin and not well.inside(seen.radius).any():
        raise RieszError(
            f"no reading is of the pumped well itself, at {well.well_radius:g} m: what it resists "
            "(skin) is felt nowhere else. Leave skin out, or give readings in the well."
        )


def normal_about(problem: InverseProblem, start: Coordinates, seed: int = 0) -> Posterior:
    return fit(problem, Laplace(start=jnp.asarray(start)), seed=seed, progress=False, check=False)


def levels_of(problem: InverseProblem) -> Callable[[Any], Numbers]:
    """What readings should have been, compiled once."""
    found = jax.jit(lambda own: problem.predicted(problem.state(own), problem.z(own)))

    def levels(own: Any) -> Numbers:
        values = found(jnp.asarray(own))
        problem.check_solved(jnp.asarray(own)[None], values[None])
        return np.asarray(values)

    return levels


def first_guess(well: Pumped, seen: Readings) -> dict[str, float]:
    """By closed forms; what is left over is half noise."""
    values = closest(well, seen)
    rest = max(rms(seen.level - superposed(well, seen.radius, seen.time, values)), LEAST)
    errors = {NOISE_SD: rest / 2, LEVEL_SD: rest, DRIFT_SD: rest / 2, MEMORY: 1.0}
    return values | {"rc": well.well_radius} | errors


def coordinates_of(
    problem: InverseProblem, values: Mapping[str, float], others: Coordinates | None = None
) -> Coordinates:
    """Where unknowns have these values; those not named are as in `others`, or at their median."""
    names = problem.latents.coordinate_names()
    found = np.zeros(len(names)) if others is None else np.array(others)
    for place, name in enumerate(names):
        prior = (PRIORS | NOISE_PRIORS)[name]
        if name in values:
            found[place] = (np.log(values[name]) - prior.loc) / prior.scale
    return found
