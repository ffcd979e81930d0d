"""A posterior in a few lines: its unknowns in their units, how it fits the data, and warnings.

How well it meets the data is told by draws of what it predicts for them; of itself a sampler tells
whether its chains agree, and what its draws are worth.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from riesz.engines.conditional.engine import Conditional
from riesz.posterior.checks import ImportanceCheck, SurrogateError
from riesz.posterior.family import EmpiricalDraws
from riesz.posterior.posterior import Posterior, is_field, label_of, regions_of
from riesz.prediction.predict import measured, quantity_draws
from riesz.prediction.quantity import UnknownAt
from riesz.problem.problem import InverseProblem

AtNodes = Float[Array, " node"]

ENDS = (0.025, 0.975)
"""Of the predictive intervals, which hold 95 %."""

NUM_DRAWS = 1000
UNCHECKED = (
    "not checked against exact solves: use with_importance_check(posterior), or riesz fit --check"
)
INTEGRATED = (
    "by exact solves; unknowns that are not integrated out, if any, are taken to be normal about "
    "their most probable values: over = 'nuts' samples them"
)
LEVELS = {"q05": 0.05, "q50": 0.5, "q95": 0.95}


class AtSensors(eqx.Module):
    """What one draw, or each of many, says of the observations."""

    predicted: Float[Any, "*draw sensor"]  # what they scatter about
    noise: Float[Any, "*draw sensor"]  # by this standard deviation
    measured: Float[Any, "*draw sensor"]  # new ones


def at_sensors(key: PRNGKeyArray, problem: InverseProblem, state: AtNodes, z: PyTree) -> AtSensors:
    """Of one draw, for `quantity_draws` to gather."""
    predicted, likelihood = problem.predicted(state, z), problem.likelihood
    return AtSensors(
        predicted=likelihood.expected(predicted, z),
        noise=likelihood.noise_sd(predicted, z),
        measured=measured(key, problem, predicted, z),
    )


@dataclass(frozen=True)
class DataFit:
    """Residuals and coverage of the values that are exact; None where there are no such values.

    `residual_rms` is the root mean square of (observed - posterior mean) / noise sd, `coverage` the
    share of values inside their 95 % posterior-predictive interval. A value that is only known to
    lie below a limit has neither.
    """

    num_observations: int
    num_censored: int
    residual_rms: float | None
    coverage: float | None


def fit_to_data(problem: InverseProblem, drawn: AtSensors) -> DataFit:
    """From draws of the posterior."""
    observed, exact = np.asarray(problem.observed), ~problem.censored
    num_censored = int((~exact).sum())
    if not exact.any():
        return DataFit(len(observed), num_censored, None, None)
    residuals = observed - drawn.predicted.mean(axis=0)
    residuals = residuals / np.sqrt(np.mean(drawn.noise**2, axis=0))
    inside = within(observed, drawn.measured, ENDS)
    return DataFit(
        num_observations=len(observed),
        num_censored=num_censored,
        residual_rms=float(np.sqrt(np.mean(residuals[exact] ** 2))),
        coverage=float(np.mean(inside[exact])),
    )


def within(
    observed: Float[np.ndarray, " sensor"],
    measured: Float[np.ndarray, "draw sensor"],
    ends: tuple[float, float],
) -> Bool[np.ndarray, " sensor"]:
    """Whether values lie in intervals of what was predicted for them.

    By the share of draws below, and half of those that are the same: counts and shares come again,
    and their whole intervals would hold too many (the mid-p of Lancaster 1961).
    """
    below = np.mean(measured < observed, axis=0) + np.mean(measured == observed, axis=0) / 2
    return (below >= ends[0]) & (below <= ends[1])


@dataclass(frozen=True)
class SamplerCheck:
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


def sampler_check(posterior: Posterior) -> SamplerCheck | None:
    """Of a posterior by draws whose history has it."""
    history = posterior.history
    if not isinstance(posterior.distribution, EmpiricalDraws) or "r_hat" not in history:
        return None
    num_chains, num_draws = history["diverging"].shape
    return SamplerCheck(
        num_chains=num_chains,
        num_draws=num_draws,
        r_hat=float(np.max(np.asarray(history["r_hat"]))),
        effective_draws=max(1.0, float(np.min(np.asarray(history["effective_draws"])))),
        divergences=int(np.sum(np.asarray(history["diverging"]))),
    )


@dataclass(frozen=True, eq=False)
class Summary:
    """Rows of the unknowns, and how well the data are met; `print` shows it as a table.

    `residual_rms` is the root mean square of (observed - posterior mean) / noise sd, about one or
    a little less where the model is right; `coverage` is the share of observations inside their
    95 % posterior-predictive interval. The `num_censored` observations that are only known to lie
    below a limit count for neither; both are None where there are no others. `check` says whether
    the distribution is the posterior: importance sampling of a q, or what a sampler tells of
    itself; `surrogate` how well an emulated state is the exact one.
    """

    engine: str
    rows: tuple[dict[str, Any], ...]
    num_observations: int
    residual_rms: float | None
    coverage: float | None
    notes: tuple[str, ...]
    check: ImportanceCheck | SamplerCheck | None = None
    surrogate: SurrogateError | None = None
    num_censored: int = 0

    def __str__(self) -> str:
        unchecked = INTEGRATED if self.engine == Conditional.name else UNCHECKED
        check = [unchecked if self.check is None else str(self.check)]
        check += [] if self.surrogate is None else [str(self.surrogate)]
        notes = [f"note: {note}" for note in self.notes]
        return "\n".join(
            [f"posterior by {self.engine}", *table(self.rows), self.fit_text(), *check, *notes]
        )

    def fit_text(self) -> str:
        """How the data are met, in a line."""
        if self.residual_rms is None or self.coverage is None:
            return f"{self.num_observations} observations, all below a limit: none has a residual"
        fit = (
            f"{self.num_observations} observations: residuals {self.residual_rms:.3g} noise sd "
            f"(root mean square), {self.coverage:.0%} inside the 95 % predictive interval"
        )
        left_out = f"; without {self.num_censored} that are only known to lie below a limit"
        return fit + (left_out if self.num_censored else "")


def summary(posterior: Posterior, *, num_draws: int = NUM_DRAWS, seed: int = 0) -> Summary:
    """Summarise a posterior by so many draws; fields are shown by their mean over the nodes.

    Those that are one number a region are shown by these.
    """
    drawn = quantity_draws(posterior, overview, num_draws=num_draws, seed=seed)
    problem = posterior.problem
    met = fit_to_data(problem, drawn["sensors"])
    return Summary(
        engine=posterior.engine,
        rows=tuple(rows_of(problem, drawn["unknowns"])),
        num_observations=met.num_observations,
        residual_rms=met.residual_rms,
        coverage=met.coverage,
        notes=posterior.notes,
        check=posterior.check or sampler_check(posterior),
        surrogate=posterior.surrogate_error,
        num_censored=met.num_censored,
    )


def overview(
    key: PRNGKeyArray, problem: InverseProblem, state: AtNodes, z: PyTree
) -> dict[str, Any]:
    """All that a summary needs from one draw."""
    unknowns = {name: shown(problem, name, state, z) for name in problem.latents.names}
    return {"unknowns": unknowns, "sensors": at_sensors(key, problem, state, z)}


def shown(problem: InverseProblem, name: str, state: AtNodes, z: PyTree) -> Float[Array, "*shape"]:
    if regions_of(problem, name):
        return z[name]
    value = UnknownAt(name)(problem, state, z)
    return jnp.mean(value) if is_field(problem, name) else value


def rows_of(
    problem: InverseProblem, unknowns: dict[str, Float[np.ndarray, "..."]]
) -> Iterator[dict[str, Any]]:
    """One row a number: components of a vector are numbered, regions named."""
    for name in problem.latents.names:
        columns = unknowns[name].reshape(len(unknowns[name]), -1).T
        for i, values in enumerate(columns):
            label = label_of(problem, name, i, len(columns))
            if is_field(problem, name) and not regions_of(problem, name):
                label = f"{label} (mean over the nodes)"
            quantiles = np.quantile(values, list(LEVELS.values()))
            spread = {"mean": float(values.mean()), "sd": float(values.std(ddof=1))}
            levels = dict(zip(LEVELS, map(float, quantiles), strict=True))
            yield {"unknown": label} | spread | levels


def table(rows: tuple[dict[str, Any], ...]) -> list[str]:
    """Aligned columns, numbers to four digits."""
    lines = [list(rows[0])]
    lines += [[v if isinstance(v, str) else f"{v:.4g}" for v in row.values()] for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])])
        for line in lines
    ]
