"""Tables and the figure of the experiment `jura`: means, and pairs of methods point by point."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import scipy.stats
from jaxtyping import Float

from riesz.io.store.results import Row
from riesz.plot.figure import new_figure, save_figure
from riesz_paper.experiments.jura.cases import RESPLIT, VALIDATION
from riesz_paper.experiments.jura.methods import ADDITIVE, GPDK, OURS, PLAIN
from riesz_paper.running.comparison import draw_methods, draw_roles, spread_of, wilcoxon_p

TESTED_SHARE = 100 / 259
"""Samples that are scored for each that is trained on."""

WITHOUT_PHYSICS = {
    "vae-dt": (PLAIN,),
    "vae-nld": (PLAIN,),
    "vae-dt-paper": ("vae-paper",),
    "vae-nld-paper": ("vae-paper",),
    OURS: ("field-regression-no-physics", "field-regression-no-field"),
    "field-regression-transport": (OURS,),
}
"""What each method with physics is held against: the same without it."""

COLUMNS = 2


def mean_scores(rows: Sequence[Row]) -> list[Row]:
    """Means and sds over restarts on the benchmark's split; ensembles are rows of their own."""
    table = []
    for key, own in groups(rows):
        metal, secondaries, method, is_ensemble = key
        errors = [r["mae"] for r in own]
        published = own[0]["role"] == "published"
        table.append(
            {
                "metal": metal,
                "secondaries": secondaries,
                "method": f"{method}, {own[0]['restart']}" if is_ensemble else method,
                "role": own[0]["role"],
                "selected": own[0]["selected"],
                "runs": 10 if published else len(own),
                "mae": float(np.mean(errors)),
                "mae_sd": own[0]["mae_sd"] if published else spread_of(errors),
                "crps": None if published else float(np.mean([r["crps"] for r in own])),
                "coverage95": None if published else float(np.mean([r["coverage95"] for r in own])),
            }
        )
    return table


def groups(rows: Sequence[Row]) -> Iterator[tuple[tuple, list[Row]]]:
    """Rows of the benchmark's split by metal, inputs and method, ensembles apart."""
    found: dict[tuple, list[Row]] = {}
    for row in rows:
        if row["split"] == VALIDATION:
            is_ensemble = isinstance(row["restart"], str)
            key = (row["metal"], row["secondaries"], row["method"], is_ensemble)
            found.setdefault(key, []).append(row)
    yield from found.items()


def comparisons(rows: Sequence[Row]) -> list[Row]:
    """Pairs of methods on the same points, restarts averaged; and on random splits.

    The difference is that of mean absolute errors, negative where the method is ahead, with a
    95 % interval; p is that of Wilcoxon's signed-rank test, not corrected for there being many.
    """
    errors = {key[:3]: averaged(own) for key, own in groups(rows) if not key[3] and has_errors(own)}
    table = []
    for (metal, secondaries, method), own in errors.items():
        for against in (*WITHOUT_PHYSICS.get(method, ()), GPDK, ADDITIVE):
            other = errors.get((metal, secondaries, against))
            if other is None or against == method:
                continue
            found = {"metal": metal, "secondaries": secondaries, "split": VALIDATION}
            table.append({**found, "method": method, "against": against, **paired(own, other)})
    return [*table, *resplit_comparisons(rows)]


def has_errors(rows: Sequence[Row]) -> bool:
    return all("errors" in row for row in rows)


def averaged(rows: Sequence[Row]) -> Float[np.ndarray, " point"]:
    return np.mean([row["errors"] for row in rows], axis=0)


def resplit_comparisons(rows: Sequence[Row]) -> list[Row]:
    """Ours against the additive GP, one pair a random split."""
    table = []
    own_rows = [r for r in rows if r["split"].startswith(RESPLIT)]
    cases = dict.fromkeys((r["metal"], r["secondaries"]) for r in own_rows)
    for metal, secondaries in cases:
        by_method = {
            method: {
                r["split"]: r["mae"]
                for r in own_rows
                if (r["metal"], r["secondaries"], r["method"]) == (metal, secondaries, method)
            }
            for method in (OURS, ADDITIVE)
        }
        both = sorted(by_method[OURS].keys() & by_method[ADDITIVE].keys())
        if len(both) < 2:
            continue
        own, other = (np.array([by_method[m][k] for k in both]) for m in (OURS, ADDITIVE))
        found = {"metal": metal, "secondaries": secondaries, "split": f"{len(both)} resplits"}
        table.append({**found, "method": OURS, "against": ADDITIVE, **resampled(own, other)})
    return table


def resampled(own: Float[np.ndarray, " split"], other: Float[np.ndarray, " split"]) -> Row:
    """Random splits share most of their samples, so that their differences go together.

    The variance of the mean difference is corrected for that (Nadeau & Bengio 2003); a test that
    takes splits for independent would find too much.
    """
    differences = own - other
    variance = np.var(differences, ddof=1) * (1 / len(own) + TESTED_SHARE)
    margin = scipy.stats.t.ppf(0.975, len(own) - 1) * np.sqrt(variance)
    return {
        "difference": float(differences.mean()),
        "relative": float(differences.mean() / other.mean()),
        "low": float(differences.mean() - margin),
        "high": float(differences.mean() + margin),
        "p": None,
    }


def paired(own: Float[np.ndarray, " pair"], other: Float[np.ndarray, " pair"]) -> Row:
    differences = own - other
    margin = scipy.stats.t.ppf(0.975, len(own) - 1) * scipy.stats.sem(differences)
    return {
        "difference": float(differences.mean()),
        "relative": float(differences.mean() / other.mean()),
        "low": float(differences.mean() - margin),
        "high": float(differences.mean() + margin),
        "p": wilcoxon_p(own, other),
    }


def draw_scores(rows: Sequence[Row], path: Path) -> None:
    """One line a method, one dot a restart; published figures with their sds."""
    own = [r for r in rows if r["split"] == VALIDATION and not isinstance(r["restart"], str)]
    cases = list(dict.fromkeys((r["metal"], r["secondaries"]) for r in own))
    columns = min(COLUMNS, len(cases))
    lines = max(len({r["method"] for r in own if case_of(r) == case}) for case in cases)
    figure, panels = new_figure(
        columns, -(-len(cases) // columns), width=5.6, height=0.8 + 0.22 * lines
    )
    for axes, case in zip(panels, cases, strict=False):
        draw_methods(axes, [r for r in own if case_of(r) == case])
        axes.set(title=f"{case[0]} from {case[1]}", xlabel="mean absolute error, mg/kg")
    for axes in panels[len(cases) :]:
        axes.set_axis_off()
    draw_roles(panels[0], own)
    save_figure(path, figure)


def case_of(row: Row) -> tuple[str, str]:
    return row["metal"], row["secondaries"]
