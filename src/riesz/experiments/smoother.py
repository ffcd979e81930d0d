r"""A PDE as a smoother: the forward map of Fig. 1 (a-c), and the figures of supplement A.

A noisy source, pollutants for instance, is smoothed by diffusion and carried by a transport vector
field until it meets the boundary of an irregular domain:
$-\nabla\cdot(a\,\nabla u) + \tau\cdot\nabla u = f$ with $u = 0$ on the boundary.
The domain's longest side is the unit of length.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from riesz.datasets.synthetic import aquifer_outline
from riesz.experiments.task import Experiment, Task
from riesz.fem.assembly import jacobian
from riesz.fem.coefficient import nodal
from riesz.fem.flux import budget
from riesz.fem.problem import BoundaryValueProblem, boundary_value_problem
from riesz.fem.solve import solve
from riesz.fem.space import P1
from riesz.fem.weakform import advection, diffusion, reaction, source
from riesz.io.results import Row
from riesz.mesh.digest import mesh_digest
from riesz.mesh.facets import boundary_node_mask
from riesz.mesh.mesh import Mesh
from riesz.mesher.polygon import mesh_from_polygon
from riesz.plot.fields import draw_field, draw_mesh, draw_outline, draw_vectors
from riesz.plot.figure import new_figure, save_figure
from riesz.plot.substrate import draw_basis_function, draw_sparsity

DIFFUSIVITY = 2e-3  # in domain lengths squared a unit time
SPEED = 0.1  # domain lengths a unit time
NUM_PUFFS = 6
EDGES = {"quick": (0.02,), "full": (0.04, 0.02, 0.01)}
REPLICATES = {"quick": 1, "full": 3}
ARROWS = 14  # along the longest side


def smoother(
    seed: int, mode: str, mesh: Mesh | None = None, *, domain: str = "own mesh"
) -> Experiment:
    """The experiment on the built-in outline (at several edge lengths), or on a given mesh.

    `domain` says where the mesh came from; together with a digest it tells runs apart.
    """
    meshes = [outline_mesh(edge) for edge in EDGES[mode]] if mesh is None else [mesh]
    tasks = [
        Task({"replicate": r, "nodes": m.num_nodes}, partial(smoother_row, m, seed + r))
        for m in meshes
        for r in range(REPLICATES[mode])
    ]
    config = {
        "mode": mode,
        "domain": "aquifer outline" if mesh is None else domain,
        "meshes": [mesh_digest(m) for m in meshes],
        "diffusivity": DIFFUSIVITY,
        "speed": SPEED,
    }
    draw = partial(draw_figures, meshes[-1], seed)
    return Experiment("smoother", config, tasks, summarise, draw)


def outline_mesh(max_edge: float) -> Mesh:
    """The synthetic aquifer's outline with its longest side as the unit."""
    outline = aquifer_outline()
    low = outline.min(axis=0)
    return mesh_from_polygon((outline - low) / np.ptp(outline, axis=0).max(), max_edge=max_edge)


def length_of(mesh: Mesh) -> float:
    """The longer side of the box around a mesh."""
    return float(np.ptp(mesh.nodes, axis=0).max())


def unit_nodes(mesh: Mesh) -> Float[np.ndarray, "node 2"]:
    """Nodes in domain lengths."""
    return (mesh.nodes - mesh.nodes.min(axis=0)) / length_of(mesh)


def noisy_source(mesh: Mesh, seed: int) -> Float[np.ndarray, " node"]:
    """Puffs at random nodes inside plus noise at every node."""
    rng = np.random.default_rng(seed)
    (inner,) = np.nonzero(~boundary_node_mask(mesh))
    x = unit_nodes(mesh)
    centres = x[rng.choice(inner, NUM_PUFFS)]
    widths, heights = rng.uniform(0.02, 0.06, NUM_PUFFS), rng.uniform(0.5, 1.5, NUM_PUFFS)
    distances = np.linalg.norm(x[:, None] - centres, axis=2)
    puffs = (heights * np.exp(-0.5 * (distances / widths) ** 2)).sum(axis=1)
    return puffs + 0.3 * rng.standard_normal(mesh.num_nodes)


def wind(mesh: Mesh) -> Float[np.ndarray, "node 2"]:
    """A wind that veers along the domain, in the mesh's lengths a unit time."""
    angle = 0.6 * np.pi * (unit_nodes(mesh)[:, 0] - 0.3)
    return SPEED * length_of(mesh) * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def forward_problem(mesh: Mesh) -> BoundaryValueProblem:
    """The smoothing equation, with the source's nodal values as the latent `f`."""
    smoothing = diffusion(DIFFUSIVITY * length_of(mesh) ** 2)
    form = smoothing + advection(nodal(wind(mesh)), supg=True) - source("f")
    return boundary_value_problem(P1(mesh), form, {"boundary": 0.0})


def smoother_row(mesh: Mesh, seed: int) -> Row:
    """How much smoother the output is than its source, and whether the budget closes."""
    problem, forcing = forward_problem(mesh), noisy_source(mesh, seed)
    z = {"f": nodal(forcing)}
    jax.block_until_ready(solve(problem, z))  # leaves compilation out of the time
    start = perf_counter()
    output = np.asarray(jax.block_until_ready(solve(problem, z)))
    seconds = perf_counter() - start
    balance = budget(problem, jnp.asarray(output), z)
    return {
        "cells": mesh.num_cells,
        "source_roughness": roughness(mesh, forcing),
        "output_roughness": roughness(mesh, output),
        "output_max": float(output.max()),
        "source_total": float(balance.gains["source"]),
        "imbalance": float(balance.imbalance),
        "seconds": seconds,
    }


def roughness(mesh: Mesh, values: Float[np.ndarray, " node"]) -> float:
    r"""$L\,|\nabla u|_{L^2}/|u|_{L^2}$, with the domain's length $L$: larger means rougher."""
    space, state = P1(mesh), jnp.asarray(values)
    stiffness, mass = (
        jacobian(boundary_value_problem(space, form), state)
        for form in (diffusion(1.0), reaction(1.0))
    )
    return length_of(mesh) * float(
        jnp.sqrt((state @ (stiffness @ state)) / (state @ (mass @ state)))
    )


def summarise(rows: Sequence[Row]) -> Mapping[str, Any]:
    if not rows:
        return {}
    return {
        "rows": len(rows),
        "median_roughness_ratio": float(
            np.median([row["source_roughness"] / row["output_roughness"] for row in rows])
        ),
        "largest_relative_imbalance": max(
            abs(row["imbalance"]) / abs(row["source_total"]) for row in rows
        ),
    }


def draw_figures(mesh: Mesh, seed: int, rows: Sequence[Row], out: Path) -> None:
    """`smoother.png` (Fig. 1 a-c) and `fem.png` (supplement A)."""
    forcing = noisy_source(mesh, seed)
    output = np.asarray(solve(forward_problem(mesh), {"f": nodal(forcing)}))
    figure, (left, middle, right) = new_figure(3, height=3.0)
    draw_field(left, mesh, forcing, label="source")
    left.set_title("(a) noisy source")
    arrows = arrow_nodes(mesh)
    draw_vectors(middle, mesh.nodes[arrows], wind(mesh)[arrows])
    draw_outline(middle, mesh)
    middle.set_title("(b) transport vector field")
    draw_field(right, mesh, output, label="output")
    right.set_title("(c) smoothed output")
    save_figure(out / "smoother.png", figure)
    draw_substrate(out)


def arrow_nodes(mesh: Mesh) -> Int[np.ndarray, " arrow"]:
    """One node in each square of a coarse grid, so that arrows do not crowd."""
    squares = np.floor(unit_nodes(mesh) * ARROWS).astype(int)
    return np.unique(squares, axis=0, return_index=True)[1]


def draw_substrate(out: Path) -> None:
    """A coarse mesh, one of its basis functions, and the pattern of its stiffness matrix."""
    mesh = outline_mesh(0.08)
    stiffness = jacobian(
        boundary_value_problem(P1(mesh), diffusion(1.0)), jnp.zeros(mesh.num_nodes)
    )
    centre = mesh.nodes.mean(axis=0)
    node = int(np.argmin(np.linalg.norm(mesh.nodes - centre, axis=1)))
    figure, (left, middle, right) = new_figure(3, height=3.0)
    draw_mesh(left, mesh)
    left.set_title("mesh")
    draw_basis_function(middle, mesh, node)
    middle.set_title("a nodal basis function")
    draw_sparsity(right, mesh, stiffness.to_scipy())
    right.set_title("sparsity of the stiffness matrix")
    save_figure(out / "fem.png", figure)
