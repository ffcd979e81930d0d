"""`riesz demo`: the main job in a few minutes, on data that come with the package.

First a wind is found from twenty-five sensors, and the posterior is held against the exact one.
Then cadmium in the Swiss Jura is predicted where it was not measured, and mapped.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from riesz.datasets.jura import Samples, jura
from riesz.engines.emulate.engine import Emulate
from riesz.fem.interpolate import point_operator
from riesz.io.store.results import Row
from riesz.posterior.posterior import Posterior
from riesz_paper.baselines.gaussian_process import additive_log_gp
from riesz_paper.experiments.demo.figures import draw_winds
from riesz_paper.experiments.jura.cases import VALIDATION, modes_around, trained_on
from riesz_paper.experiments.jura.map import metal_map
from riesz_paper.experiments.jura.map_figures import draw_map
from riesz_paper.experiments.jura.published import ERRORS, METHODS
from riesz_paper.experiments.jura.settings import Choice, frozen_choices
from riesz_paper.experiments.transport.data import PRIOR_SD, Case, data_set, posed
from riesz_paper.experiments.transport.exact import ExactPosterior, exact_posterior
from riesz_paper.regression.chain_file import save_chain
from riesz_paper.regression.model import field_regression
from riesz_paper.running.scores import absolute_errors, crps, share_inside
from riesz_paper.running.task import Experiment, Task

METAL = "Cd"
LEVELS = 5  # 65 x 65 nodes
RUN = "jura-run"
EMPTY: Row = dict.fromkeys(("mean_error_sd", "sd_ratio", "mae", "crps", "coverage95", "seconds"))


def demo(seed: int) -> Experiment:
    """One row a method of each part."""
    samples = jura()
    choice = selected(METAL)
    wind = Case("square", LEVELS, 0, seed)
    tasks = [
        Task({"part": "wind", "method": "emulate"}, partial(clocked, partial(wind_row, wind))),
        *(
            Task(
                {"part": METAL, "method": name},
                partial(clocked, partial(metal_row, samples, choice, physical=physical)),
            )
            for name, physical in (("ours", True), ("additive GP", False))
        ),
        *(
            Task({"part": METAL, "method": name}, partial(published, mae))
            for name, (mae, _) in zip(METHODS, ERRORS[METAL], strict=True)
        ),
        Task(
            {"part": "map", "method": "ours"},
            partial(clocked, partial(map_row, samples, choice, seed)),
        ),
    ]
    config = {"metal": METAL, "secondaries": choice.case.inputs, "nodes": 65**2}
    return Experiment("demo", config, tasks, summarise, partial(draw, samples, choice, wind))


def clocked(run: Callable[[], Row]) -> Row:
    clock = perf_counter()
    return {**run(), "seconds": perf_counter() - clock}


def selected(metal: str) -> Choice:
    """The model that cross-validation on the training samples chose for a metal."""
    return next(c for c in frozen_choices().values() if c.case.metal == metal and c.selected)


@lru_cache(maxsize=1)
def found_wind(case: Case) -> tuple[Posterior, ExactPosterior]:
    problem, data = posed(case)
    points = point_operator(problem.forward.space, data.validation_points)
    fitted = Emulate().run(problem, seed=case.fit_seed())
    return fitted, exact_posterior(problem, points)


def wind_row(case: Case) -> Row:
    posterior, exact = found_wind(case)
    sd = np.sqrt(np.diagonal(np.asarray(posterior.coordinate_covariance())))
    shift = np.abs(np.asarray(posterior.coordinate_mean()) - exact.mean) / exact.sd
    ratios = sd / exact.sd
    farthest = ratios[np.argmax(np.abs(np.log(ratios)))]
    return {**EMPTY, "mean_error_sd": float(shift.max()), "sd_ratio": float(farthest)}


def metal_row(samples: Samples, choice: Choice, *, physical: bool) -> Row:
    """Trained on the training samples, scored on the others."""
    training = trained_on(samples, VALIDATION)
    covariates, target = choice.case.covariates(samples), choice.case.target(samples)
    method = (
        field_regression(choice.structure, modes_around(samples)) if physical else additive_log_gp()
    )
    draws = method(covariates.subset(training), target[training], seed=0)(
        covariates.subset(~training)
    )
    truth = target[~training]
    return {
        **EMPTY,
        "mae": float(absolute_errors(draws, truth).mean()),
        "crps": float(crps(draws, truth).mean()),
        "coverage95": share_inside(draws, truth),
    }


def published(mae: float) -> Row:
    return {**EMPTY, "mae": mae}


def map_row(samples: Samples, choice: Choice, seed: int) -> Row:
    """The map is drawn at the end; here it is made."""
    metal_map(samples, choice, seed)
    return dict(EMPTY)


def summarise(rows: Sequence[Row]) -> Mapping[str, Any]:
    summary: dict[str, Any] = {}
    for row in rows:
        if row["part"] == "wind":
            summary["wind: mean off the exact one, in sd"] = row["mean_error_sd"]
            summary["wind: sd / exact sd"] = row["sd_ratio"]
        elif row["part"] == METAL:
            summary[f"{METAL}, mean absolute error in mg/kg, {row['method']}"] = row["mae"]
    return summary


def draw(samples: Samples, choice: Choice, wind: Case, rows: Sequence[Row], out: Path) -> None:
    del rows
    posterior, exact = found_wind(wind)
    truth = data_set(wind.domain, wind.seed, wind.replicate).velocity
    draw_winds(posterior, exact, PRIOR_SD, truth, out / "wind.png")
    found = metal_map(samples, choice, wind.seed)
    draw_map(samples, found, out / "cadmium.png")
    save_chain(out / RUN, found.model)
