"""Heavy metals in the Jura (the paper's Table 1): methods with and without physics, scored alike.

Ten restarts on the split of the benchmark; then, since its validation samples have been looked at
by a whole field, ourselves against the strongest baseline on random splits. One row a restart.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from riesz.datasets.jura import JuraSamples
from riesz.errors import RieszError
from riesz.io.store.results import Row
from riesz_paper.experiments.jura.cases import (
    RESPLIT,
    VALIDATION,
    Case,
    cases_of,
    check_samples,
    digest_of,
    trained_on,
)
from riesz_paper.experiments.jura.methods import ADDITIVE, BY_NAME, OURS, PLAIN, Entry, entries_for
from riesz_paper.experiments.jura.published import published_tasks
from riesz_paper.experiments.jura.settings import Choice, as_json, frozen_choices
from riesz_paper.experiments.jura.tables import comparisons, draw_scores, mean_scores
from riesz_paper.regression.method import Draws
from riesz_paper.running.comparison import write_tables
from riesz_paper.running.scores import absolute_errors, crps, share_inside
from riesz_paper.running.task import Experiment, Task

ENSEMBLE = "ensemble"
ENSEMBLED = (PLAIN, "vae-dt", "vae-nld")
NUM_RESPLITS = {"smoke": 1, "quick": 0, "full": 20}
MAX_RESTARTS = {"smoke": 1, "quick": 3, "full": 10}


def jura_experiment(
    samples: JuraSamples,
    seed: int,
    mode: str,
    metal: str | None = None,
    choices: Mapping[Case, Choice] | None = None,
) -> Experiment:
    """One row a method, case, split and restart; the quick run has one metal.

    `choices` are settings of one's own; those of the package are the default.
    """
    metal = "Cd" if metal is None and mode != "full" else metal
    check_samples(samples, cases_of(metal))
    own = choices is not None
    choices = frozen_choices() if choices is None else choices
    missing = [case for case in cases_of(metal) if case not in choices]
    if missing:
        raise RieszError(
            f"the settings have nothing for {missing[0].metal} from {missing[0].inputs}: make them "
            "with --select and the same --metal."
        )
    tasks = []
    for case in cases_of(metal):
        make = partial(task, samples, choices[case], seed)
        for entry in entries_for(case):
            restarts = min(entry.restarts, MAX_RESTARTS[mode])
            tasks += [make(entry, VALIDATION, k) for k in range(restarts)]
            if entry.name in ENSEMBLED:
                tasks.append(make(entry, VALIDATION, f"{ENSEMBLE} of {restarts}"))
        if choices[case].selected:
            tasks += [
                make(BY_NAME[name], f"{RESPLIT}{k:02d}", 0)
                for k in range(NUM_RESPLITS[mode])
                for name in (OURS, ADDITIVE)
            ]
    config: dict[str, Any] = {
        "mode": mode,
        "metal": metal,
        "samples": len(samples),
        "max_restarts": MAX_RESTARTS[mode],
        "resplits": NUM_RESPLITS[mode],
    }
    if own:
        config["settings"] = as_json(list(choices.values()))
    if not samples.is_built_in:
        config["data"] = digest_of(samples)
    else:
        tasks += published_tasks(tuple(dict.fromkeys(case.metal for case in cases_of(metal))))
    return Experiment("jura", config, tasks, summarise, draw)


def task(
    samples: JuraSamples, choice: Choice, seed: int, entry: Entry, split: str, restart: int | str
) -> Task:
    case = choice.case
    identity = {
        "method": entry.name,
        "role": entry.role,
        "selected": choice.selected and entry.name == OURS,
        "metal": case.metal,
        "secondaries": case.inputs,
        "split": split,
        "restart": restart,
    }
    return Task(identity, partial(row, samples, choice, seed, entry, split, restart))


def row(
    samples: JuraSamples, choice: Choice, seed: int, entry: Entry, split: str, restart: int | str
) -> Row:
    clock = perf_counter()
    truth = choice.case.target(samples.subset(~trained_on(samples, split)))
    one = partial(prediction, samples, choice, entry.name, split)
    if isinstance(restart, str):
        members = int(restart.removeprefix(f"{ENSEMBLE} of "))
        draws = np.concatenate([one(start_of(seed, k)) for k in range(members)])
    else:
        draws = one(start_of(seed, restart))
    errors = absolute_errors(draws, truth)
    return {
        "mae": float(errors.mean()),
        "crps": float(crps(draws, truth).mean()),
        "coverage95": share_inside(draws, truth),
        "seconds": perf_counter() - clock,
        "errors": np.round(errors, 4).tolist(),
    }


def start_of(seed: int, restart: int) -> int:
    """Restarts of different seeds are different; the very first starts from the centre."""
    return 1000 * seed + restart


@lru_cache(maxsize=16)
def prediction(samples: JuraSamples, choice: Choice, name: str, split: str, start: int) -> Draws:
    """Kept for a while: ensembles pool what restarts have made."""
    training = trained_on(samples, split)
    covariates = choice.case.covariates(samples)
    target = choice.case.target(samples)
    method = BY_NAME[name].build(samples, choice)
    predict = method(covariates.subset(training), target[training], seed=start)
    return predict(covariates.subset(~training))


def summarise(rows: Sequence[Row]) -> Mapping[str, Any]:
    summary: dict[str, Any] = {"rows": len(rows)}
    for found in mean_scores(rows):
        if found["selected"]:
            name = f"{found['metal']} from {found['secondaries']}"
            summary[f"{name}: MAE"] = found["mae"]
            summary[f"{name}: coverage"] = found["coverage95"]
    for found in comparisons(rows):
        if found["method"] == OURS:
            name = f"{found['metal']} from {found['secondaries']}, {found['split']}"
            summary[f"{name}: MAE minus {found['against']}"] = found["difference"]
    return summary


def draw(rows: Sequence[Row], out: Path) -> None:
    draw_scores(rows, out / "scores.png")
    write_tables(out, {"scores.md": mean_scores(rows), "paired.md": comparisons(rows)})
