"""Which model of the experiment `aquifer` is the selected one: chosen on training wells alone.

`riesz experiment aquifer --select` scores candidates by leaving out blocks of the training wells
of split B1 and writes such a file; the one in this folder is a copy of `results/aquifer-select`.

It is the second choice. The first (`results/aquifer-select-first`) took the best score, though the
candidates differed by far less than their errors, and was scored on split B1 before this one was
made. The rule of the second is the usual one: the simplest candidate within a standard error of the
best.
"""

import json
from collections.abc import Sequence
from importlib.resources import files

import numpy as np

from riesz.io.store.results import Row

FILE = "settings.json"


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
