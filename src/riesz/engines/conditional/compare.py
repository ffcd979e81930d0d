"""Which model of the data would have foretold each of them best from all others?

With and without what neighbours share, and against a Gaussian process with a linear trend, which
is kriging whose variogram is learned: each at its most probable scales, by closed forms.
"""

import dataclasses
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from riesz.engines.conditional.host import DataModel, Scales, data_model, rough_mode
from riesz.engines.conditional.places import placed, process, trend
from riesz.engines.conditional.points import at_sensors
from riesz.observe.observables import AtPoints
from riesz.problem.linearity import linear_parts, read_by_state
from riesz.problem.problem import InverseProblem

WITH, WITHOUT, KRIGING = "with", "without", "kriging"


@dataclass(frozen=True, eq=False)
class Comparison:
    """The log-density of each observation given all others, by the name of the model."""

    log_densities: dict[str, Float[np.ndarray, " sensor"]]

    def mean(self, name: str) -> float:
        return float(self.log_densities[name].mean())

    @property
    def best(self) -> str:
        """With or without what neighbours share."""
        return WITH if self.mean(WITH) > self.mean(WITHOUT) else WITHOUT

    def over_kriging(self) -> tuple[float, float]:
        """By how much the better one foretells an observation better, and the standard error."""
        apart = self.log_densities[self.best] - self.log_densities[KRIGING]
        return float(apart.mean()), float(apart.std(ddof=1) / np.sqrt(len(apart)))

    def sentences(self) -> tuple[str, ...]:
        ours, error = self.over_kriging()
        chosen = (
            f"{self.best} what neighbours share beyond the equation: left out, an observation has "
            f"the log-density {self.mean(WITH):.3f} with it and {self.mean(WITHOUT):.3f} without"
        )
        figures = f"(log-density of left-out observations {ours:+.3f} +- {error:.2g})"
        against = f"the equation foretells these data better than kriging {figures}"
        if ours <= error:
            against = (
                f"kriging does as well here: these data show no gain by the equation {figures}"
            )
        return chosen, against


def compared(problem: InverseProblem, local: str) -> Comparison | None:
    """For a problem in which neighbours share the unknown `local`; None where there is no such
    closed form, or data are other than values at points, which kriging does not know."""
    if not isinstance(problem.observations.what, AtPoints):
        return None
    parts = linear_parts(problem)
    if local not in parts.names:
        return None
    model, mode = data_model(problem, parts, at_sensors(problem)), rough_mode(problem)
    if model is None or mode is None:
        return None
    in_state = np.asarray(parts.linear)[read_by_state(problem)[np.asarray(parts.linear)]]
    equation = {
        name
        for name, part in problem.latents.slices().items()
        if np.isin(np.arange(part.start, part.stop), in_state).any()
    }
    others = {
        WITHOUT: without(model, {local}),
        KRIGING: kriging(without(model, {local, *equation}), problem),
    }
    found = {name: left_out_densities(one, one.rough_mode()) for name, one in others.items()}
    return Comparison({WITH: left_out_densities(model, mode)} | found)


def without(model: DataModel, names: Collection[str]) -> DataModel:
    kept = tuple(one for one in model.components if one.name not in names)
    return dataclasses.replace(model, components=kept)


def kriging(model: DataModel, problem: InverseProblem) -> DataModel:
    """The noise and the effects of covariates of a model, about a trend and a process of places."""
    points, observed = np.asarray(problem.observations.points), np.asarray(problem.observed)
    spread, space = float(observed.std()), np.zeros(points.shape[1], int)
    parts = (trend(points, space, spread), process("process", points, space, spread))
    own = placed(parts, model.num_linear, model.num_others)
    return dataclasses.replace(
        model,
        components=(*model.components, *own),
        misfit=observed - observed.mean(),
        num_others=model.num_others + sum(part.num_scales for part in parts),
        num_linear=model.num_linear + sum(part.num_columns for part in parts),
    )


def left_out_densities(model: DataModel, mode: Scales) -> Float[np.ndarray, " sensor"]:
    """At the most probable scales and noise."""
    residuals, sds = model.system(mode).left_out()
    return -0.5 * ((residuals / sds) ** 2 + np.log(2 * np.pi)) - np.log(sds)
