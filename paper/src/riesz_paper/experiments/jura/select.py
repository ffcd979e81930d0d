"""`riesz experiment jura --select`: candidates by repeated cross-validation on training samples.

No validation sample is read here.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from riesz.datasets.jura import JuraSamples
from riesz.io.store.files import replacing
from riesz.io.store.results import Row
from riesz_paper.experiments.jura.cases import (
    Case,
    cases_of,
    check_samples,
    digest_of,
    modes_around,
)
from riesz_paper.experiments.jura.settings import CANDIDATES, FILE, as_json, chosen, fold_of
from riesz_paper.regression.model import field_regression
from riesz_paper.running.scores import absolute_errors, crps, share_inside
from riesz_paper.running.task import Experiment, Task

NUM_FOLDS = 7  # 259 samples in folds of one size: one compilation
NUM_REPEATS = {"smoke": 1, "quick": 1, "full": 2}


def jura_select(samples: JuraSamples, mode: str, metal: str | None) -> Experiment:
    """One row a case and candidate."""
    metal = "Cd" if metal is None and mode == "smoke" else metal
    check_samples(samples, cases_of(metal))
    training = samples.subset(samples.is_training)
    repeats = NUM_REPEATS[mode]
    tasks = [
        Task(
            {"metal": case.metal, "secondaries": case.inputs, "candidate": k},
            partial(row, samples, training, case, k, repeats),
        )
        for case in cases_of(metal)
        for k in range(len(CANDIDATES))
    ]
    config: dict[str, Any] = {"mode": mode, "metal": metal, "folds": NUM_FOLDS, "repeats": repeats}
    if not samples.is_built_in:
        config["data"] = digest_of(samples)
    return Experiment("jura --select", config, tasks, summarise, write_settings)


def row(
    samples: JuraSamples, training: JuraSamples, case: Case, candidate: int, repeats: int
) -> Row:
    clock = perf_counter()
    structure = CANDIDATES[candidate]
    method = field_regression(structure, modes_around(samples))
    covariates, target = case.covariates(training), case.target(training)
    errors, scores, inside = [], [], []
    for repeat in range(repeats):
        fold = fold_of(len(target), NUM_FOLDS, repeat)
        for left_out in range(NUM_FOLDS):
            test = fold == left_out
            predict = method(covariates.subset(~test), target[~test], seed=0)
            draws = predict(covariates.subset(test))
            errors.append(absolute_errors(draws, target[test]).mean())
            scores.append(crps(draws, target[test]).mean())
            inside.append(share_inside(draws, target[test]))
    return {
        "numbers": structure.numbers,
        "local": structure.local,
        "robust": structure.robust,
        "cv_mae": float(np.mean(errors)),
        "cv_mae_error": float(np.std(errors) / len(errors) ** 0.5),
        "cv_crps": float(np.mean(scores)),
        "cv_coverage95": float(np.mean(inside)),
        "seconds": perf_counter() - clock,
    }


def summarise(rows: Sequence[Row]) -> Mapping[str, Any]:
    summary: dict[str, Any] = {"rows": len(rows)}
    for choice in chosen(rows):
        mark = " (selected)" if choice.selected else ""
        told = ", ".join(f"{key} {value}" for key, value in asdict(choice.structure).items())
        summary[f"{choice.case.metal} from {choice.case.inputs}"] = told + mark
    return summary


def write_settings(rows: Sequence[Row], out: Path) -> None:
    with replacing(out / FILE) as file:
        file.write((json.dumps(as_json(chosen(rows)), indent=1) + "\n").encode())
