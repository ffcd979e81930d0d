"""Which model of the experiment `aquifer` is the selected one: chosen on training wells alone.

`riesz experiment aquifer --select` scores candidates by leaving out blocks of the training wells
of split B1 and writes such a file. The one in this folder is a copy of `results/aquifer-select`,
committed before any test well was scored.
"""

import json
from collections.abc import Sequence
from importlib.resources import files

from riesz.io.results import Row

FILE = "aquifer_settings.json"


def chosen(rows: Sequence[Row]) -> str:
    """The candidate with the best mean log-density."""
    return min(rows, key=lambda r: r["cv_nlpd"])["candidate"]


def as_json(rows: Sequence[Row]) -> str:
    return json.dumps({"selected": chosen(rows)}, indent=1) + "\n"


def frozen_choice() -> str:
    """The one that came with the package."""
    text = files("riesz.experiments").joinpath(FILE).read_text(encoding="utf-8")
    return json.loads(text)["selected"]
