"""The Snake River Plain aquifer in time: readings before 1980 forecast those of 1980 to 1999.

Split A mostly asks for wells that were read before, split D for whole blocks of wells that were
not. One row a method, split and kind: `reading`, each by itself; `well`, the median of a well over
the twenty years, as the steady experiment has it; `drift`, the mean over wells of how much those
medians differ from those of 1960 to 1979. Scores are in sds of the training wells.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from riesz.errors import RieszError, any_of, nearest
from riesz.io.store.results import Row
from riesz_paper.data.esrp import Aquifer, splits_of
from riesz_paper.experiments.aquifer_time.changes import DIFFUSIVITIES, FIRST_RECHARGE, NUM_TERMS
from riesz_paper.experiments.aquifer_time.figures import draw_drift, draw_scores
from riesz_paper.experiments.aquifer_time.fit import PARTS
from riesz_paper.experiments.aquifer_time.methods import (
    BY_NAME,
    ENTRIES,
    RECHARGE_LENGTH,
    SELECTED,
    Entry,
    fitted_to,
)
from riesz_paper.experiments.aquifer_time.readings import (
    BOTH,
    EVERY,
    FIRST_YEAR,
    Case,
    case_of,
    record_of,
    within_year_sd,
)
from riesz_paper.running.scores import (
    TAILS,
    absolute_errors,
    crps,
    is_inside,
    negative_log_densities,
)
from riesz_paper.running.task import Experiment, Task

SPLITS = ("A", "D")
QUICK_SPLIT = "A"
KINDS = {"A": ("well", "reading", "drift"), "D": ("well", "reading")}


class Drawn(NamedTuple):
    """Draws for a case, in feet."""

    case: Case
    years: Float[np.ndarray, "draw year"]
    readings: Float[np.ndarray, "draw reading"]
    medians: Float[np.ndarray, "draw well"]


def aquifer_time_experiment(
    aquifer: Aquifer, seed: int, mode: str, split: str | None = None
) -> Experiment:
    """Both splits, or one; the quick run has split A. `--resume` puts runs of one together."""
    if split is not None and split not in SPLITS:
        raise RieszError(
            f"there is no split {split!r} in time: {nearest(split, SPLITS)}It is {any_of(SPLITS)}."
        )
    record_of(aquifer)  # says what is missing before any work
    split = QUICK_SPLIT if split is None and mode != "full" else split
    splits = SPLITS if split is None else (split,)
    tasks = [
        task(aquifer, seed, entry, name, kind)
        for name in splits
        for entry in ENTRIES
        if name in entry.splits
        for kind in KINDS[name]
    ]
    config: dict[str, Any] = {
        "mode": mode,
        "selected": SELECTED,
        "data": aquifer.digest(),
        "first_year": FIRST_YEAR,
        "one_year_of": EVERY,
        "recharge_from": FIRST_RECHARGE,
        "recharge_length_km": RECHARGE_LENGTH,
        "recharge_terms": NUM_TERMS,
        "diffusivities_km2_a_year": DIFFUSIVITIES.tolist(),
        "parts": PARTS,
    }
    return Experiment("aquifer-time", config, tasks, summarise, draw)


def task(aquifer: Aquifer, seed: int, entry: Entry, split: str, kind: str) -> Task:
    identity = {
        "split": split,
        "method": entry.name,
        "role": entry.role,
        "selected": entry.name == SELECTED,
        "kind": kind,
    }
    run = partial(row, aquifer, entry.name, split, kind, seed)
    return Task(identity, run, group=(entry.name, split))


def row(aquifer: Aquifer, method: str, split: str, kind: str, seed: int) -> Row:
    drawn, seconds = drawn_for(aquifer, method, split, seed)
    if kind == "drift":
        return drift_row(drawn[0], seconds)
    parts = [scores(one, kind) for one in drawn]
    found = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    feet = [part["mae"] * one.case.spread for part, one in zip(parts, drawn, strict=True)]
    told = told_of(aquifer, method, drawn[0].case, seed) if split == "A" and kind == "well" else {}
    return {
        **{name: float(values.mean()) for name, values in found.items()},
        "n": len(found["mae"]),
        "mae_feet": float(np.mean(np.concatenate(feet))),
        "cpu_seconds": seconds,
        **told,
    }


def told_of(aquifer: Aquifer, method: str, case: Case, seed: int) -> Row:
    """How likely the training readings are, and the scales they ask for."""
    build = BY_NAME[method].build
    if build is None:
        return {}
    found = fitted_to(build, aquifer, case, seed)
    scales = {name: float(one) for name, one in found.model.values(jnp.asarray(found.mode)).items()}
    evidence = {"log_evidence": found.log_evidence, "k_hat": found.k_hat}
    return {**evidence, **{f"scale_{name}": value for name, value in scales.items()}}


def scores(drawn: Drawn, kind: str) -> dict[str, np.ndarray]:
    """Of each well or reading, standardised."""
    case = drawn.case
    draws, truth = (
        (drawn.medians, case.medians) if kind == "well" else (drawn.readings, case.asked.head)
    )
    scaled, known = (draws - case.centre) / case.spread, (truth - case.centre) / case.spread
    return {
        "mae": absolute_errors(scaled, known),
        "nlpd": negative_log_densities(scaled, known),
        "crps": crps(scaled, known),
        "coverage95": is_inside(scaled, known).astype(float),
    }


@lru_cache(maxsize=1)
def drawn_for(
    aquifer: Aquifer, method: str, split: str, seed: int
) -> tuple[tuple[Drawn, ...], float]:
    """Of all parts of a split, kept for all kinds of rows; and the processors' seconds."""
    clock, record = process_time(), record_of(aquifer)
    cases = [case_of(record, part) for part in splits_of(aquifer, split)]
    found = tuple(drawn_of(aquifer, method, case, seed) for case in cases)
    return found, process_time() - clock


def drawn_of(aquifer: Aquifer, method: str, case: Case, seed: int) -> Drawn:
    """Years, with the scatter of readings about those, and their medians well by well."""
    years = BY_NAME[method].draws(aquifer, case, case.targets, seed)
    rng = np.random.default_rng(seed)
    scatter = within_year_sd(case.history) * rng.standard_normal((len(years), len(case.asked)))
    readings = years[:, case.target_of] + scatter
    medians = [np.median(readings[:, case.asked.well == well], axis=1) for well in case.wells]
    return Drawn(case, years, readings, np.stack(medians, axis=1))


def drift_row(drawn: Drawn, seconds: float) -> Row:
    """The mean change over wells that were read in both periods, in feet."""
    case = drawn.case
    before = case.history.between(*BOTH).medians()
    both = np.isin(case.wells, list(before))
    if not both.any():
        raise RieszError(
            f"no well that is asked for was read from {BOTH[0]} to {BOTH[1] - 1}: there is no "
            "change of heads to score."
        )
    earlier = np.array([before[well] for well in case.wells[both]])
    changes = (drawn.medians[:, both] - earlier).mean(axis=1)
    low, high = np.quantile(changes, TAILS)
    observed = float((case.medians[both] - earlier).mean())
    return {
        "n": int(both.sum()),
        "drift_feet": float(changes.mean()),
        "q025": float(low),
        "q975": float(high),
        "observed_feet": observed,
        "coverage95": float(low <= observed <= high),
        "cpu_seconds": seconds,
    }


def summarise(rows: Sequence[Row]) -> Mapping[str, Any]:
    summary: dict[str, Any] = {"rows": len(rows)}
    shown = {"drift": ("drift_feet", "q025", "q975", "observed_feet")}
    for found in rows:
        if found["selected"]:
            for key in shown.get(found["kind"], ("mae", "nlpd", "coverage95")):
                summary[f"{found['split']}, {found['kind']}: {key}"] = found[key]
    return summary


def draw(rows: Sequence[Row], out: Path) -> None:
    draw_scores(rows, out / "scores.png")
    draw_drift(rows, out / "drift.png")
