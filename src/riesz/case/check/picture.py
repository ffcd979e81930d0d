"""The prior predictive in a picture: some states, and the observations among what was expected."""

import numpy as np
from matplotlib.figure import Figure

from riesz.case.check.predictive import PriorPredictive
from riesz.case.file.problem import Case
from riesz.plot.fields import draw_field
from riesz.plot.figure import new_figure

NUM_MAPS = 3


def prior_predictive_figure(case: Case, found: PriorPredictive) -> Figure:
    """Maps of a few states that the priors allow, and the data on the range of all draws."""
    mesh = case.problem.forward.space.mesh
    points = case.problem.observations.points
    figure, axes = new_figure(NUM_MAPS + 1)
    for number, (own, state) in enumerate(zip(axes[:-1], found.states, strict=False), start=1):
        draw_field(own, mesh, state, label=f"draw {number} of the prior")
        own.plot(*points.T, ".", color="black", markersize=2)
        own.locator_params(nbins=4)
    order = np.argsort(found.observed)
    place = np.arange(len(order))
    low, middle, high = np.quantile(found.predicted[:, order], (0.025, 0.5, 0.975), axis=0)
    last = axes[-1]
    last.fill_between(place, low, high, color="tab:blue", alpha=0.3, label="95 % of the draws")
    last.plot(place, middle, color="tab:blue", linewidth=0.8, label="their median")
    last.plot(place, found.observed[order], ".", color="black", markersize=3, label="observed")
    outside = found.outside[order]
    last.plot(
        place[outside], found.observed[order][outside], "x", color="tab:red", label="outside of all"
    )
    unit = "" if case.unit is None else f" ({case.unit})"
    logged = "log of the " if case.transform == "log" else ""
    last.set(xlabel="observation, by its value", ylabel=f"{logged}value{unit}")
    last.legend(fontsize="small")
    return figure
