r"""How well mini-patches estimate the dual norm: supplement C.1, and what it leaves out.

The state solves $-\Delta u + (1, 1)\cdot\nabla u = 1 + w$ on the unit square with
$w \sim \mathcal N(0, \epsilon^2 A)$; its residual in the equation without $w$ has the squared dual
norm that is estimated. The supplement can be read in two ways: $w$ as coefficients of a function
(the residual is $M w$, with the mass matrix, and its norm tiny), or as an element of the dual
space (the residual is $w$ itself). Both are run.

Errors are shown relative to the exact value beside the paper's absolute ones, and with the bias of
an estimator apart from the spread of its draws.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import scipy.sparse.linalg as spla
from jaxtyping import Float

from riesz.fem.assembly import jacobian, residual
from riesz.fem.elements.space import P1
from riesz.fem.problem import BoundaryValueProblem, boundary_value_problem, with_form
from riesz.fem.terms.weakform import advection, diffusion, reaction, source
from riesz.io.store.results import Row
from riesz.mesh.refinement import Hierarchy, hierarchy
from riesz.mesh.shapes import rectangle
from riesz.penalty.gram import DualNorm, dual_norm
from riesz.penalty.norm import PatchNorm
from riesz.penalty.schwarz import schwarz_norm
from riesz_paper.experiments.taper.figures import (
    draw_bias_and_sd,
    draw_coverage,
    draw_errors,
    draw_patches,
    draw_responses,
    write_responses,
)
from riesz_paper.experiments.taper.patch_terms import Terms, patch_terms
from riesz_paper.running.task import Experiment, Task
from riesz_paper.tapers.taper import HardTaper, Wendland
from riesz_paper.tapers.tapered import block_norm, tapered_norm

LEVELS = 4  # from 5 x 5 to 33 x 33 nodes
RADII = (0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 1.5)  # the last one covers the square
PATCH_NODES = 64
NUM_PATCHES = (1, 10, 50)
EPSILONS = (0.1, 0.01)
READINGS = ("coefficients", "dual")
REPLICATES = {"smoke": 1, "quick": 3, "full": 10}
TAPERS = ("hard-taper", "hard-taper-printed", "wendland-taper")
OTHERS = ("block", "schwarz")
SHOWN_RADII = (0.1, 0.2, 0.5)  # in the frequency response

Case = tuple[str, float, int]
"""How w is read, the size of the perturbation, and the replicate."""


@dataclass(frozen=True)
class Setting:
    """A problem, the mesh family it lives on, and the exact norm of its residuals."""

    problem: BoundaryValueProblem
    meshes: Hierarchy
    exact: DualNorm


def taper(seed: int, mode: str) -> Experiment:
    """All estimators, radii, numbers of patches, perturbation sizes and readings."""
    setting = unit_square(LEVELS)
    cases = list(product(READINGS, EPSILONS, range(REPLICATES[mode])))

    residuals = perturbed_residuals(setting, seed, cases)

    @cache
    def terms_of(estimator: str, radius: float | None) -> Terms:
        return terms_for(setting, estimator, radius, residuals)

    estimators = [*product(TAPERS, RADII), *product(OTHERS, (None,))]
    choices = list(product(estimators, enumerate(cases), NUM_PATCHES))
    tasks = [
        Task(
            identity(estimator, case, num_patches),
            partial(row, partial(terms_of, *estimator), place, (seed, index), num_patches),
        )
        for index, (estimator, (place, case), num_patches) in enumerate(choices)
    ]
    config = {
        "mode": mode,
        "nodes": setting.problem.space.num_dofs,
        "patch_nodes": PATCH_NODES,
        "radii": list(RADII),
    }
    return Experiment("taper", config, tasks, summarise, partial(draw, setting))


def identity(
    estimator: tuple[str, float | None], case: Case, num_patches: int
) -> Mapping[str, Any]:
    name, radius = estimator
    reading, epsilon, replicate = case
    return {
        "estimator": name,
        "reading": reading,
        "radius": radius,
        "P": num_patches,
        "eps": epsilon,
        "replicate": replicate,
    }


def row(get_terms: Callable[[], Terms], case: int, seed: tuple[int, int], num_patches: int) -> Row:
    """One estimate, and its bias and standard deviation, which need no sampling."""
    terms = get_terms()
    exact = float(terms.exact[case])
    sample = terms.norm.sample(jr.fold_in(jr.key(seed[0]), seed[1]), num_patches)
    estimate = float(terms.estimate(case, sample))
    return {
        "patch_nodes": terms.patch_nodes,
        "exact": exact,
        "estimate": estimate,
        "relative_error": abs(estimate - exact) / exact,
        "coverage": terms.coverage,
        "bias": terms.whole(case) - exact,
        "sd": terms.sd(case, num_patches),
    }


def unit_square(levels: int) -> Setting:
    meshes = hierarchy(rectangle((4, 4)), levels)
    equation = diffusion(1.0) + advection([1.0, 1.0]) - source(1.0)
    problem = boundary_value_problem(P1(meshes.meshes[-1]), equation, {"boundary": 0.0})
    return Setting(problem, meshes, dual_norm(problem))


def perturbed_residuals(
    setting: Setting, seed: int, cases: Sequence[Case]
) -> Float[np.ndarray, "case free"]:
    r"""$L u_\epsilon - b$ for solutions of the perturbed equation."""
    problem = setting.problem
    nowhere = jnp.zeros(problem.space.num_dofs)
    operator = jacobian(problem, nowhere).to_scipy()
    load = -np.asarray(residual(problem, nowhere)[problem.free])
    mass = jacobian(with_form(problem, reaction(1.0)), nowhere).to_scipy()
    root = np.linalg.cholesky(np.asarray(setting.exact.gram.to_dense()))
    solve = spla.factorized(operator.tocsc())

    def one(reading: str, epsilon: float, replicate: int) -> Float[np.ndarray, " free"]:
        rng = np.random.default_rng([seed, EPSILONS.index(epsilon), replicate])
        w = epsilon * root @ rng.standard_normal(len(root))
        forcing = mass @ w if reading == "coefficients" else w
        return operator @ solve(load + forcing) - load

    return np.stack([one(*case) for case in cases])


def norm_named(setting: Setting, estimator: str, radius: float | None) -> PatchNorm:
    problem = setting.problem
    match estimator, radius:
        case "schwarz", None:
            return schwarz_norm(problem, setting.meshes, patch_nodes=PATCH_NODES)
        case "block", None:
            return block_norm(problem, patch_nodes=PATCH_NODES)
        case "wendland-taper", float():
            return tapered_norm(problem, Wendland(radius))
        case "hard-taper" | "hard-taper-printed", float():
            printed = estimator.endswith("printed")
            return tapered_norm(problem, HardTaper(radius), printed=printed)
    raise ValueError(f"no estimator {estimator!r} with radius {radius}")


def terms_for(
    setting: Setting,
    estimator: str,
    radius: float | None,
    residuals: Float[np.ndarray, "case free"],
) -> Terms:
    norm = norm_named(setting, estimator, radius)
    return patch_terms(setting.problem, setting.exact, norm, residuals)


def sine_modes(setting: Setting) -> Float[np.ndarray, "mode free"]:
    """Residuals sin(k pi x) sin(k pi y), up to the highest frequency that the mesh resolves."""
    num_modes = round(np.sqrt(setting.problem.space.num_dofs)) - 2
    x = setting.problem.space.points[np.asarray(setting.problem.free)]
    frequencies = np.arange(1, num_modes + 1)
    return np.prod(np.sin(np.pi * frequencies[:, None, None] * x), axis=2)


def response(setting: Setting, estimator: str, radius: float | None) -> Float[np.ndarray, " mode"]:
    """The estimator's form over the exact norm, for sine modes of growing frequency."""
    found = terms_for(setting, estimator, radius, sine_modes(setting))
    return np.array([found.whole(k) for k in range(len(found.exact))]) / found.exact


def summarise(rows: Sequence[Row]) -> Mapping[str, Any]:
    """Median relative errors with the most patches, over all radii."""
    summary: dict[str, Any] = {"rows": len(rows)}
    most = [r for r in rows if r["P"] == max(NUM_PATCHES)]
    for name, reading in product((*TAPERS, *OTHERS), READINGS):
        found = [
            r["relative_error"] for r in most if (r["estimator"], r["reading"]) == (name, reading)
        ]
        if found:
            summary[f"{name}, {reading}: median relative error"] = float(np.median(found))
    return summary


def draw(setting: Setting, rows: Sequence[Row], out: Path) -> None:
    """The figures of the supplement, and those of what it leaves out."""
    draw_errors(rows, out)
    draw_coverage(rows, out / "coverage.png")
    draw_bias_and_sd(rows, out / "bias_and_sd.png")
    responses = {
        (name, radius): response(setting, name, radius)
        for name, radius in [
            *product(("hard-taper", "wendland-taper"), SHOWN_RADII),
            *product(OTHERS, (None,)),
        ]
    }
    write_responses(responses, out / "frequency.csv")
    draw_responses(responses, out / "frequency.png")
    mesh = setting.problem.space.mesh
    tables = {
        "tapered mini-patch of a node": norm_named(setting, "hard-taper", 0.15).fine.table,
        "Schwarz mini-patch": norm_named(setting, "schwarz", None).fine.table,
    }
    draw_patches(mesh, tables, out / "minipatch.png")
