"""Conductivity, storage and leakage of four aquifers from field tests, beside others' values.

One model of each: flow about the well's axis in time, with the same vague priors for all, and the
size of errors found with the rest. With `--full`, also with errors that readings of a well share.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from riesz.io.store.results import Row
from riesz.plot.figure import new_figure, save_figure
from riesz.posterior.checks import rms_of
from riesz_paper.data.pumping import readings
from riesz_paper.experiments.pumping.field_tests import FIELD_TESTS, FieldTest
from riesz_paper.experiments.pumping.fit import Fit, fit
from riesz_paper.running.comparison import grouped, write_tables
from riesz_paper.running.task import Experiment, Task
from riesz_pumping.fit import DRIFT, INDEPENDENT
from riesz_pumping.results import correlation, draw_fit, parameter_row
from riesz_pumping.well import Numbers, Readings

NOISES = {"quick": (INDEPENDENT,), "full": (INDEPENDENT, DRIFT)}


def pumping(seed: int, mode: str, folder: Path | None = None) -> Experiment:
    """All tests; what is missing is told before any work."""
    for test in FIELD_TESTS.values():
        readings(test.name, test.level, folder)
    tasks = [task for test, noise in cases(mode) for task in tasks_of(test, noise, seed, folder)]
    return Experiment("pumping", {"mode": mode}, tasks, summarise, partial(draw, folder=folder))


def cases(mode: str) -> list[tuple[FieldTest, str]]:
    """Each test with each noise; for a smoke test one of each kind of both."""
    first, *_, last = FIELD_TESTS.values()
    if mode == "smoke":
        return [(first, DRIFT), (last, INDEPENDENT)]
    return [(test, noise) for test in FIELD_TESTS.values() for noise in NOISES[mode]]


def tasks_of(test: FieldTest, noise: str, seed: int, folder: Path | None) -> list[Task]:
    """A row for each published value, all of one fit."""
    return [
        Task(
            {"test": test.name, "noise": noise, "parameter": name, "source": source},
            partial(row, folder, test.name, noise, name, source, seed),
            group=(test.name, noise),
        )
        for name in test.well.parameters
        for source, values in test.published.items()
        if name in values
    ]


@lru_cache(maxsize=1)
def fitted(folder: Path | None, name: str, noise: str, seed: int) -> tuple[Readings, Fit]:
    test = FIELD_TESTS[name]
    seen = readings(name, test.level, folder)
    return seen, fit(test, seen, noise, seed)


def row(folder: Path | None, name: str, noise: str, parameter: str, source: str, seed: int) -> Row:
    test = FIELD_TESTS[name]
    seen, found = fitted(folder, name, noise, seed)
    draws = found.draws[parameter]
    published = test.published[source][parameter]
    told = parameter_row(draws)
    inside = bool(told["q025"] <= published <= told["q975"])
    theirs = found.published.get(source)
    residual = seen.level - found.predicted
    is_first = (parameter, source) == (test.well.parameters[0], next(iter(test.published)))
    return {
        **told,
        "published": published,
        "inside": inside,
        "rmse": rms_of(residual),
        "rmse_published": None if theirs is None else rms_of(seen.level - theirs),
        "residual_correlation": correlation(residual, seen),
        "late_residual": late(residual, seen),
        "note": None if inside else test.causes.get(source),
        "cpu_seconds": found.cpu_seconds,
        "predicted": np.round(found.predicted, 6).tolist() if is_first else None,
    }


def late(residual: Numbers, seen: Readings) -> float:
    """The mean residual of the last tenth of readings: what the model lacks shows there first."""
    last = np.argsort(seen.time, kind="stable")[-max(len(seen) // 10, 1) :]
    return float(residual[last].mean())


def table_of(rows: Sequence[Row]) -> list[Row]:
    """Without what only figures need."""
    return [{k: value for k, value in row.items() if k != "predicted"} for row in rows]


def summarise(rows: Sequence[Row]) -> Mapping[str, Any]:
    summary: dict[str, Any] = {"rows": len(rows)}
    for (test, noise), own in grouped(rows, ("test", "noise")).items():
        for (name,), same in grouped(own, ("parameter",)).items():
            told = f"{same[0]['mean']:.4g} +- {same[0]['sd']:.2g}"
            inside = [one["source"] for one in same if one["inside"]]
            summary[f"{test}, {noise}: {name}"] = f"{told}; inside: {', '.join(inside) or 'none'}"
        summary[f"{test}, {noise}: cpu seconds"] = own[0]["cpu_seconds"]
    return summary


def draw(rows: Sequence[Row], out: Path, folder: Path | None = None) -> None:
    """Readings and fits on logarithmic axes, and what is left below them."""
    write_tables(out, {"values.md": table_of(rows)})
    drawn = [row for row in rows if row.get("predicted") and row["noise"] == INDEPENDENT]
    if not drawn:
        return
    figure, axes = new_figure(len(drawn), 2, width=3.6, height=2.8)
    for place, one in enumerate(drawn):
        test = FIELD_TESTS[one["test"]]
        seen, predicted = readings(test.name, test.level, folder), np.array(one["predicted"])
        above, below = axes[place], axes[len(drawn) + place]
        draw_fit(above, below, seen, predicted)
        above.set_title(test.name.replace("_", " "))
    axes[0].set_ylabel("level, m")
    axes[len(drawn)].set_ylabel("reading - model, m")
    save_figure(out / "fits.png", figure)
