"""The Snake River Plain aquifer (the paper's Table 2): who extrapolates, and who knows how well.

Wells of one part of the plain or of one time predict those of another. One row a method, split,
quantity, subset of the test wells and restart; "standardised" is by mean and sd of the training
wells.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from riesz.errors import RieszError, any_of, nearest
from riesz.io.store.results import Row
from riesz_paper.baselines.standard import standard_of
from riesz_paper.data.esrp import Aquifer, splits_of
from riesz_paper.experiments.aquifer.data import (
    QUANTITIES,
    SPLITS,
    is_in,
    places_of,
    subsets_of,
    values_of,
)
from riesz_paper.experiments.aquifer.later import (
    LATER_SPLITS,
    at_another_time,
    change_between_decades,
)
from riesz_paper.experiments.aquifer.map import draw_maps
from riesz_paper.experiments.aquifer.methods import BY_NAME, Entry
from riesz_paper.experiments.aquifer.select import frozen_choice
from riesz_paper.experiments.aquifer.tables import (
    COMPARED,
    comparisons,
    draw_scores,
    mean_scores,
    published_tasks,
)
from riesz_paper.regression.method import Draws
from riesz_paper.running.comparison import write_tables
from riesz_paper.running.scores import (
    absolute_errors,
    crps,
    is_inside,
    negative_log_densities,
    squared_errors,
)
from riesz_paper.running.task import Experiment, Task

BLOCKS = "D"
QUICK_SPLIT = "B1"


class Scores(NamedTuple):
    """Of each test well, standardised but for the last."""

    absolute: Float[np.ndarray, " well"]
    squared: Float[np.ndarray, " well"]
    nlpd: Float[np.ndarray, " well"]
    crps: Float[np.ndarray, " well"]
    inside: Bool[np.ndarray, " well"]
    feet: Float[np.ndarray, " well"]


def aquifer_experiment(
    aquifer: Aquifer, seed: int, mode: str, split: str | None = None
) -> Experiment:
    """All splits, or one; the quick run has split B1 and one restart."""
    if split is not None and split not in SPLITS:
        raise RieszError(
            f"there is no split {split!r}: {nearest(split, SPLITS)}It is {any_of(SPLITS)}."
        )
    split = QUICK_SPLIT if split is None and mode != "full" else split
    splits = SPLITS if split is None else (split,)
    selected = frozen_choice()
    tasks = [
        task(aquifer, seed, selected, entry, name, restart, quantity, subset)
        for name in splits
        for entry in BY_NAME.values()
        for restart in range(restarts_of(entry, name, mode))
        for quantity in QUANTITIES
        for subset in subsets_of(name)
    ]
    config: dict[str, Any] = {
        "mode": mode,
        "splits": list(splits),
        "selected": selected,
        "data": aquifer.digest(),
    }
    return Experiment(
        "aquifer", config, [*tasks, *published_tasks()], summarise, partial(draw, aquifer)
    )


def restarts_of(entry: Entry, split: str, mode: str) -> int:
    if mode != "full":
        return 1
    return entry.block_restarts if split == BLOCKS else entry.restarts


def task(
    aquifer: Aquifer,
    seed: int,
    selected: str,
    entry: Entry,
    split: str,
    restart: int,
    quantity: str,
    subset: str,
) -> Task:
    identity = {
        "method": entry.name,
        "role": entry.role,
        "selected": entry.name == selected,
        "split": split,
        "quantity": quantity,
        "subset": subset,
        "restart": restart,
    }
    start = 1000 * seed + restart
    run = partial(row, aquifer, entry.name, split, start, quantity, subset)
    return Task(identity, run, group=(entry.name, split))


def row(aquifer: Aquifer, method: str, split: str, start: int, quantity: str, subset: str) -> Row:
    draws, seconds = predictions(aquifer, method, split, start)
    scores = scores_of(aquifer, split, draws, quantity, subset)
    return {
        "mae": float(scores.absolute.mean()),
        "mse": float(scores.squared.mean()),
        "nlpd": float(scores.nlpd.mean()),
        "crps": float(scores.crps.mean()),
        "coverage95": float(scores.inside.mean()),
        "n": len(scores.inside),
        "mae_feet": float(scores.feet.mean()),
        "seconds": seconds,
        **(scores_of_wells(scores) if quantity == COMPARED else {}),
    }


def scores_of_wells(scores: Scores) -> Row:
    """What comparisons need of each well; result files would be twice as large with all."""
    return {
        "crps_of_wells": np.round(scores.crps, 5).tolist(),
        "nlpd_of_wells": np.round(scores.nlpd, 5).tolist(),
        "errors_of_wells": np.round(scores.absolute, 5).tolist(),
    }


@lru_cache(maxsize=4)
def predictions(
    aquifer: Aquifer, method: str, split: str, start: int
) -> tuple[tuple[Draws, ...], float]:
    """Draws of head at the test wells of each part of a split, and the seconds they took.

    Kept for a while: both quantities and all subsets are scored from them.
    """
    clock, found = perf_counter(), []
    train = BY_NAME[method].build(aquifer)
    for part in splits_of(aquifer, split):
        predict = train(places_of(part.training), part.training.head, seed=start)
        found.append(predict(places_of(part.test)))
    if split in LATER_SPLITS:
        found = [at_another_time(draws, change_between_decades(aquifer), start) for draws in found]
    return tuple(found), perf_counter() - clock


def scores_of(
    aquifer: Aquifer, split: str, draws: Sequence[Draws], quantity: str, subset: str
) -> Scores:
    """Over all parts of a split, each standardised by its own training wells."""
    parts = []
    for part, heads in zip(splits_of(aquifer, split), draws, strict=True):
        kept = is_in(part, subset)
        own = heads if quantity == "head" else part.test.surface[None, :] - heads
        standard = standard_of(values_of(part.training, quantity))
        scaled = ((own - standard.centre) / standard.spread)[:, kept]
        truth = ((values_of(part.test, quantity) - standard.centre) / standard.spread)[kept]
        absolute = absolute_errors(scaled, truth)
        parts.append(
            Scores(
                absolute,
                squared_errors(scaled, truth),
                negative_log_densities(scaled, truth),
                crps(scaled, truth),
                is_inside(scaled, truth),
                absolute * standard.spread,
            )
        )
    return Scores(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def summarise(rows: Sequence[Row]) -> Mapping[str, Any]:
    summary: dict[str, Any] = {"rows": len(rows)}
    for found in mean_scores(rows):
        if found["selected"] and found["quantity"] == "head":
            name = f"{found['method']}, {found['split']}, {found['subset']}"
            for key in ("mae", "nlpd", "coverage95"):
                summary[f"{name}: {key}"] = found[key]
    return summary


def draw(aquifer: Aquifer, rows: Sequence[Row], out: Path) -> None:
    draw_scores(rows, out / "scores.png")
    draw_maps(aquifer, out)
    write_tables(out, {"scores.md": mean_scores(rows), "paired.md": comparisons(rows)})
