"""Coverage of intervals on coarse meshes: as they are, corrected, and where there is no such error.

One row a problem and `what` was done: `now` fits data of the finer problem as they are, `correct`
corrects the estimated error of the discretisation, `control` fits data that the mesh at hand has
made, with the same noise. All fits are the default `rz.fit`, with the time limit of `blind`.
Intervals are of nominal 95 %, of the state at places without a sensor and of the unknowns'
coordinates.

Rows of `now` also tell what the estimate is worth: root mean squares of it and of the true error at
the sensors, in noise sd, both where the posterior has its mean; their correlation about zero; and
the share of sensors at which their ratio, the effectivity, lies between .8 and 1.25. `in_data` is
the true error for the true unknowns, which is what the data have in them.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import jax
import jax.random as jr
import numpy as np
from jaxtyping import Float

import riesz as rz
from riesz.diagnose.discretisation import discretisation_error
from riesz.errors import RieszError
from riesz.io.store.results import Row
from riesz.plot.figure import new_figure, save_figure
from riesz.posterior.posterior import Posterior, representative_draws
from riesz.problem.problem import InverseProblem
from riesz_paper.experiments.blind.judge import FIT_SECONDS
from riesz_paper.experiments.mesh_error.problem import HELD, Case, draw_case, read_state
from riesz_paper.running.scores import TAILS, is_inside
from riesz_paper.running.task import Experiment, Task

PROBLEMS = {"smoke": 2, "quick": 12, "full": 80}
NOW, CORRECT, CONTROL = WHAT = ("now", "correct", "control")
COLOURS = {NOW: "tab:red", CORRECT: "tab:blue", CONTROL: "0.6"}

NUM_DRAWS = 1000
EFFECTIVE = (0.8, 1.25)

Draws = Float[np.ndarray, "draw place"]


def mesh_error_experiment(seed: int, mode: str, problems: int | None = None) -> Experiment:
    """Three rows a problem, by one process: the correction begins with the fit as it is."""
    count = PROBLEMS[mode] if problems is None else problems
    tasks = [
        Task(
            {"problem": number, "seed": seed, "what": what},
            partial(row, seed, number, what),
            group=(str(number),),
        )
        for number in range(count)
        for what in WHAT
    ]
    config = {"problems": count, "fit_seconds": FIT_SECONDS, "draws": NUM_DRAWS}
    return Experiment("mesh-error", config, tasks, summarise, draw)


@lru_cache(maxsize=1)
def case_at(seed: int, number: int) -> Case:
    # Each problem compiles for itself, and a process can hold only so many programs.
    jax.clear_caches()
    return draw_case(seed, number)


def row(seed: int, number: int, what: str) -> Row:
    """One problem in one of the ways; without scores where the fit gave nothing."""
    case = case_at(seed, number)
    same: Row = {
        "family": case.family,
        "nodes": case.everywhere.forward.space.mesh.num_nodes,
        "unknowns": case.everywhere.num_coordinates,
        "sensors": case.num_sensors,
        "refused": None,
    }
    try:
        return same | scores(case, what) | errors(case, what)
    except RieszError as error:
        return same | dict.fromkeys(SCORES) | {"refused": str(error)}


SCORES = (
    *("coverage95", "width", "unknowns_coverage95", "estimate", "truth"),
    *("correlation", "effective", "in_data"),
)


def scores(case: Case, what: str) -> Row:
    """Of the intervals."""
    true = (case.own_state if what == CONTROL else case.true_state)[case.num_sensors :]
    posterior = fit_for(case, what)
    states = states_at_places(case, posterior)
    low, high = np.quantile(states, TAILS, axis=0)
    # What is known exactly, beside a given value, has no width to be judged by.
    varies = high - low > 1e-9 * np.abs(states).max()
    unknowns = np.asarray(representative_draws(posterior, jr.key(0), NUM_DRAWS))
    return {
        "coverage95": float(is_inside(states, true)[varies].mean()),
        "width": float((high - low)[varies].mean()),
        "unknowns_coverage95": float(is_inside(unknowns, case.truth).mean()),
    }


def fit(problem: InverseProblem, **how: Any) -> Posterior:
    return rz.fit(problem, progress=False, time_limit=FIT_SECONDS, **how)


@lru_cache(maxsize=1)
def fit_now(case: Case) -> Posterior:
    return fit(case.fitted(case.true_state + case.noise, case.noise_sd), mesh_error="off")


def fit_for(case: Case, what: str) -> Posterior:
    """As it is, corrected, or of data without an error of the mesh."""
    if what == NOW:
        return fit_now(case)
    state, how = (case.true_state, "correct") if what == CORRECT else (case.own_state, "off")
    return fit(case.fitted(state + case.noise, case.noise_sd), mesh_error=how)


def states_at_places(case: Case, posterior: Posterior) -> Draws:
    """Draws of what the posterior says of the state where nobody measures."""
    given, n = case.everywhere.observations, case.num_sensors
    how: dict[str, Any] = {"num_draws": NUM_DRAWS, "keep_draws": True}
    if given.times is None:
        draws = rz.predict(posterior, "u", given.points[n:], **how).draws
    else:
        times = np.unique(given.times[n:])
        places = given.points[n:][: len(given.times[n:]) // len(times)]
        draws = rz.predict(posterior, "u", places, times=times, **how).draws
    assert draws is not None
    return np.asarray(draws).reshape(len(draws), -1)


def errors(case: Case, what: str) -> Row:
    """Of the discretisation at the sensors, in noise sd: estimated, and true."""
    if what != NOW:
        return dict.fromkeys(("estimate", "truth", "correlation", "effective", "in_data"))
    n, mean = case.num_sensors, fit_now(case).coordinate_mean()
    estimate = discretisation_error(case.everywhere, mean).at_sensors[:n]
    finer, own = (read_state(one, np.asarray(mean)) for one in (case.finer, case.everywhere))
    true = (finer - own)[:n]
    in_data = (case.true_state - case.own_state)[:n]
    low, high = EFFECTIVE
    ratio = estimate / np.where(true == 0, np.nan, true)
    return {
        "estimate": rms(estimate) / case.noise_sd,
        "truth": rms(true) / case.noise_sd,
        "correlation": float(np.mean(estimate * true)) / (rms(estimate) * rms(true)),
        "effective": float(np.mean((ratio >= low) & (ratio <= high))),
        "in_data": rms(in_data) / case.noise_sd,
    }


def rms(values: Float[np.ndarray, " sensor"]) -> float:
    return float(np.sqrt(np.mean(values**2)))


def summarise(rows: Sequence[Row]) -> Mapping[str, Any]:
    """Of all problems, and of steady ones and those in time apart."""
    kinds = {
        "all": rows,
        "steady": [one for one in rows if one["family"] not in HELD],
        "in time": [one for one in rows if one["family"] in HELD],
    }
    return {
        f"{kind}: {key}": value
        for kind, own in kinds.items()
        if own
        for key, value in summary(own).items()
    }


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """Means over the problems that were fitted in all ways, with standard errors."""
    by_problem: dict[int, dict[str, Row]] = {}
    for one in rows:
        if one["refused"] is None:
            by_problem.setdefault(one["problem"], {})[one["what"]] = one
    complete = [own for own in by_problem.values() if len(own) == len(WHAT)]
    result: dict[str, Any] = {"problems": len(complete)}
    if not complete:
        return result
    for what in WHAT:
        for name in ("coverage95", "unknowns_coverage95"):
            values = [own[what][name] for own in complete]
            error = np.std(values) / np.sqrt(len(values))
            result[f"{what} {name}"] = [float(np.mean(values)), float(error), min(values)]
        ratios = [own[what]["width"] / own[NOW]["width"] for own in complete]
        result[f"{what} width"] = float(np.mean(ratios))
    now = [own[NOW] for own in complete]
    product = [one["correlation"] * one["estimate"] * one["truth"] for one in now]
    sizes = [rms(np.array([one[name] for one in now])) for name in ("estimate", "truth")]
    weights = [one["sensors"] for one in now]
    return result | {
        "correlation": float(np.mean(product)) / (sizes[0] * sizes[1]),
        "median correlation": float(np.median([one["correlation"] for one in now])),
        "effective": float(np.average([one["effective"] for one in now], weights=weights)),
    }


def draw(rows: Sequence[Row], out: Path) -> None:
    """Coverage against the error in the data, and the estimate against the true error."""
    now = {one["problem"]: one for one in rows if one["what"] == NOW and one["refused"] is None}
    figure, (left, right) = new_figure(2)
    for what, colour in COLOURS.items():
        own = [
            (now[one["problem"]]["in_data"], one["coverage95"])
            for one in rows
            if one["what"] == what and one["refused"] is None and one["problem"] in now
        ]
        left.scatter(*np.array(own).reshape(-1, 2).T, s=12, color=colour, label=what)
    left.axhline(0.95, color="0.8")
    left.set_xlabel("error of the discretisation in noise sd")
    left.set_ylabel("coverage of 95 % intervals")
    left.legend()
    right.scatter(*[[one[name] for one in now.values()] for name in ("truth", "estimate")], s=12)
    right.axline((0, 0), slope=1, color="0.8")
    right.set_xlabel("true error in noise sd")
    right.set_ylabel("estimated error in noise sd")
    save_figure(out / "mesh-error.png", figure)
