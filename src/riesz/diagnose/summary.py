"""A posterior in a few lines: its unknowns in their units, how it fits the data, and warnings.

How well it meets the data is told by draws of what it predicts for them; of itself a sampler tells
whether its chains agree, and what its draws are worth.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from riesz.diagnose.criticism.findings import Misfit
from riesz.mesh.mesh import Mesh
from riesz.notes import Note
from riesz.posterior.checks import ImportanceCheck, SamplerCheck, SurrogateError
from riesz.posterior.family import EmpiricalDraws
from riesz.posterior.posterior import MARGINAL, Posterior, density_in
from riesz.prediction.drawing import posterior_draws
from riesz.prediction.draws import NodalDraws, PosteriorDraws, RegionDraws, Unknown
from riesz.prediction.sensors import fit_to_data

NUM_DRAWS = 1000
UNCHECKED = (
    "not checked against exact solves: use with_importance_check(posterior), or riesz fit --check"
)
INTEGRATED = (
    "by exact solves; unknowns that are not integrated out, if any, are drawn about their most "
    "probable values and weighed by their density: mcmc samples them"
)
LEVELS = {"q05": 0.05, "q50": 0.5, "q95": 0.95}


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
    notes: tuple[Note, ...]
    check: ImportanceCheck | SamplerCheck | None = None
    surrogate: SurrogateError | None = None
    num_censored: int = 0
    misfit: Misfit | None = None  # what contradicts the model, where that was asked

    def __str__(self) -> str:
        unchecked = INTEGRATED if density_in(self.engine) == MARGINAL else UNCHECKED
        check = [unchecked if self.check is None else str(self.check)]
        check += [] if self.surrogate is None else [str(self.surrogate)]
        check += (
            []
            if self.misfit is None
            else [f"misfit: {one}" for one in str(self.misfit).splitlines()]
        )
        notes = [f"note: {note}" for note in self.notes]
        return "\n".join(
            [
                f"posterior by {self.engine}",
                *format_table(self.rows),
                self.fit_text(),
                *check,
                *notes,
            ]
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
    drawn = posterior_draws(posterior, num_draws=num_draws, seed=seed, for_summary=True)
    return summary_of(posterior, drawn)


def summary_of(posterior: Posterior, draws: PosteriorDraws) -> Summary:
    """By draws that were made already."""
    observed = draws.observed
    met = fit_to_data(observed.values, observed.censored, observed.drawn)
    return Summary(
        engine=posterior.engine,
        rows=tuple(summary_rows(draws.unknowns, draws.mesh)),
        num_observations=met.num_observations,
        residual_rms=met.residual_rms,
        coverage=met.coverage,
        notes=posterior.notes,
        check=posterior.check or sampler_check(posterior),
        surrogate=posterior.surrogate_error,
        num_censored=met.num_censored,
    )


def summary_rows(unknowns: Mapping[str, Unknown], mesh: Mesh) -> Iterator[dict[str, Any]]:
    """One row a number: components of a vector are numbered, regions named."""
    for name, unknown in unknowns.items():
        for label, values in numbers_of(name, unknown, mesh):
            quantiles = np.quantile(values, list(LEVELS.values()))
            spread = {"mean": float(values.mean()), "sd": float(values.std(ddof=1))}
            levels = dict(zip(LEVELS, map(float, quantiles), strict=True))
            yield {"unknown": label} | spread | levels


def numbers_of(
    name: str, unknown: Unknown, mesh: Mesh
) -> Iterator[tuple[str, Float[np.ndarray, " draw"]]]:
    """The numbers by which an unknown is shown, and what they are called."""
    if isinstance(unknown, NodalDraws):
        yield f"{name} (mean over the nodes)", unknown.at(mesh, None).mean(axis=1)
        return
    names = unknown.names if isinstance(unknown, RegionDraws) else None
    count = unknown.values.shape[1]
    for i, values in enumerate(unknown.values.T):
        yield name if count == 1 and not names else f"{name}[{names[i] if names else i}]", values


def format_table(rows: tuple[dict[str, Any], ...]) -> list[str]:
    """Aligned columns, numbers to four digits."""
    lines = [list(rows[0])]
    lines += [[v if isinstance(v, str) else f"{v:.4g}" for v in row.values()] for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])])
        for line in lines
    ]
