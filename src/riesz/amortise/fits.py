"""Posteriors of many data sets, each with a verdict on it."""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Bool, Float

from riesz.amortise.accuracy import DOUBTFUL, BatchPosterior, reasons
from riesz.amortise.simulate import SensorData, single_problem
from riesz.arrays import on_device
from riesz.density.reduced_basis import ReducedSensors
from riesz.errors import RieszError
from riesz.notes import Note
from riesz.posterior.family import EmpiricalDraws
from riesz.posterior.posterior import ExactStates, Posterior
from riesz.problem.problem import InverseProblem
from riesz.surrogate.surrogate import SteadySurrogate
from riesz.surrogate.trajectory import Trajectory

HANDED_OVER = "handed over"

NUM_KEPT, FEWEST_KEPT, LARGEST_KEPT = 256, 16, 10**8
"""Draws that are kept of each posterior, fewer where there would be more numbers than this."""

FAILURES = (jax.errors.JaxRuntimeError, eqx.EquinoxRuntimeError, np.linalg.LinAlgError)
"""What numbers do to an engine that runs alone: of a batch, no other data set is to suffer."""

Model = ReducedSensors | SteadySurrogate | Trajectory


class DataSetFits(eqx.Module):
    """A posterior for each data set, with a verdict on it.

    `mean` and `sd` are of the standard normal coordinates, a row for each data set; `moments` has
    those of an unknown in its own units. A verdict is "trusted", "refined" where more draws or
    exact solves were needed, "handed over" where another engine has fitted the data set, and
    "doubtful" where nobody vouches for what is given: `notes` say why. Whether data
    `contradict` the model altogether is another question, and `notes` say that too.
    """

    problem: InverseProblem
    model: Model
    observed: SensorData
    found: BatchPosterior
    handed: dict[int, Posterior]
    seed: int = eqx.field(static=True)
    engine: str = eqx.field(static=True, default="batched")

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
    def contradict(self) -> Bool[np.ndarray, " data"]:
        """Data sets that no values of the unknowns explain."""
        return self.found.contradicts

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

    def notes(self, number: int) -> tuple[Note, ...]:
        """What a reader of one of them must know."""
        if number in self.handed:
            return self.handed[number].notes
        return reasons(self.found, number)

    def posterior(self, number: int) -> Posterior:
        """That of one data set, as draws; predictions and maps are made from it."""
        if number in self.handed:
            return self.handed[number]
        return Posterior(
            problem=single_problem(self.problem, self.observed, number),
            distribution=EmpiricalDraws(on_device(self.found.draws[number][None])),
            states=ExactStates(),
            engine=self.engine,
            seed=self.seed,
            notes=self.notes(number),
        )

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {name}" for name, count in self.counts.items())
        odd = int(self.contradict.sum())
        contradicted = f"; {odd} of them contradict the model" if odd else ""
        return f"posteriors of {len(self)} data sets: {counts}{contradicted}"


class SingleFit(NamedTuple):
    """The posterior of one data set by another engine, and whether that vouches for it."""

    posterior: Posterior
    is_good: bool


class WithRefits(NamedTuple):
    """Answers with those of another engine among them."""

    found: BatchPosterior
    posteriors: dict[int, Posterior]


def refit_doubtful(
    problem: InverseProblem,
    observed: SensorData,
    batch: BatchPosterior,
    fitted: Callable[[InverseProblem], SingleFit],
) -> WithRefits:
    """Fit what is doubtful one by one; where that fails, or has doubts itself, it stays so."""
    posteriors: dict[int, Posterior] = {}
    mean, sd, verdict = batch.mean.copy(), batch.sd.copy(), batch.verdict.copy()
    values = {name: (own[0].copy(), own[1].copy()) for name, own in batch.values.items()}
    for number in np.flatnonzero(batch.verdict == DOUBTFUL).tolist():
        try:
            posterior, is_good = fitted(single_problem(problem, observed, number))
        except (RieszError, *FAILURES):
            continue
        posteriors[number], verdict[number] = posterior, HANDED_OVER if is_good else DOUBTFUL
        mean[number] = np.asarray(posterior.coordinate_mean())
        sd[number] = np.sqrt(np.asarray(posterior.distribution.variances()))
        for name, own in values.items():
            own[0][number], own[1][number] = posterior.mean(name), posterior.sd(name)
    return WithRefits(batch._replace(mean=mean, sd=sd, values=values, verdict=verdict), posteriors)


def num_stored_draws(observed: SensorData, num_coordinates: int) -> int:
    """Draws that there is room for."""
    most = LARGEST_KEPT // (len(observed.values) * num_coordinates)
    return int(np.clip(most, FEWEST_KEPT, NUM_KEPT))
