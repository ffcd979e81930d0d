"""Tables of the experiment `aquifer`: means over restarts, and pairs of methods well by well."""

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float

from riesz.io.store.results import Row
from riesz_paper.experiments.aquifer.methods import GP_LINEAR, GP_ZERO, NETWORK
from riesz_paper.running.score_statistics import spread_of, wilcoxon_p

SCORES = ("mae", "mse", "nlpd", "crps", "coverage95", "mae_feet")
AGAINST = (NETWORK, GP_LINEAR, GP_ZERO)
COMPARED = "head"
"""The quantity by which methods are held against each other, well by well."""

PAIRED = {"crps": "crps_of_wells", "nlpd": "nlpd_of_wells", "mae": "errors_of_wells"}
NUM_RESAMPLES = 10_000


def mean_scores(rows: Sequence[Row]) -> list[Row]:
    """Means over restarts, and the sd of the absolute error over them."""
    table = []
    for key, own in groups(rows):
        split, quantity, subset, method = key
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


def groups(rows: Sequence[Row]) -> Iterator[tuple[tuple[str, str, str, str], list[Row]]]:
    """Rows by split, quantity, subset and method."""
    found: dict[tuple[str, str, str, str], list[Row]] = {}
    for row in rows:
        key = (row["split"], row["quantity"], row["subset"], row["method"])
        found.setdefault(key, []).append(row)
    yield from found.items()


def comparisons(rows: Sequence[Row]) -> list[Row]:
    """Methods against those without physics on the same wells, restarts averaged; heads only.

    The difference is negative where the method is ahead; its 95 % interval is that of resampled
    wells, p that of Wilcoxon's signed-rank test. Neither is corrected for there being many, nor for
    wells near each other being alike.
    """
    own = {key: same for key, same in groups(rows) if key[1] == COMPARED}
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
    same = bool(np.all(differences == 0))
    return {
        "difference": float(differences.mean()),
        "low": float(low),
        "high": float(high),
        "p": 1.0 if same else wilcoxon_p(own, other),
        # Of scores that may be negative, as log-densities are, a ratio says nothing.
        "ratio": float(own.mean() / other.mean()) if min(own.min(), other.min()) >= 0 else None,
    }
