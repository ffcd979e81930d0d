"""`compare`: which of several models of the same data to believe, and does the equation help?

Models can be compared where they were fitted to the same observations, which is looked at first.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from riesz.comparison import leave_out
from riesz.comparison.blocks import Block, spatial_blocks
from riesz.comparison.results import KRIGING, PLANE, Comparison, Difference, Model, pair_difference
from riesz.comparison.rivals import rival_models
from riesz.density.engine import AbstractEngine
from riesz.density.marginal.host import rough_mode
from riesz.diagnose.held_out import single_groups
from riesz.errors import RieszError
from riesz.observe.effects import WithEffects
from riesz.observe.observables import AtPoints
from riesz.posterior.posterior import MARGINAL, Posterior, engine_label
from riesz.problem.linearity import linear_parts
from riesz.problem.problem import InverseProblem

MOST_PLACES = 1500
"""Observations that kriging takes: its matrices are factorised some thousand times."""

PerSensor = Float[np.ndarray, " sensor"]
Design = Float[np.ndarray, "sensor effect"]

SAME = 1e-9
"""Relative differences of observations that are the same, read from files twice."""


def compare(
    posteriors: Mapping[str, Posterior] | Sequence[Posterior] | Posterior,
    *,
    blocks: int | Sequence[int] | Block | None = None,
    refit: bool | None = None,
    seed: int = 0,
    back: Callable[[Any], Any] | None = None,
    unit: str = "",
    engines: Mapping[str, AbstractEngine] | None = None,
) -> Comparison:
    """Hold models of the same observations against each other, and against kriging and a plane.

    Each observation is predicted from all others, and each of some `blocks` on the map (by default
    up to eight, by k-means; or the number of each observation's own) from those outside it: by
    closed forms where all but few unknowns are integrated out, else by weights of draws. Where
    weights fail, a block takes another fit: of the scales of a model by closed forms, or of the
    whole model by its engine where all refits take no more than about two minutes; `refit=True`
    asks for these however long they take, and `refit=False` for none. They are by `engines`, by the
    name of the model, or by the posterior's own with default settings. `back` takes values to the
    unit in which errors are wanted, such as `np.exp` where logarithms were modelled, and `unit` is
    its name. One posterior is enough: kriging and the plane stand beside it.
    """
    named = name_posteriors(posteriors)
    problems = {name: one.problem for name, one in named.items()}
    first = next(iter(problems.values()))
    for name, one in problems.items():
        check_same_data(first, one, next(iter(problems)), name)
    how = leave_out_of(first, blocks, refit, seed)
    ours = [
        Model(
            name,
            one.engine or "posterior",
            leave_out.elpd_by(one, how, (engines or {}).get(name)),
            log_evidence=one.log_evidence,
        )
        for name, one in named.items()
    ]
    return beside_rivals(ours, list(problems.values()), how, back, unit)


def compare_in_closed_form(problem: InverseProblem, *, seed: int = 0) -> Comparison | None:
    """What `compare` says of a posterior on the density `marginal`, by the same closed forms.

    None where there are none, or where kriging and a plane have nothing to say.
    """
    if no_rivals([problem]) is not None:
        return None
    how = leave_out_of(problem, None, None, seed)
    held_out = leave_out.elpd_by_problem(problem, how)
    if held_out is None:
        return None
    model = Model("equation", engine_label("laplace", MARGINAL), held_out)
    return beside_rivals([model], [problem], how)


def gain_by(problem: InverseProblem, name: str, *, seed: int = 0) -> Difference | None:
    """How much more log-density an observation has given all others with an unknown than without.

    At the most probable scales of both. None where there is no closed form, or no such unknown.
    """
    parts, count = linear_parts(problem), len(problem.observed)
    model, mode = leave_out.model_of_data(problem), rough_mode(problem)
    if name not in parts.names or model is None or mode is None:
        return None
    others = tuple(one for one in model.components if one.name != name)
    without = dataclasses.replace(model, components=others)
    singles = single_groups(count)
    whole, rest = (
        model.system(at).leave_out(singles).logs
        for model, at in ((model, mode), (without, without.rough_mode()))
    )
    return pair_difference(whole - rest, np.arange(count), seed)


def beside_rivals(
    ours: Sequence[Model],
    problems: Sequence[InverseProblem],
    how: leave_out.LeaveOut,
    back: Callable[[Any], Any] | None = None,
    unit: str = "",
) -> Comparison:
    """Models of the same observations, with kriging and a plane beside them where these can be."""
    first, result = problems[0], []
    known = []  # each once: every model is held against rivals that know what it knows
    for model, problem in zip(ours, problems, strict=True):
        design = design_in(problem)
        knows = next((i for i, other in enumerate(known) if alike(design, other)), len(known))
        known += [design] if knows == len(known) else []
        result.append(dataclasses.replace(model, knows=knows))
    lacking = no_rivals(problems)
    points, times = np.asarray(first.observations.points, float), first.observations.times
    times = None if times is None else np.asarray(times, float)
    for knows, design in enumerate(known if lacking is None else ()):
        for name, rival in rival_models(points, how.observed, times=times, design=design).items():
            called = name if design is None else f"{name} with covariates"
            called += f" {knows + 1}" if sum(one is not None for one in known) > 1 else ""
            result.append(Model(called, "", leave_out.elpd_by_model(rival, how), knows=knows))
    if back is not None:
        result = [one.in_unit(back) for one in result]
    return Comparison(tuple(result), how.block, how.seed, lacking, unit)


def leave_out_of(
    problem: InverseProblem,
    blocks: int | Sequence[int] | Block | None,
    refit: bool | None,
    seed: int,
) -> leave_out.LeaveOut:
    observed = np.asarray(problem.observed, float)
    return leave_out.LeaveOut(observed, blocks_of(problem, blocks, seed), refit, seed)


def blocks_of(
    problem: InverseProblem, blocks: int | Sequence[int] | Block | None, seed: int
) -> Block | None:
    """As they were given, numbered from zero, or by k-means."""
    if blocks is None or isinstance(blocks, int):
        return spatial_blocks(np.asarray(problem.observations.points, float), blocks, seed=seed)
    given, count = np.asarray(blocks), len(problem.observed)
    if given.shape != (count,) or len(np.unique(given)) < 2:
        raise RieszError(
            f"blocks has shape {given.shape}: give a number of blocks, or for each of the {count} "
            "observations that of its own, two or more different ones."
        )
    return np.unique(given, return_inverse=True)[1].reshape(-1)


def name_posteriors(
    posteriors: Mapping[str, Posterior] | Sequence[Posterior] | Posterior,
) -> dict[str, Posterior]:
    if isinstance(posteriors, Mapping):
        named = dict(posteriors)
    else:
        each = (posteriors,) if isinstance(posteriors, Posterior) else posteriors
        named = {f"model {number}": one for number, one in enumerate(each, 1)}
    if not named:
        raise RieszError("there is nothing to compare: give a posterior or several.")
    for name, one in named.items():
        if not isinstance(one, Posterior):
            raise RieszError(f"{name} is a {type(one).__name__}: give posteriors, by rz.fit.")
        if name in (KRIGING, PLANE):
            raise RieszError(f"a model is called {name!r}, which stands beside all: rename it.")
    return named


def no_rivals(problems: Sequence[InverseProblem]) -> str | None:
    """Why kriging and a plane have nothing to say of these data; None where they have."""
    problem, what = problems[0], problems[0].observations.what
    other = [one.likelihood for one in problems if not one.likelihood.is_additive]
    count, limits = len(problem.observed), int(problem.censored.sum())
    reasons = {
        f"they know values at points, and these are {what.describe()}": isinstance(what, AtPoints),
        "they know no experiments, and there are several": not problem.others,
        "they know values, not changes since a time": problem.observations.since is None,
        "they know noise that is added to values, and this is "
        + " and ".join(one.describe() for one in other): not other,
        f"they know no limits, and {limits} observations are such": not limits,
        f"there are {count} observations, more than {MOST_PLACES}": count <= MOST_PLACES,
    }
    return next((reason for reason, is_met in reasons.items() if not is_met), None)


def design_in(problem: InverseProblem) -> Design | None:
    """The covariates that a model knows of its observations."""
    likelihood = problem.likelihood
    if not isinstance(likelihood, WithEffects) or likelihood.design is None:
        return None
    return np.asarray(likelihood.design, float)


def alike(one: Design | None, other: Design | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.shape == other.shape and bool(np.allclose(one, other))


def check_same_data(first: InverseProblem, other: InverseProblem, name: str, own: str) -> None:
    """Raise where two models were fitted to different observations, and say how they differ."""

    def differ(what: str) -> RieszError:
        return RieszError(
            f"{name} and {own} were fitted to different observations, and cannot be compared: "
            f"{what}. Fit both to the same rows, in the same order and unit."
        )

    one, two = np.asarray(first.observed, float), np.asarray(other.observed, float)
    if len(one) != len(two):
        raise differ(f"there are {len(one)} and {len(two)}")
    scale = float(np.abs(one).max()) or 1.0
    check_rows(one, two, scale, "values", differ)
    if type(first.observations.what) is not type(other.observations.what):
        raise differ(
            f"{first.observations.what.describe()} and {other.observations.what.describe()}"
        )
    points, others = (np.asarray(p.observations.points, float) for p in (first, other))
    if points.shape != others.shape:
        raise differ(f"places have {points.shape[1]} and {others.shape[1]} coordinates")
    check_rows(points, others, float(np.nanmax(np.abs(points), initial=1e-9)), "places", differ)
    times = [p.observations.times for p in (first, other)]
    if (times[0] is None) != (times[1] is None):
        raise differ("those of one have times")
    if times[0] is not None and times[1] is not None:
        check_rows(times[0], times[1], float(np.abs(times[0]).max()) or 1.0, "times", differ)
    flags = first.censored != other.censored
    if flags.any():
        raise differ(f"observation {int(np.argmax(flags))} is a limit in one and a value in one")


def check_rows(
    one: Float[np.ndarray, " sensor *axis"],
    two: Float[np.ndarray, " sensor *axis"],
    scale: float,
    what: str,
    differ: Callable[[str], RieszError],
) -> None:
    apart = np.nan_to_num(np.abs(one - two)) > SAME * scale
    rows = apart.reshape(len(one), -1).any(axis=1)
    if rows.any():
        at = int(np.argmax(rows))
        raise differ(
            f"{int(rows.sum())} {what} differ, first of observation {at}: {one[at]} and {two[at]}"
        )
