r"""Posteriors of a transport velocity against mesh size: the paper's Fig. 4, scored exactly.

The paper scores the mean absolute error of the field, which wrong posteriors can win; here each
posterior is also held against the exact one of the same discretisation, and of the finest: the
error of the mean in posterior standard deviations, and the ratio of standard deviations.
"""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from riesz.fem.elements.space import Operator, point_operator
from riesz.fem.linear.linear_solve import Dense
from riesz.io.store.results import Row
from riesz.method.training import TrainingError
from riesz.posterior.family import Draws
from riesz.posterior.posterior import AbstractStateMap, Posterior
from riesz.problem.problem import InverseProblem
from riesz_paper.experiments.transport.data import (
    NUM_SENSORS,
    NUM_VALIDATION,
    PRIOR_SD,
    RELATIVE_NOISE,
    Case,
    DataSet,
    data_set,
    num_nodes,
    posed,
    posed_finest,
    template,
)
from riesz_paper.experiments.transport.exact import ExactPosterior, exact_posterior
from riesz_paper.experiments.transport.figures import draw_accuracy, draw_cost, growth_exponents
from riesz_paper.experiments.transport.methods import (
    TAPER_NODES,
    Compiled,
    Timed,
    gradient_cost,
    num_gradients,
    sampled_by_nuts,
    timed,
    trained,
)
from riesz_paper.running.task import Experiment, Task

Plan = tuple[str, str, int, int]
"""A method, a domain, the number of nested meshes, and the number of replicates."""

SIDES = {17: 3, 33: 4, 65: 5, 129: 6, 257: 7}  # nodes along the square's side: nested meshes
FIELD_DRAWS = 32
DENSE_LEVELS = 4
"""Nested meshes up to which NUTS runs through dense solves."""
TIMED_DENSE_LEVELS = 5
"""Nested meshes up to which one dense gradient is timed; beyond, its cost grows by N^3."""

APART = (("nuts-sparse", 5), ("nuts-dense", 4))
"""Methods and meshes whose replicates take much longer than compilation."""

TAPERED = tuple(
    f"{engine}-hard-taper-{nodes}" for engine in ("emulate", "relax") for nodes in TAPER_NODES
)
EMPTY: Row = dict.fromkeys(
    (
        *("mean_error_sd", "sd_ratio", "sd_ratio_low", "sd_ratio_high", "field_mae"),
        *("seconds", "cpu_seconds", "compile_seconds", "compile_cpu_seconds"),
        *("mean_error_sd_finest", "sd_ratio_finest", "extrapolated", "num_solves"),
        *("num_gradients", "effective_draws", "cpu_seconds_ess400", "failure"),
    )
)


def plans(mode: str) -> list[Plan]:
    """What is run, the cases of acceptance first."""
    if mode == "quick":
        return [("emulate", "square", 5, 3), ("quadrature", "square", 5, 3)]
    if mode == "smoke":
        names = ("emulate", "nuts-sparse", "quadrature", "pinn", *TAPERED[:: len(TAPER_NODES)])
        more = [("quadrature", "disc", 2, 1), ("nuts-dense", "square", 3, 1)]
        return [*((name, "square", 2, 1) for name in names), *more]
    small, large = (3, 4, 5), (6, 7)
    return [
        *(("emulate", "square", levels, 10) for levels in (5, 6)),
        ("emulate", "disc", 5, 10),
        *(("nuts-sparse", "square", levels, 1) for levels in (7, 6)),
        *(("nuts-sparse", "square", levels, 10) for levels in (5, 4, 3)),
        ("emulate", "square", 7, 3),
        *(("quadrature", "square", levels, 10) for levels in small),
        *(("quadrature", "square", levels, 1) for levels in large),
        ("quadrature", "disc", 5, 10),
        *(("pinn", "square", levels, 1) for levels in (*small, *large)),
        *((method, "square", levels, 1) for levels, method in product((5, 3), TAPERED)),
        *(("emulate", "square", levels, 10) for levels in (4, 3)),
        *(("nuts-dense", "square", levels, 1) for levels in (3, 4, 5, 6, 7)),
        *((method, "square", levels, 1) for levels, method in product((4, 6), TAPERED)),
    ]


def transport(seed: int, mode: str) -> Experiment:
    """All methods on all meshes (full), or the default engine and the exact answer (quick)."""
    compiled = Compiled({})
    tasks = [
        Task(
            {
                "method": method,
                "nodes": num_nodes(domain, levels),
                "domain": domain,
                "replicate": replicate,
            },
            partial(row, method, Case(domain, levels, replicate, seed), compiled),
            apart=(method, levels) in APART,
        )
        for method, domain, levels, replicates in plans(mode)
        for replicate in range(replicates)
    ]
    config = {
        "mode": mode,
        "prior_sd": PRIOR_SD,
        "num_sensors": NUM_SENSORS,
        "relative_noise": RELATIVE_NOISE,
    }
    return Experiment("transport", config, tasks, summarise, draw)


def row(method: str, case: Case, compiled: Compiled) -> Row:
    """One method on one data set and mesh."""
    if method == "quadrature":
        return {**EMPTY, **quadrature_row(case)}
    if method == "nuts-dense" and case.levels > DENSE_LEVELS:
        return {**EMPTY, **extrapolated_row(case)}
    try:
        if method.startswith("nuts"):
            chains = 2 if case.levels <= SIDES[65] else 1
            posterior, *costs, extra = sampled_by_nuts(method, case, chains, compiled)
        else:
            posterior, *costs = trained(method, case, compiled)
            extra = {}
    except TrainingError as error:
        return {**EMPTY, "failure": str(error)}
    return {**EMPTY, **scores(posterior, case), **cost_row(*costs), **extra}


def cost_row(taken: Timed, compiling: Timed) -> Row:
    return {
        "seconds": taken.seconds,
        "cpu_seconds": taken.cpu_seconds,
        "compile_seconds": compiling.seconds,
        "compile_cpu_seconds": compiling.cpu_seconds,
    }


@lru_cache(maxsize=64)
def exact(case: Case) -> tuple[ExactPosterior, Timed]:
    """The exact posterior on the mesh of a case, and what it took once compiled."""
    problem, data = posed(case)
    points = point_operator(problem.forward.space, data.validation_points)
    compile_exact(case.domain, case.levels)
    return timed(lambda: exact_posterior(problem, points))


@lru_cache(maxsize=16)
def compile_exact(domain: str, levels: int) -> None:
    """Leaves compilation out of the times that follow."""
    problem = template(domain, levels)
    points = np.full((NUM_VALIDATION, 2), 0.5)
    exact_posterior(problem, point_operator(problem.forward.space, points))


@lru_cache(maxsize=64)
def finest(domain: str, seed: int, replicate: int) -> ExactPosterior:
    """The exact posterior of a data set with hardly any discretisation error."""
    data = data_set(domain, seed, replicate)
    problem = posed_finest(domain, data)
    return exact_posterior(problem, point_operator(problem.forward.space, data.validation_points))


def compared(
    mean: Float[np.ndarray, " n"], sd: Float[np.ndarray, " n"], truth: ExactPosterior
) -> tuple[float, Float[np.ndarray, " n"]]:
    """The largest error of the means in exact standard deviations, and the ratios of those."""
    return float(np.max(np.abs(mean - truth.mean) / truth.sd)), sd / truth.sd


def farthest_from_one(ratios: Float[np.ndarray, " n"]) -> float:
    return float(ratios[np.argmax(np.abs(np.log(ratios)))])


def score_row(mean: Float[np.ndarray, " n"], sd: Float[np.ndarray, " n"], case: Case) -> Row:
    error, ratios = compared(mean, sd, exact(case)[0])
    truth = finest(case.domain, case.seed, case.replicate)
    error_finest, ratios_finest = compared(mean, sd, truth)
    return {
        "mean_error_sd": error,
        "sd_ratio": farthest_from_one(ratios),
        "sd_ratio_low": float(ratios.min()),
        "sd_ratio_high": float(ratios.max()),
        "mean_error_sd_finest": error_finest,
        "sd_ratio_finest": farthest_from_one(ratios_finest),
        "extrapolated": False,
    }


def scores(posterior: Posterior, case: Case) -> Row:
    mean = np.asarray(posterior.coordinate_mean())
    sd = np.sqrt(np.diagonal(np.asarray(posterior.coordinate_covariance())))
    _, data = posed(case)
    return {**score_row(mean, sd, case), "field_mae": field_error(posterior, data)}


def field_error(posterior: Posterior, data: DataSet) -> float:
    """The mean absolute error of drawn states at the validation points, which have no noise."""
    problem = posterior.problem
    points = point_operator(problem.forward.space, data.validation_points)
    draw_key, state_key = jr.split(jr.key(0))
    draws = posterior.sample(draw_key, FIELD_DRAWS)
    found = drawn_values(problem, posterior.states, state_key, draws, points)
    return float(np.mean(np.abs(np.asarray(found) - data.validation_values)))


@eqx.filter_jit
def drawn_values(
    problem: InverseProblem,
    states: AbstractStateMap,
    key: PRNGKeyArray,
    draws: Draws,
    points: Operator,
) -> Float[Array, "draw point"]:
    return eqx.filter_vmap(lambda state: points @ state)(states(problem, key, draws))


def quadrature_row(case: Case) -> Row:
    """The truth itself as a method: without error on its own mesh, and at a cost."""
    found, taken = exact(case)
    _, data = posed(case)
    errors = np.mean(np.abs(found.states - data.validation_values), axis=1)
    return {
        **score_row(found.mean, found.sd, case),
        "field_mae": float(found.weights @ errors),
        "seconds": taken.seconds,
        "cpu_seconds": taken.cpu_seconds,
        "num_solves": found.num_solves,
    }


def extrapolated_row(case: Case) -> Row:
    """NUTS by dense solves where it takes too long: one gradient, times as many as are needed."""
    timed_levels = min(case.levels, TIMED_DENSE_LEVELS)
    cost = gradient_cost(Case(case.domain, timed_levels, case.replicate, case.seed), Dense())
    growth = (num_nodes(case.domain, case.levels) / num_nodes(case.domain, timed_levels)) ** 3
    gradients = num_gradients(case)
    return {
        "seconds": cost.seconds * growth * gradients,
        "cpu_seconds": cost.cpu_seconds * growth * gradients,
        "extrapolated": True,
        "num_gradients": gradients,
    }


def summarise(rows: Sequence[Row]) -> Mapping[str, Any]:
    """Accuracy and cost of each method on each mesh, and how costs grow with the mesh."""
    summary: dict[str, Any] = {"rows": len(rows)}
    groups = sorted({(r["method"], r["domain"], r["nodes"]) for r in rows})
    for method, domain, nodes in groups:
        here = [
            r for r in rows if (r["method"], r["domain"], r["nodes"]) == (method, domain, nodes)
        ]
        scored = [r for r in here if r["mean_error_sd"] is not None]
        name = f"{method}, {domain}, {nodes} nodes"
        if scored:
            errors = [r["mean_error_sd"] for r in scored]
            summary[f"{name}: median mean error (sd)"] = float(np.median(errors))
            summary[f"{name}: worst mean error (sd)"] = max(errors)
            summary[f"{name}: lowest sd ratio"] = min(r["sd_ratio_low"] for r in scored)
            summary[f"{name}: highest sd ratio"] = max(r["sd_ratio_high"] for r in scored)
        costs = [r["cpu_seconds"] for r in here if r["cpu_seconds"] is not None]
        if costs:
            summary[f"{name}: median CPU seconds"] = float(np.median(costs))
    for method, exponent in growth_exponents(rows).items():
        summary[f"{method}: CPU seconds grow like N to the power"] = exponent
    return {k: v for k, v in summary.items() if math.isfinite(v)}


def draw(rows: Sequence[Row], out: Path) -> None:
    draw_accuracy(rows, out / "accuracy.png")
    draw_cost(rows, out / "run_time.png")
