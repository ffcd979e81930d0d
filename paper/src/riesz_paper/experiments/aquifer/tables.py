"""Tables and the figure of the experiment `aquifer`: means, and pairs of methods well by well."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from jaxtyping import Float

from riesz.io.store.results import Row
from riesz.plot.figure import new_figure, save_figure
from riesz_paper.experiments.aquifer.methods import GP_LINEAR, GP_ZERO, NETWORK
from riesz_paper.running.comparison import draw_methods, draw_roles, grouped, spread_of, wilcoxon_p
from riesz_paper.running.task import Task

KEY = ("split", "quantity", "subset", "method")
SCORES = ("mae", "mse", "nlpd", "crps", "coverage95", "mae_feet")
AGAINST = (NETWORK, GP_LINEAR, GP_ZERO)
COMPARED = "head"
"""The quantity by which methods are held against each other, well by well."""

PAIRED = {"crps": "crps_of_wells", "nlpd": "nlpd_of_wells", "mae": "errors_of_wells"}
NUM_RESAMPLES = 10_000

TABLE = {
    "GP (published)": (0.224, 0.041, 0.107),
    "DGP (published)": (0.193, 0.052, 0.081),
    "GP-D (published)": (0.160, 0.012, 0.044),
    "GP-DT (published)": (0.158, 0.001, 0.039),
}
"""Of Tait & Damoulas (2020), Table 2: mean absolute error, two sds of it as printed, and mean
squared error. Its wells are others than ours, so that only ratios compare."""

SHOWN = {"mae": "mean absolute error, training sds", "nlpd": "negative log-density"}


def mean_scores(rows: Sequence[Row]) -> list[Row]:
    """Means over restarts, and the sd of the absolute error over them."""
    table = []
    for (split, quantity, subset, method), own in grouped(rows, KEY).items():
        first = own[0]
        means = {
            name: None if first.get(name) is None else float(np.mean([r[name] for r in own]))
            for name in SCORES
        }
        table.append(
            {
                "split": split,
                "quantity": quantity,
                "subset": subset,
                "n": first["n"],
                "method": method,
                "role": first["role"],
                "selected": first["selected"],
                "runs": len(own),
                **means,
                "mae_sd": first.get("mae_sd", spread_of([r["mae"] for r in own])),
                "seconds": None
                if first["seconds"] is None
                else float(np.mean([r["seconds"] for r in own])),
            }
        )
    return table


def comparisons(rows: Sequence[Row]) -> list[Row]:
    """Methods against those without physics on the same wells, restarts averaged; heads only.

    The difference is negative where the method is ahead; its 95 % interval is that of resampled
    wells, p that of Wilcoxon's signed-rank test. Neither is corrected for there being many, nor for
    wells near each other being alike.
    """
    own = {key: same for key, same in grouped(rows, KEY).items() if key[1] == COMPARED}
    table = []
    for (split, quantity, subset, method), same in own.items():
        for against in AGAINST:
            other = own.get((split, quantity, subset, against))
            if other is None or against == method or same[0]["role"] == "published":
                continue
            found = {"split": split, "subset": subset, "method": method, "against": against}
            for score, name in PAIRED.items():
                table.append(
                    {**found, "score": score, **paired(wells(same, name), wells(other, name))}
                )
    return table


def wells(rows: Sequence[Row], name: str) -> Float[np.ndarray, " well"]:
    return np.mean([row[name] for row in rows], axis=0)


def paired(own: Float[np.ndarray, " well"], other: Float[np.ndarray, " well"]) -> Row:
    differences = own - other
    rng = np.random.default_rng(0)
    chosen = rng.integers(len(own), size=(NUM_RESAMPLES, len(own)))
    low, high = np.quantile(differences[chosen].mean(axis=1), (0.025, 0.975))
    return {
        "difference": float(differences.mean()),
        "low": float(low),
        "high": float(high),
        "p": wilcoxon_p(own, other),
        # Of scores that may be negative, as log-densities are, a ratio says nothing.
        "ratio": float(own.mean() / other.mean()) if min(own.min(), other.min()) >= 0 else None,
    }


def published_tasks() -> list[Task]:
    """As rows without a run: 202 wells of 1960-80 predict 242 of 1980-2000."""
    return [Task(identity(name), partial(published_row, name)) for name in TABLE]


def identity(name: str) -> Row:
    return {
        "method": name,
        "role": "published",
        "selected": False,
        "split": "paper",
        "quantity": "head",
        "subset": "all",
        "restart": 0,
    }


def published_row(name: str) -> Row:
    mae, two_sds, mse = TABLE[name]
    missing = dict.fromkeys(("nlpd", "crps", "coverage95", "seconds"))
    return {"mae": mae, "mse": mse, "mae_sd": two_sds / 2, "n": 242, **missing}


def draw_scores(rows: Sequence[Row], path: Path) -> None:
    """One line a method, one dot a restart; errors left, log-densities right."""
    own = [r for r in rows if r["quantity"] == "head" and r["role"] != "published"]
    cases = list(dict.fromkeys((r["split"], r["subset"]) for r in own))
    figure, panels = new_figure(2, len(cases), width=5.6, height=4.2)
    for number, (split, subset) in enumerate(cases):
        same = [r for r in own if (r["split"], r["subset"]) == (split, subset)]
        for axes, (score, label) in zip(panels[2 * number :], SHOWN.items(), strict=False):
            draw_methods(axes, same, score)
            if score == "nlpd" and max(row[score] for row in same) > 20:
                axes.set_xscale("symlog", linthresh=1.0)
            axes.set(title=f"split {split}, {subset}: {same[0]['n']} wells", xlabel=label)
    draw_roles(panels[0], own)
    save_figure(path, figure)
