"""`riesz experiment aquifer --select`: candidates by blocks left out of the training wells.

No head of a test well is read here; the mesh is fine at their places, too. Extrapolation is what is
asked for, so whole blocks of the training wells of split B1 are left out. The file that this writes
tells which model is the selected one; that in this folder is a copy of `results/aquifer-select`.

It is the second choice. The first (`results/aquifer-select-first`) took the best score, though the
candidates differed by far less than their errors, and was scored on split B1 before this one was
made. The rule of the second is the usual one: the simplest candidate within a standard error of the
best.
"""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import scipy.cluster.vq
from jaxtyping import Int

from riesz.io.store.files import replacing
from riesz.io.store.results import Row
from riesz_paper.baselines.standard import standard_of
from riesz_paper.data.esrp import Aquifer, Wells, splits_of
from riesz_paper.experiments.aquifer.data import mesh_of, places_of
from riesz_paper.experiments.aquifer.methods import STRUCTURES
from riesz_paper.experiments.aquifer.model import conditional_head
from riesz_paper.running.scores import absolute_errors, crps, is_inside, negative_log_densities
from riesz_paper.running.task import Experiment, Task

NUM_BLOCKS = {"smoke": 2, "quick": 4, "full": 6}
CHOSEN_ON = "B1"

FILE = "settings.json"


def aquifer_select(aquifer: Aquifer, mode: str) -> Experiment:
    """One row a candidate, simple ones first."""
    tasks = [
        Task({"candidate": name}, partial(row, aquifer, name, NUM_BLOCKS[mode]))
        for name in STRUCTURES
    ]
    config: dict[str, Any] = {
        "mode": mode,
        "blocks": NUM_BLOCKS[mode],
        "split": CHOSEN_ON,
        "data": aquifer.digest(),
    }
    return Experiment("aquifer --select", config, tasks, summarise, write_settings)


def row(aquifer: Aquifer, candidate: str, num_blocks: int) -> Row:
    clock = perf_counter()
    (split,) = splits_of(aquifer, CHOSEN_ON)
    wells = split.training
    train = conditional_head(mesh_of(aquifer), STRUCTURES[candidate])
    standard = standard_of(wells.head)
    places, block = places_of(wells), blocks_of(wells, num_blocks)
    errors, scores, densities, inside = [], [], [], []
    for left_out in range(num_blocks):
        test = block == left_out
        predict = train(places.subset(~test), wells.head[~test], seed=0)
        draws = (predict(places.subset(test)) - standard.centre) / standard.spread
        truth = np.asarray(standard.scaled(wells.head[test]))
        errors.append(absolute_errors(draws, truth))
        scores.append(crps(draws, truth))
        densities.append(negative_log_densities(draws, truth))
        inside.append(is_inside(draws, truth))
    return {
        "cv_nlpd": float(np.concatenate(densities).mean()),
        "cv_mae": float(np.concatenate(errors).mean()),
        "cv_crps": float(np.concatenate(scores).mean()),
        "cv_coverage95": float(np.concatenate(inside).mean()),
        "nlpd_of_blocks": [float(block.mean()) for block in densities],
        "seconds": perf_counter() - clock,
    }


def blocks_of(wells: Wells, num_blocks: int) -> Int[np.ndarray, " well"]:
    """Wells near each other make a block."""
    _, labels = scipy.cluster.vq.kmeans2(
        wells.points / wells.points.std(), num_blocks, minit="++", rng=np.random.default_rng(0)
    )
    return labels.astype(int)


def summarise(rows: Sequence[Row]) -> Mapping[str, Any]:
    return {"rows": len(rows), "selected": chosen(rows) if rows else None}


def write_settings(rows: Sequence[Row], out: Path) -> None:
    with replacing(out / FILE) as file:
        file.write(as_json(rows).encode())


def chosen(rows: Sequence[Row]) -> str:
    """The first candidate, rows being in the order of simplicity, not clearly behind the best."""
    best = min(rows, key=lambda row: row["cv_nlpd"])
    bound = best["cv_nlpd"] + standard_error(best)
    return next(row["candidate"] for row in rows if row["cv_nlpd"] <= bound)


def standard_error(row: Row) -> float:
    """Of a mean over the wells left out, by blocks: wells of a block err together."""
    blocks = np.asarray(row["nlpd_of_blocks"])
    return float(blocks.std(ddof=1) / np.sqrt(len(blocks)))


def as_json(rows: Sequence[Row]) -> str:
    return json.dumps({"selected": chosen(rows)}, indent=1) + "\n"


def frozen_choice() -> str:
    """The one that came with the package."""
    text = files("riesz_paper.experiments.aquifer").joinpath(FILE).read_text(encoding="utf-8")
    return json.loads(text)["selected"]
