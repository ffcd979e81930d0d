r"""Which estimators measure residuals as the dual norm does: eigenvalues against $A^{-1}$.

A form $S$ is equivalent to the dual norm if $\lambda_{\min}\,r^\top A^{-1} r \le r^\top S\,r
\le \lambda_{\max}\,r^\top A^{-1} r$ with $\lambda_{\min} > 0$; the ratio of the two says how much
it may prefer one residual to another. A form with negative eigenvalues is no norm.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from jaxtyping import Array, Float
from matplotlib.axes import Axes

from riesz.fem.elements.space import P1
from riesz.fem.problem import BoundaryValueProblem, boundary_value_problem
from riesz.fem.terms.weakform import diffusion
from riesz.io.store.results import Row
from riesz.mesh.mesh import Mesh
from riesz.mesh.refinement import Hierarchy, hierarchy
from riesz.mesh.shapes import l_shape, rectangle
from riesz.mesher.polygon import mesh_from_polygon
from riesz.penalty.gram import dual_norm
from riesz.penalty.norm import PatchNorm
from riesz.penalty.schwarz import schwarz_norm
from riesz.plot.figure import new_figure, save_figure
from riesz_paper.data.synthetic import aquifer_outline, aquifer_wells
from riesz_paper.running.task import Experiment, Task
from riesz_paper.tapers.patches import TaperedPatches
from riesz_paper.tapers.taper import HardTaper, Wendland
from riesz_paper.tapers.tapered import block_norm, taper_radius, tapered_norm

LEVELS = {"square": (4, 5, 6), "L-shape": (4, 5, 6), "graded polygon": (2, 3, 4)}
"""How often the coarsest mesh is taken: 33^2, 65^2 and 129^2 nodes, or about as many."""

PATCH_NODES = 64
TAPER_NODES = (32, 64, 128)
TAPERS = {"hard-taper": HardTaper, "wendland-taper": Wendland}
TABLE_NODES = 5000
"""Tapers and blocks are shown on meshes up to here: their tables take long on larger ones."""

TOLERANCE = 1e-3  # of eigenvalues, relative

Apply = Callable[[Float[np.ndarray, " free"]], Float[np.ndarray, " free"]]


def norms(seed: int, mode: str) -> Experiment:
    """The default on all meshes, and tapers and blocks on the smaller ones; nothing is random."""
    del seed
    families = {
        name: hierarchy(coarsest(name), max(levels) if mode == "full" else min(levels))
        for name, levels in LEVELS.items()
        if mode != "quick" or name == "square"
    }
    tasks = [
        Task(
            {"domain": name, "nodes": nodes, "estimator": estimator, "patch_nodes": patch_nodes},
            partial(row, cut(family, level), estimator, patch_nodes),
        )
        for name, family in families.items()
        for level in LEVELS[name]
        if level <= len(family.meshes)
        for nodes in (family.meshes[level - 1].num_nodes,)
        for estimator, patch_nodes in estimators(nodes)
    ]
    return Experiment("norms", {"mode": mode}, tasks, summarise, draw)


def estimators(num_nodes: int) -> list[tuple[str, int]]:
    tapers = [(name, nodes) for name in TAPERS for nodes in TAPER_NODES]
    others = [("block", PATCH_NODES), *tapers] if num_nodes < TABLE_NODES else []
    return [("schwarz", PATCH_NODES), *others]


def coarsest(domain: str) -> Mesh:
    match domain:
        case "square":
            return rectangle((4, 4))
        case "L-shape":
            return l_shape(2)
        case _:
            return mesh_from_polygon(
                aquifer_outline(), max_edge=4e4, refine_near=aquifer_wells(), near_edge=8e3
            )


def cut(family: Hierarchy, levels: int) -> Hierarchy:
    return Hierarchy(family.meshes[:levels], family.prolongations[: levels - 1])


def row(meshes: Hierarchy, estimator: str, patch_nodes: int) -> Row:
    problem = boundary_value_problem(P1(meshes.meshes[-1]), diffusion(1.0), {"boundary": 0.0})
    gram = dual_norm(problem).gram.to_scipy()
    norm = norm_named(problem, meshes, estimator, patch_nodes)
    form = tapered_matrix(norm, problem) if estimator in TAPERS else None
    lowest, highest = extremes(gram, partial(applied, norm, problem) if form is None else form.dot)
    return {
        "lowest": lowest,
        "highest": highest,
        "condition": highest / lowest if lowest > 0 else None,
        "negative_share": negative_share(form) if form is not None and lowest < 0 else 0.0,
    }


def negative_share(form: sp.csr_array) -> float:
    """The part of a symmetric matrix's eigenvalues that are negative.

    By Sylvester's law these are as many against any inner product, and as many as the negative
    pivots of an elimination that keeps the diagonal.
    """
    factor = spla.splu(
        form.tocsc(),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )
    kept = np.array_equal(factor.perm_r, factor.perm_c)
    signs = factor.U.diagonal() if kept else np.linalg.eigvalsh(form.toarray())
    return float(np.mean(signs < 0))


def norm_named(
    problem: BoundaryValueProblem, meshes: Hierarchy, estimator: str, patch_nodes: int
) -> PatchNorm:
    if estimator == "schwarz":
        return schwarz_norm(problem, meshes, patch_nodes=patch_nodes)
    if estimator == "block":
        return block_norm(problem, patch_nodes=patch_nodes)
    return tapered_norm(problem, TAPERS[estimator](taper_radius(problem, patch_nodes)))


def tapered_matrix(norm: PatchNorm, problem: BoundaryValueProblem) -> sp.csr_array:
    """The tapered inverse as a sparse matrix over the free nodes."""
    patches = norm.fine
    assert isinstance(patches, TaperedPatches)
    number = np.full(problem.space.num_dofs, -1)
    number[np.asarray(problem.free)] = np.arange(problem.num_free)
    rows = np.asarray(patches.table.rows)
    node, place = np.nonzero(rows >= 0)
    values = np.asarray(patches.inverse_rows)[node, place]
    matrix = sp.csr_array((values, (node, number[rows[node, place]])), shape=(len(rows),) * 2)
    return (matrix + matrix.T) / 2  # symmetric up to rounding already


def applied(
    norm: PatchNorm, problem: BoundaryValueProblem, residual: Float[np.ndarray, " free"]
) -> Float[np.ndarray, " free"]:
    """An estimator's form times a residual."""
    return np.asarray(half_gradient(norm, problem, jnp.asarray(residual)))


@eqx.filter_jit
def half_gradient(
    norm: PatchNorm, problem: BoundaryValueProblem, residual: Float[Array, " free"]
) -> Float[Array, " free"]:
    def half(r):
        at_nodes = jnp.zeros(problem.space.num_dofs, r.dtype).at[problem.free].set(r)
        return norm.squared(at_nodes) / 2

    return jax.grad(half)(residual)


def extremes(gram: sp.csr_array, apply: Apply) -> tuple[float, float]:
    r"""The least and the largest $\lambda$ in $A S A\,v = \lambda A\,v$, by Lanczos' iteration.

    With $r = A v$ these are the eigenvalues of the form $S$ against $A^{-1}$.
    """
    factor, size = spla.splu(gram.tocsc()), len(gram.indptr) - 1
    values, _ = spla.eigsh(
        operator(size, lambda v: gram @ apply(gram @ v.ravel())),
        k=2,
        M=gram,
        Minv=operator(size, factor.solve),
        which="BE",
        tol=TOLERANCE,  # pyright: ignore[reportArgumentType]
        ncv=50,
        v0=np.random.default_rng(0).standard_normal(size),
    )
    return float(values.min()), float(values.max())


def operator(size: int, matvec: Apply) -> spla.LinearOperator:
    shape = (size, size)
    return spla.LinearOperator(shape, matvec=matvec, dtype=float)  # pyright: ignore[reportCallIssue]


def summarise(rows: Sequence[Row]) -> Mapping[str, Any]:
    """The default's worst condition number on each domain, and the worst of the tapers."""
    summary: dict[str, Any] = {"rows": len(rows)}
    for domain in LEVELS:
        found = [
            r["condition"] for r in rows if (r["domain"], r["estimator"]) == (domain, "schwarz")
        ]
        if found:
            summary[f"schwarz, {domain}: largest condition"] = max(found)
    shares = [r["negative_share"] for r in rows if r["estimator"] == "hard-taper"]
    if shares:
        summary["hard-taper: smallest share of negative eigenvalues"] = min(shares)
        summary["hard-taper: largest share of negative eigenvalues"] = max(shares)
    return summary


def draw(rows: Sequence[Row], out: Path) -> None:
    """`norms.png`: the range of eigenvalues of each estimator."""
    domains = list(dict.fromkeys(r["domain"] for r in rows))
    figure, panels = new_figure(len(domains), width=4.4, height=4.4)
    for axes, domain in zip(panels, domains, strict=True):
        draw_ranges(axes, [r for r in rows if r["domain"] == domain])
        axes.set_title(domain)
    figure.supxlabel("range of eigenvalues against the dual norm (red: some negative)", fontsize=9)
    save_figure(out / "norms.png", figure)


def draw_ranges(axes: Axes, rows: Sequence[Row]) -> None:
    for place, r in enumerate(rows):
        colour = "tab:red" if r["lowest"] <= 0 else "tab:blue"
        axes.plot([r["lowest"], r["highest"]], [place, place], ".-", color=colour)
    axes.axvline(1.0, color="0.8", zorder=0)
    axes.set_xscale("symlog", linthresh=0.01)
    axes.set_xticks([-10, -0.1, 0, 0.1, 1, 10], ["-10", "-0.1", "0", "0.1", "1", "10"], fontsize=8)
    labels = [f"{r['estimator']} {r['patch_nodes']}, {r['nodes']} nodes" for r in rows]
    axes.set_yticks(range(len(rows)), labels, fontsize=7)
    axes.invert_yaxis()
