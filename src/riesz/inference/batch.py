"""Posteriors of many data sets from the same sensors, at once: one compiled fit for all of them."""

from typing import Any

import jax
import numpy as np

from riesz.amortise import amortised
from riesz.amortise.accuracy import check_accuracy, select_rows
from riesz.amortise.importance import NUM_DRAWS, NUM_EXACT, BatchWork, batch_problem
from riesz.amortise.simulate import Simulator, as_readings
from riesz.density.engine import AbstractEngine
from riesz.density.reduced_basis import check_reducible, reduce_over_prior
from riesz.devices import Wanted, devices_of
from riesz.errors import RieszError, error_context
from riesz.inference.fit import find_inadequacy, fit
from riesz.method.base import AbstractMethod
from riesz.posterior.posterior import Posterior
from riesz.problem.problem import InverseProblem
from riesz.progress import progress_bar

LARGEST_BLOCK, MOST_IN_BLOCK = 2**25, 8192
"""Numbers in the draws that are held at once, and data sets."""


def fit_data_sets(
    problem: InverseProblem,
    observed: Any,
    *,
    noise_sd: Any = None,
    seed: int = 0,
    model: amortised.Model | None = None,
    hand_over: AbstractMethod | AbstractEngine | str | None = None,
    num_draws: int = NUM_DRAWS,
    num_exact: int = NUM_EXACT,
    devices: Wanted | None = "all",
    progress: bool = False,
) -> amortised.DataSetFits:
    """The posteriors of data sets from the problem's sensors, a row of values each.

    NaN is a value that is missing; `noise_sd` gives other noise, for all, for each sensor, for
    each data set or for each value. Of the problem's own observations only places and noise are
    read. One reduced equation over the prior serves all data sets, `num_draws` are weighed by it
    for each, and `num_exact` exact solves look at each answer. What does not pass is refined by
    more of both, and else called doubtful, or fitted by the engine it is to `hand_over` to, one
    by one. `model` is that of an earlier result, for more data of the same problem. Data sets are
    shared out over `devices`: "all", so many, or some of `jax.devices()`; None is the default one.
    """
    check_askable(problem, num_draws, num_exact)
    readings, own = as_readings(problem, observed, noise_sd), devices_of(devices)
    model = reduce_over_prior(problem, seed) if model is None else model
    asked = batch_problem(Simulator(problem, model), seed)
    count, size = len(readings.values), problem.num_coordinates
    num_kept = amortised.num_stored_draws(readings, size)
    work = BatchWork(asked, seed, own, num_draws, num_exact, num_kept)
    block = int(np.clip(LARGEST_BLOCK // (num_draws * size), 1, MOST_IN_BLOCK))
    parts = []
    with progress_bar(progress) as shown:
        task = shown.add_task("data sets", total=count, terms="")
        for start in range(0, count, block):
            some = np.arange(start, min(start + block, count))
            parts.append(check_accuracy(work, select_rows(readings, some)))
            shown.update(task, advance=len(some))
    result = jax.tree.map(lambda *each: np.concatenate(each), *parts)

    def alone(one: InverseProblem) -> tuple[Posterior, bool]:
        posterior = fit(one, hand_over or "auto", seed=seed, progress=False)
        return posterior, find_inadequacy(posterior, seed) is None

    fits = amortised.DataSetFits(problem, model, readings, result, {}, seed)
    return fits if hand_over is None else fits.with_refits(alone)


def check_askable(problem: InverseProblem, num_draws: int, num_exact: int) -> None:
    """Raise, before any work, where data sets cannot be fitted together."""
    if not isinstance(problem, InverseProblem):
        raise RieszError(f"found a {type(problem).__name__}: give rz.inverse_problem(...).")
    with error_context("data sets are fitted together by a reduced equation"):
        check_reducible(problem)
    if problem.censored.any():
        raise RieszError(
            f"{int(problem.censored.sum())} observations are only known to lie below a limit, and "
            "of other data sets nobody has said which: fit them one by one."
        )
    for name, number, fewest in (("num_draws", num_draws, 64), ("num_exact", num_exact, 4)):
        if number < fewest:
            raise RieszError(f"{name} is {number}: fewer than {fewest} tell nothing.")
