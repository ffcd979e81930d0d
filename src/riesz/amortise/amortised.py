"""Posteriors of many data sets, each with a verdict on it, and what `amortise` returns: those of
new data sets at the cost of one pass of a network."""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from riesz.amortise.accuracy import (
    DOUBTFUL,
    REFINED,
    TRUSTED,
    BatchPosterior,
    assess,
    check_accuracy,
    reasons,
    replace_rows,
    select_rows,
)
from riesz.amortise.encoder import Encoder
from riesz.amortise.importance import (
    NUM_EXACT,
    BatchProblem,
    BatchWork,
    FittedGaussian,
    batch_problem,
    with_remote_evidence,
)
from riesz.amortise.simulate import SensorData, Simulator, Variety, as_readings, single_problem
from riesz.arrays import on_device
from riesz.density.engine import AbstractEngine, Engine
from riesz.density.reduced_basis import ReducedSensors
from riesz.devices import Wanted, devices_of, map_data_sets
from riesz.errors import RieszError
from riesz.fem.root import require_float64
from riesz.method.base import AbstractMethod
from riesz.method.mcmc.mcmc import MCMC
from riesz.notes import Note, warn_of
from riesz.observe.given import as_numbers
from riesz.posterior.family import EmpiricalDraws, FullRank
from riesz.posterior.posterior import ExactStates, Posterior
from riesz.problem.problem import InverseProblem, in_precision
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

    def with_refits(
        self, fitted: Callable[[InverseProblem], tuple[Posterior, bool]]
    ) -> "DataSetFits":
        """What is doubtful fitted one by one by another engine, which may vouch for it; where it
        fails, or has doubts itself, it stays so."""
        handed, columns = {}, ("mean", "sd", "values", "verdict")
        result = {name: getattr(self.found, name) for name in columns}
        for number in np.flatnonzero(self.found.verdict == DOUBTFUL).tolist():
            try:
                own, is_good = fitted(single_problem(self.problem, self.observed, number))
            except (RieszError, *FAILURES):
                continue
            row = {
                "mean": own.coordinate_mean(),
                "sd": np.sqrt(own.distribution.variances()),
                "values": {name: (own.mean(name), own.sd(name)) for name in self.found.values},
                "verdict": HANDED_OVER if is_good else DOUBTFUL,
            }
            handed[number], result = own, replace_rows(result, np.array([number]), row)
        return dataclasses.replace(self, found=self.found._replace(**result), handed=handed)

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {name}" for name, count in self.counts.items())
        odd = int(self.contradict.sum())
        contradicted = f"; {odd} of them contradict the model" if odd else ""
        return f"posteriors of {len(self)} data sets: {counts}{contradicted}"


def num_stored_draws(observed: SensorData, num_coordinates: int) -> int:
    """Draws that there is room for."""
    most = LARGEST_KEPT // (len(observed.values) * num_coordinates)
    return int(np.clip(most, FEWEST_KEPT, NUM_KEPT))


ENGINE = "amortise"


class Amortised(eqx.Module):
    """The posterior of any data set from the same sensors, in milliseconds.

    The observations of the simulator's problem are one example. Where training has met missing
    values they may be NaN, and where it has met other noise, `noise_sd` may be given.
    """

    simulator: Simulator
    encoder: Encoder
    usual_fit: Float[Array, ""]  # that hardly any simulated data set falls below
    history: dict[str, Array]
    seed: int = eqx.field(static=True)
    variety: Variety = eqx.field(static=True, default=Variety())

    @property
    def problem(self) -> InverseProblem:
        return self.simulator.problem

    def posterior(self, observed: Any, *, noise_sd: Any = None) -> Posterior:
        """The posterior of one data set: a value for each sensor, in the order of the problem's."""
        return self.posteriors(as_numbers(observed, "values")[None], noise_sd=noise_sd)[0]

    def posteriors(self, observed: Any, *, noise_sd: Any = None) -> tuple[Posterior, ...]:
        """Those of several data sets, one a row."""
        result = self.build_posteriors(observed, noise_sd=noise_sd)
        warn_of(note for one in result for note in one.notes)
        return result

    def build_posteriors(
        self, observed: Any, *, noise_sd: Any = None, checked: bool = False
    ) -> tuple[Posterior, ...]:
        """The posteriors with their notes; where `checked`, those of `posteriors_with_check`."""
        if checked:
            result = self.posteriors_with_check(observed, noise_sd=noise_sd)
            return tuple(result.posterior(number) for number in range(len(result)))
        data = self.read(observed, noise_sd)
        data_there = in_precision(jax.tree.map(on_device, data), self.problem.forward.dtype)
        result, fits = encode(self.encoder, self.simulator, data_there)
        # Taken apart on the host: slices on the device would be compiled, and take longer.
        result, fits = jax.tree.map(np.asarray, (result, fits))
        return tuple(
            self.of_data_set(
                data, number, jax.tree.map(lambda leaf, k=number: leaf[k], result), fit
            )
            for number, fit in enumerate(fits.tolist())
        )

    def of_data_set(self, data: SensorData, number: int, q: FullRank, fit: float) -> Posterior:
        # A network answers everything: say so where it was asked what it was not trained for.
        usual = float(self.usual_fit)
        notes = () if fit >= usual else (Note("unlike_training", fit=fit, usual=usual),)
        q, states = jax.tree.map(jnp.asarray, q), self.simulator.states()
        problem = single_problem(self.problem, data, number)
        return Posterior(problem, q, states, self.history, ENGINE, self.seed, notes)

    def posteriors_with_check(
        self,
        observed: Any,
        *,
        noise_sd: Any = None,
        hand_over: AbstractMethod | AbstractEngine | None = None,
        num_exact: int = NUM_EXACT,
        devices: Wanted | None = "all",
    ) -> DataSetFits:
        """Answers that exact solves vouch for, each with a verdict.

        Draws of the encoder's Gaussian are weighed, and looked at by `num_exact` exact solves;
        what does not pass is refined by weights, by more draws, by exact solves, or by a Gaussian
        that is fitted to the data set; and what does not pass then is handed over to an engine,
        by default `rz.MCMC()`. What no engine can do either is called doubtful.
        """
        require_float64(self.problem.forward)
        data, asked = self.read(observed, noise_sd), batch_problem(self.simulator, self.seed)
        num_kept = num_stored_draws(data, self.problem.num_coordinates)
        own = devices_of(devices)
        work = BatchWork(asked, self.seed, own, num_exact=num_exact, num_kept=num_kept)
        shared, width = (self.encoder, asked), asked.search.width
        answers = map_data_sets(encode_gaussian, shared, data, width=width, devices=own)
        result = assess(work, data, answers)
        poor = np.flatnonzero(result.verdict == DOUBTFUL)
        if len(poor):
            more = check_accuracy(work, select_rows(data, poor))
            verdict = np.where(more.verdict == TRUSTED, REFINED, more.verdict)
            result = replace_rows(result, poor, more._replace(verdict=verdict.astype("<U11")))
        method = MCMC() if hand_over is None else hand_over
        engine = Engine(method) if isinstance(method, AbstractMethod) else method

        def alone(problem: InverseProblem) -> tuple[Posterior, bool]:
            posterior = engine.run(problem, seed=self.seed)
            return posterior, not posterior.notes

        model = self.simulator.surrogate
        fits = DataSetFits(self.problem, model, data, result, {}, self.seed, ENGINE)
        return fits.with_refits(alone)

    def read(self, observed: Any, noise_sd: Any) -> SensorData:
        """Data sets as the encoder can read them."""
        values = as_numbers(observed, "values")
        check_num_sensors(values, self.problem.observations.num_sensors)
        if not self.variety.missing:
            check_no_gaps(values)
        data = as_readings(self.problem, values, noise_sd)
        if data.noise_sd is not None and self.variety.noise_factor == 1:
            raise RieszError(
                "noise_sd is given, and the encoder was trained for the noise of the problem "
                "alone: train with noise_factor=2, for instance, for half to twice its sds."
            )
        return data


def encode_gaussian(shared: tuple[Encoder, BatchProblem], row: SensorData) -> FittedGaussian:
    """The encoder's Gaussian."""
    encoder, asked = shared
    return with_remote_evidence(asked, row, encoder(row).family())


@eqx.filter_jit
def encode(
    encoder: Encoder, simulator: Simulator, observed: SensorData
) -> tuple[FullRank, Float[Array, " data"]]:
    """The posterior of each data set, and how its mean fits."""

    def one(data):
        q = encoder(data)
        return q.family(), fit_at(simulator, encoder, data, q.mean)

    return jax.vmap(one)(observed)


def fit_at(
    simulator: Simulator, encoder: Encoder, data: SensorData, mean: Float[Array, " coordinate"]
) -> Float[Array, ""]:
    """The log-likelihood; where noise differs or values are missing, beside the best there is."""
    fit = simulator.log_likelihood(data, mean)
    if encoder.noise_sd is None and not encoder.reads_gaps:
        return fit
    problem, values = simulator.problem, jnp.asarray(data.values)
    return fit - data.log_prob(problem.likelihood, values, problem.z(mean))


def check_num_sensors(values: Float[np.ndarray, "..."], num_sensors: int) -> None:
    if values.ndim != 2 or values.shape[1] != num_sensors:
        raise RieszError(
            f"the values of a data set have shape {values.shape[1:]}, but the encoder was trained "
            f"for {num_sensors} sensors: give one value for each, in their order; for other "
            "sensors, train again."
        )


def check_no_gaps(values: Float[np.ndarray, "data sensor"]) -> None:
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        raise RieszError(
            f"{len(bad)} observed values are NaN or infinite, first that of sensor {bad[0][1]} in "
            f"data set {bad[0][0]}: this encoder needs all of them; for data with gaps train with "
            "missing=0.3, for instance, or use rz.inference.fit_data_sets."
        )
