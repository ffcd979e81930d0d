"""Posteriors of many data sets from the same sensors, at once: one compiled fit for all of them."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from riesz.arrays import on_device
from riesz.engines.amortise.answers import NUM_DRAWS, question
from riesz.engines.amortise.model import ReducedSensors, reduced_over_prior, why_not_reduced
from riesz.engines.amortise.parts import Devices, as_devices
from riesz.engines.amortise.readings import Readings, as_readings, posed_alone
from riesz.engines.amortise.simulate import Simulator
from riesz.engines.amortise.warranty import (
    DOUBTFUL,
    NUM_EXACT,
    Exact,
    Vouched,
    reasons,
    taken,
    vouched,
)
from riesz.engines.base import AbstractEngine
from riesz.engines.training import bar
from riesz.errors import RieszError
from riesz.inference.fit import fit
from riesz.posterior.family import EmpiricalDraws
from riesz.posterior.posterior import ExactStates, Posterior
from riesz.problem.problem import InverseProblem
from riesz.surrogate.surrogate import Surrogate

ENGINE = "batched"
HANDED_OVER = "handed over"

NUM_KEPT, FEWEST_KEPT, LARGEST_KEPT = 256, 16, 10**8
"""Draws that are kept of each posterior, fewer where there would be more numbers than this."""

LARGEST_BLOCK, MOST_IN_BLOCK = 2**25, 8192
"""Numbers in the draws that are held at once, and data sets."""

Model = ReducedSensors | Surrogate


class DataSetFits(eqx.Module):
    """A posterior for each data set, with a verdict on it.

    `mean` and `sd` are of the standard normal coordinates, a row for each data set; `moments` has
    those of an unknown in its own units. A verdict is "trusted", "refined" where more draws or
    exact solves were needed, "handed over" where another engine has fitted the data set, and
    "doubtful" where nobody vouches for what is given: `notes` say why.
    """

    problem: InverseProblem
    model: Model
    observed: Readings
    found: Vouched
    handed: dict[int, Posterior]
    seed: int = eqx.field(static=True)

    def __len__(self) -> int:
        return len(self.found.verdict)

    @property
    def mean(self) -> Float[np.ndarray, "data coordinate"]:
        return self.found.mean

    @property
    def sd(self) -> Float[np.ndarray, "data coordinate"]:
        return self.found.sd

    @property
    def verdicts(self) -> tuple[str, ...]:
        return tuple(self.found.verdict.tolist())

    @property
    def counts(self) -> dict[str, int]:
        """How many data sets have each verdict."""
        names, counts = np.unique(self.found.verdict, return_counts=True)
        return dict(zip(names.tolist(), counts.tolist(), strict=True))

    def moments(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Means and standard deviations of an unknown number or vector, a row a data set."""
        if name not in self.found.values:
            raise RieszError(
                f"{name!r} is no unknown number: there are {', '.join(self.found.values)}. Of "
                "functions of place ask the posteriors, rz.predict(fits.posterior(0), ...)."
            )
        return self.found.values[name]

    def notes(self, number: int) -> tuple[str, ...]:
        """What a reader of one of them must know."""
        if number in self.handed:
            return self.handed[number].notes
        return reasons(self.found, number)

    def posterior(self, number: int) -> Posterior:
        """That of one data set, as draws; predictions and maps are made from it."""
        if number in self.handed:
            return self.handed[number]
        return Posterior(
            problem=posed_alone(self.problem, self.observed, number),
            distribution=EmpiricalDraws(on_device(self.found.draws[number][None])),
            states=ExactStates(),
            engine=ENGINE,
            seed=self.seed,
            notes=self.notes(number),
        )

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {name}" for name, count in self.counts.items())
        return f"posteriors of {len(self)} data sets: {counts}"


def fit_data_sets(
    problem: InverseProblem,
    observed: Any,
    *,
    noise_sd: Any = None,
    seed: int = 0,
    model: Model | None = None,
    hand_over: AbstractEngine | str | None = None,
    num_draws: int = NUM_DRAWS,
    num_exact: int = NUM_EXACT,
    devices: int | Devices | None = None,
    progress: bool = False,
) -> DataSetFits:
    """The posteriors of data sets from the problem's sensors, a row of values each.

    NaN is a value that is missing; `noise_sd` gives other noise, for all, for each sensor, for
    each data set or for each value. Of the problem's own observations only places and noise are
    read. One reduced equation over the prior serves all data sets, `num_draws` are weighed by it
    for each, and `num_exact` exact solves look at each answer. What does not pass is refined by
    more of both, and else called doubtful, or fitted by the engine it is to `hand_over` to, one
    by one. `model` is that of an earlier result, for more data of the same problem. Data sets are
    shared out over `devices`: all, the first so many, or some of `jax.devices()`.
    """
    check_askable(problem, num_draws, num_exact)
    readings = as_readings(problem, observed, noise_sd)
    own = as_devices(devices)
    model = reduced_over_prior(problem, seed) if model is None else model
    width, asked = question(Simulator(problem, model), seed, num_draws)
    count, size = len(readings.values), problem.num_coordinates
    exact = Exact(problem, own, num_exact)
    num_kept = int(np.clip(LARGEST_KEPT // (count * size), FEWEST_KEPT, NUM_KEPT))
    block = int(np.clip(LARGEST_BLOCK // (num_draws * size), 1, MOST_IN_BLOCK))
    parts = []
    with bar(progress) as shown:
        task = shown.add_task("data sets", total=count, terms="")
        for start in range(0, count, block):
            some = np.arange(start, min(start + block, count))
            parts.append(
                vouched(
                    asked, taken(readings, some), exact, width=width, num_kept=num_kept, seed=seed
                )
            )
            shown.update(task, advance=len(some))
    found = jax.tree.map(lambda *each: np.concatenate(each), *parts)
    if hand_over is not None:
        found, handed = handed_over(problem, readings, found, hand_over, seed)
    else:
        handed = {}
    return DataSetFits(problem, model, readings, found, handed, seed)


def check_askable(problem: InverseProblem, num_draws: int, num_exact: int) -> None:
    """Raise, before any work, where data sets cannot be fitted together."""
    if not isinstance(problem, InverseProblem):
        raise RieszError(f"found a {type(problem).__name__}: give rz.inverse_problem(...).")
    why = why_not_reduced(problem)
    if why is not None:
        raise RieszError(f"data sets are fitted together by a reduced equation: {why}")
    if problem.censored.any():
        raise RieszError(
            f"{int(problem.censored.sum())} observations are only known to lie below a limit, and "
            "of other data sets nobody has said which: fit them one by one."
        )
    for name, number, fewest in (("num_draws", num_draws, 64), ("num_exact", num_exact, 4)):
        if number < fewest:
            raise RieszError(f"{name} is {number}: fewer than {fewest} tell nothing.")


class Handed(NamedTuple):
    """Answers with those of another engine among them."""

    found: Vouched
    posteriors: dict[int, Posterior]


def handed_over(
    problem: InverseProblem,
    observed: Readings,
    found: Vouched,
    engine: AbstractEngine | str,
    seed: int,
) -> Handed:
    """Fit what is doubtful one by one; what fails stays as it was."""
    posteriors: dict[int, Posterior] = {}
    mean, sd, verdict = found.mean.copy(), found.sd.copy(), found.verdict.copy()
    values = {name: (own[0].copy(), own[1].copy()) for name, own in found.values.items()}
    for number in np.flatnonzero(found.verdict == DOUBTFUL).tolist():
        try:
            alone = posed_alone(problem, observed, number)
            posterior = fit(alone, engine, seed=seed, progress=False)
        except RieszError:
            continue
        posteriors[number], verdict[number] = posterior, HANDED_OVER
        mean[number] = np.asarray(posterior.coordinate_mean())
        sd[number] = np.sqrt(np.asarray(posterior.distribution.variances()))
        for name, own in values.items():
            own[0][number], own[1][number] = posterior.mean(name), posterior.sd(name)
    return Handed(found._replace(mean=mean, sd=sd, values=values, verdict=verdict), posteriors)
