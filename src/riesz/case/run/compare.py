"""Run folders held against each other: tables, a verdict, and files of both."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from riesz.case.options import CompareOptions, command_words, takes
from riesz.case.run.folder import Run, read_run
from riesz.comparison.compare import compare
from riesz.comparison.results import KRIGING, PLANE, Comparison
from riesz.density.engine import AbstractEngine
from riesz.errors import RieszError
from riesz.inference.table import RENAMED, class_of, engine_of, rename
from riesz.io.store.files import make_folder
from riesz.io.store.results import results, write_csv, write_results
from riesz.plot.comparison import comparison_figure
from riesz.plot.figure import save_figure

NOT_PLAIN = ("linear_solver", "start")
"""Settings that are kept as words to read: a refit chooses its own."""

RESULTS, MODELS, PAIRS, FIGURE = "results.json", "models.csv", "pairs.csv", "differences.png"


@takes(CompareOptions)
def compare_runs(folders: Sequence[Path | str], options: CompareOptions) -> Comparison:
    """Compare the posteriors of run folders, fitted to the same observations.

    Errors are in the unit of the data. With `out`, a folder, what was found is kept there:
    results.json, models.csv, pairs.csv and differences.png.
    """
    runs = runs_by_name(folders)
    first = next(iter(runs.values()))
    for name, run in runs.items():
        if run.observations.transform != first.observations.transform:
            raise RieszError(
                f"{next(iter(runs))} and {name} do not model the same numbers: one takes "
                "logarithms by `transform` and the other does not. Fit both in one way."
            )
    folder = None if options.out is None else make_folder(Path(options.out))
    is_log = first.observations.transform == "log"
    result = compare(
        {name: run.posterior for name, run in runs.items()},
        blocks=options.blocks,
        refit=options.refit,
        seed=options.seed,
        back=np.exp if is_log else None,
        unit=first.observations.unit or "",
        engines={name: engine for name, run in runs.items() if (engine := engine_of_run(run))},
    )
    if folder is not None:
        words = command_words(options, "out", "seed", "blocks", "refit")
        words = ["riesz", "compare", *map(str, folders), *words]
        write_comparison(folder, result, shlex.join(words))
    return result


def runs_by_name(folders: Sequence[Path | str]) -> dict[str, Run]:
    """By the names of their folders, or by all of their paths where names are alike."""
    paths = [Path(one) for one in folders]
    twice = next((one for one in paths if paths.count(one) > 1), None)
    if twice is not None:
        raise RieszError(f"{twice} is named more than once: a run ties with itself.")
    names = [path.resolve().name for path in paths]
    taken = {KRIGING, PLANE} | {name for name in names if names.count(name) > 1}
    chosen = [str(path) if name in taken else name for path, name in zip(paths, names, strict=True)]
    return {name: read_run(path) for name, path in zip(chosen, paths, strict=True)}


def engine_of_run(run: Run) -> AbstractEngine | None:
    """What a run was fitted by, with its settings; None where another engine followed it."""
    name = run.numbers.get("engine")
    if name is None or run.numbers.get("first_engine", name) != name:
        return None
    plain: dict[str, dict[str, Any]] = {}
    for key, value in (run.numbers.get("settings") or {}).items():
        part, _, setting = key.rpartition(".")
        if setting not in NOT_PLAIN:
            plain.setdefault(part or name, {})[setting] = value
    if name in RENAMED:  # an earlier version made it
        name, density, plain = rename(name, plain.get(name, {}))
        return engine_of(name, density, non_default_settings(plain))
    return engine_of(name, settings=non_default_settings(plain))


def non_default_settings(given: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Of each method or density, settings that are there and not as they are by default."""
    result: dict[str, dict[str, Any]] = {}
    for part, own in given.items():
        fields = class_of(part).model_fields
        known = {key: value for key, value in own.items() if key in fields}
        result[part] = {key: one for key, one in known.items() if one != fields[key].default}
    return result


def write_comparison(folder: Path, comparison: Comparison, command: str) -> None:
    pairs = list(comparison.pairs())
    summary = {
        "verdict": list(map(str, comparison.verdict)),
        "best": comparison.ranked[0].name,
        "pairs": pairs,
    }
    summary |= {"blocks": None if comparison.block is None else comparison.block.tolist()}
    content = results(command, {"models": [m.name for m in comparison.models]}, comparison.seed,
                      comparison.rows(), summary)  # fmt: skip
    write_results(folder / RESULTS, content)
    write_csv(folder / MODELS, comparison.rows())
    write_csv(folder / PAIRS, pairs)
    save_figure(folder / FIGURE, comparison_figure(comparison))
