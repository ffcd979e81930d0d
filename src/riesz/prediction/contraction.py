"""Contraction from prior to posterior: intervals of each unknown, and the variance that is gone."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float

from riesz.posterior.posterior import label_of
from riesz.prediction.prior import draw_prior, field_of, is_map, map_nodes
from riesz.problem.problem import InverseProblem

INTERVAL = (0.025, 0.5, 0.975)

Before = Float[np.ndarray, "prior_draw component"]
After = Float[np.ndarray, "draw component"]
Ends = tuple[float, float, float]


class Contraction(eqx.Module):
    """An unknown number, or the mean of a field over nodes, before and after the data.

    `share` is of the number itself, `unknown_share` of the whole unknown that it belongs to.
    """

    unknown: str
    label: str
    prior: Ends  # ends of the 95 % interval and the median between
    posterior: Ends
    share: float
    unknown_share: float


def contractions_of(
    problem: InverseProblem, names: Sequence[str], drawn: dict[str, Any], num_draws: int, seed: int
) -> tuple[Contraction, ...]:
    """In the order of the unknowns, which compiled functions do not keep."""
    rows: list[Contraction] = []
    before = draw_prior(problem, tuple(names), num_draws, seed)
    for name in names:
        own, labels = drawn[name], (f"{name} (mean over the domain)",)
        if is_map(problem, name):
            own = own[:, map_nodes(problem)]
            own = np.exp(own) if field_of(problem.latents, name).is_log else own
        else:
            count = own.shape[1]
            labels = tuple(label_of(problem, name, i, count) for i in range(count))
        rows += contractions(name, labels, before[name], own)
    return tuple(rows)


def contractions(
    unknown: str, labels: tuple[str, ...], before: Before, after: After
) -> list[Contraction]:
    """For each component; a single label of several stands for their mean."""
    whole = contraction(before, after)
    if len(labels) == 1 and after.shape[1] > 1:
        ends = interval_of(before.mean(axis=1)), interval_of(after.mean(axis=1))
        return [Contraction(unknown, labels[0], *ends, whole, whole)]
    return [
        Contraction(
            unknown,
            label,
            interval_of(before[:, i]),
            interval_of(after[:, i]),
            contraction(before[:, i : i + 1], after[:, i : i + 1]),
            whole,
        )
        for i, label in enumerate(labels)
    ]


def interval_of(values: Float[np.ndarray, " draw"]) -> Ends:
    low, middle, high = np.quantile(values, INTERVAL).tolist()
    return low, middle, high


def contraction(before: Before, after: After) -> float:
    """The share of the prior's variance that the data took away, of the component in the middle.

    Of quantities that are positive before the data, that of the logarithm: their prior has a tail
    in which any width could hide.
    """
    if (before > 0).all() and (after > 0).all():
        before, after = np.log(before), np.log(after)
    widths = [np.subtract(*np.quantile(draws, (0.84, 0.16), axis=0)) for draws in (after, before)]
    ratios = widths[0] / np.where(widths[1] > 0, widths[1], np.inf)
    return float(1 - np.median(ratios) ** 2)
