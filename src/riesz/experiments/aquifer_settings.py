"""Which model of the experiment `aquifer` is the selected one: chosen on training wells alone.

`riesz experiment aquifer --select` scores candidates by leaving out blocks of the training wells
of split B1 and writes such a file; the one in this folder is a copy of `results/aquifer-select`.

It is the second choice. The first (`results/aquifer-select-first`) took the best score of one cut
into blocks, though the candidates differed by far less than their errors, and was scored on split
B1 before this one was made. The rule by which the second was made is the usual one: the simplest
candidate within a standard error of the best.
"""

import json
from collections.abc import Sequence
from importlib.resources import files

import numpy as np

from riesz.io.results import Row

FILE = "aquifer_settings.json"


def chosen(rows: Sequence[Row]) -> str:
    """The first candidate, rows being in the order of simplicity, not clearly behind the best."""
    candidates = list(dict.fromkeys(row["candidate"] for row in rows))
    scores = {name: score(rows, name) for name in candidates}
    best = min(candidates, key=scores.__getitem__)
    bound = scores[best] + standard_error(rows, best)
    return next(name for name in candidates if scores[name] <= bound)


def score(rows: Sequence[Row], candidate: str) -> float:
    """Minus the log-density of a well left out, over all cuts."""
    return float(np.mean([row["cv_nlpd"] for row in rows if row["candidate"] == candidate]))


def standard_error(rows: Sequence[Row], candidate: str) -> float:
    """Of that, by blocks: wells of a block err together. Cuts share their wells: averaged."""
    own = [np.asarray(r["nlpd_of_blocks"]) for r in rows if r["candidate"] == candidate]
    return float(np.mean([blocks.std(ddof=1) / np.sqrt(len(blocks)) for blocks in own]))


def as_json(rows: Sequence[Row]) -> str:
    return json.dumps({"selected": chosen(rows)}, indent=1) + "\n"


def frozen_choice() -> str:
    """The one that came with the package."""
    text = files("riesz.experiments").joinpath(FILE).read_text(encoding="utf-8")
    return json.loads(text)["selected"]
