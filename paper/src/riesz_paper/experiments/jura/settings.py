"""Settings of the experiment `jura`: chosen on training samples alone, and kept in a file.

`riesz experiment jura --select` scores candidates by cross-validation on the 259 training samples
and writes such a file. The one in this folder is a copy of `results/jura-select`: a second choice,
committed before its models were scored (`paper/docs/jura.md` tells of the first).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from riesz.errors import FileFormatError
from riesz.io.store.results import Row
from riesz_paper.experiments.jura.cases import CASES, MANY_SECONDARIES, Case
from riesz_paper.regression.model import Structure

FILE = "settings.json"

CANDIDATES = (
    *(
        Structure(numbers=numbers, field="physical", robust=robust)
        for numbers in ("smooth", "joint")
        for robust in (False, True)
    ),
    *(
        Structure(numbers=numbers, field="physical", robust=False)
        for numbers in ("linear", "linear and smooth", "linear and joint")
    ),
)
"""A first choice was among the first four; linear effects came with the second."""


@dataclass(frozen=True)
class Choice:
    """The structure for one case, and whether the case itself is the choice for its metal."""

    case: Case
    structure: Structure
    selected: bool


def chosen(rows: Sequence[Row]) -> list[Choice]:
    """The best candidate of each case; for each metal, the case that did best.

    Copper with three secondaries is asked for with categories and without.
    """
    best = {}
    for case in CASES:
        own = [r for r in rows if (r["metal"], r["secondaries"]) == (case.metal, case.inputs)]
        if own:
            best[case] = min(own, key=lambda r: r["cv_mae"])
    choices = []
    for case, row in best.items():
        rivals = [r["cv_mae"] for other, r in best.items() if other.metal == case.metal]
        selected = row["cv_mae"] == min(rivals)
        if case.metal == "Cu":
            selected = case.secondaries == MANY_SECONDARIES
        choices.append(Choice(case, CANDIDATES[row["candidate"]], selected))
    return choices


def as_json(choices: Sequence[Choice]) -> list[dict[str, Any]]:
    return [
        {**asdict(c.case), "structure": asdict(c.structure), "selected": c.selected}
        for c in choices
    ]


def choices_in(content: Any, name: str) -> dict[Case, Choice]:
    try:
        return dict(choice_in(entry) for entry in content)
    except (KeyError, TypeError, AttributeError) as error:
        raise FileFormatError(f"{name} is not a settings file: {error}.") from None


def choice_in(entry: Mapping[str, Any]) -> tuple[Case, Choice]:
    case = Case(entry["metal"], tuple(entry["secondaries"]), entry["categories"])
    return case, Choice(case, Structure(**entry["structure"]), entry["selected"])


def read_choices(path: Path) -> dict[Case, Choice]:
    """Those of a file that `--select` wrote."""
    try:
        return choices_in(json.loads(path.read_text(encoding="utf-8")), str(path))
    except (OSError, ValueError) as error:
        raise FileFormatError(f"{path} is not a settings file: {error}.") from None


def frozen_choices() -> dict[Case, Choice]:
    """Those that came with the package."""
    text = files("riesz_paper.experiments.jura").joinpath(FILE).read_text(encoding="utf-8")
    return choices_in(json.loads(text), FILE)


def fold_of(num_samples: int, num_folds: int, repeat: int) -> np.ndarray:
    """The fold of each sample, all of one size if they can be."""
    return np.random.default_rng(repeat).permutation(num_samples) % num_folds
