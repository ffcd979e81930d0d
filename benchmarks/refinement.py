"""How many nodes do data need: of a mesh that is refined for them, and of one refined everywhere?

Three grounds: a corner that is re-entrant, an outline with pumped wells, and a river through an
outline; sensors are spread over them, or lie in a part of them. What they read is compared with
quadratic elements on a far finer mesh; the noise is a share of the range of what is read. Meshes
are refined at given unknowns.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from bench import parser_of, save, told

import riesz as rz
from riesz.diagnose.goal_oriented import mesh_for_data

SEED, NUM_SENSORS, RELATIVE_NOISE, ENOUGH = 0, 12, 0.005, 0.1
OUTLINE = np.array(
    [
        *([0, 0], [3.1, -0.6], [6, 0.2], [8.2, -0.4], [10, 1.1], [9.4, 3.8]),
        *([7, 5.2], [4.2, 4.6], [1.6, 5.4], [-0.3, 3.9], [0.4, 2.0]),
    ]
)
RIVER = np.array([[0.4, 3.0], [2.3, 2.7], [3.9, 1.6], [6.1, 2.4], [8.0, 1.9], [9.3, 1.8]])
PUMPED = np.array([[2.2, 1.4], [4.9, 3.1], [7.6, 2.9], [6.6, 0.9]])
CENTRE, RADIUS = np.array([5.6, 2.4]), 0.9
"""Of the part with sensors; about the corner it is a third as large."""

EDGE, CELLS = 1.0, 8
REFERENCE_EDGE, REFERENCE_CELLS = 0.06, 96
MOST_UNIFORM, MOST_NODES = 40_000, 20_000


def corner(space, places):
    def held(x, z):
        angle = jnp.mod(jnp.arctan2(x[1], x[0]) + 1e-12, 2 * jnp.pi)
        return z["s"] * (x @ x + 1e-300) ** (1 / 3) * jnp.sin(2 * angle / 3)

    return posed(space, places, rz.diffusion(1.0), {"boundary": held})


def wells(space, places):
    """Recharge, a rim that is held, and four wells that take most of it."""
    gains = rz.source(0.05) + rz.point_source(PUMPED, -np.array([0.5, 0.3, 0.6, 0.4]))
    return posed(space, places, rz.diffusion("s") - gains, {"boundary": 0.0})


def river(space, places):
    """Recharge that leaves through a river alone, by its bed."""
    exchange = rz.robin(2.0, lambda x: 0.1 * x[0], on="river")
    return posed(space, places, rz.diffusion("s") + exchange - rz.source(0.05), {})


def posed(space, places, equation, held):
    return rz.inverse_problem(
        space,
        equation,
        latents={"s": dist.LogNormal(0.0, 0.5)},
        dirichlet=held,
        observations=rz.observations(places, np.zeros(len(places))),
        likelihood=rz.Gaussian(1.0),
    )


GROUNDS = {"corner": corner, "wells": wells, "river": river}


def meshes(name: str):
    """To begin with, and the finest."""
    if name == "corner":
        return map(rz.mesh.l_shape, (CELLS, REFERENCE_CELLS))
    lines = {"river": RIVER} if name == "river" else None
    edges = (EDGE, REFERENCE_EDGE)
    return (rz.mesh_from_polygon(OUTLINE, max_edge=edge, lines=lines) for edge in edges)


def places_in(mesh, is_corner: bool, is_spread: bool) -> np.ndarray:
    """In cells at random; not within the cells beside a pumped well, as no piezometer is."""
    areas = np.abs(np.linalg.det(np.diff(mesh.nodes[mesh.cells], axis=1)))
    middles = mesh.nodes[mesh.cells].mean(axis=1)
    centre, radius = ((-0.5, 0.5), RADIUS / 3) if is_corner else (CENTRE, RADIUS)
    allowed = is_spread | (np.linalg.norm(middles - centre, axis=1) < radius)
    if not is_corner:
        allowed &= np.linalg.norm(middles[:, None] - PUMPED, axis=2).min(axis=1) > 0.3
    shares = np.where(allowed, areas, 0.0)
    rng = np.random.default_rng(SEED)
    return middles[rng.choice(mesh.num_cells, NUM_SENSORS, False, shares / shares.sum())]


@eqx.filter_jit
def read(problem, at):
    return problem.predict(problem.state(at), problem.z(at))


def measure(name: str, is_spread: bool) -> dict:
    """One row: nodes until the error is small, by both ways."""
    pose, (mesh, finest) = GROUNDS[name], meshes(name)
    at, places = jnp.zeros(1), places_in(finest, name == "corner", is_spread)
    truth = np.asarray(read(pose(rz.P2(finest), places), at))
    noise = RELATIVE_NOISE * float(np.ptp(truth))

    def error(problem) -> float:
        return float(np.abs(np.asarray(read(problem, at)) - truth).max() / noise)

    problem = dataclasses.replace(pose(mesh, places), likelihood=rz.Gaussian(noise))
    refined = mesh_for_data(problem, at, MOST_NODES)
    uniform = [(mesh.num_nodes, error(problem))]
    while uniform[-1][1] >= ENOUGH and 4 * mesh.num_nodes < MOST_UNIFORM:
        mesh = rz.mesh.refine(mesh).mesh
        uniform.append((mesh.num_nodes, error(pose(mesh, places))))
    needed = nodes_needed(uniform)
    return {
        "ground": name,
        "sensors": "spread" if is_spread else "in a part",
        "noise": noise,
        "uniform": uniform,
        "uniform_nodes": needed,
        "refined_nodes": refined.mesh.num_nodes,
        "refined_error": error(refined.problem),
        "ratio": refined.mesh.num_nodes / needed,
    }


def nodes_needed(uniform: list[tuple[int, float]]) -> float:
    """Until the error is small: on a line in logarithms through the last two meshes."""
    if len(uniform) == 1:
        return float(uniform[0][0])
    (few, large), (many, small) = np.log(uniform[-2:])
    return float(np.exp(few + (large - np.log(ENOUGH)) / (large - small) * (many - few)))


SMOKE = {"REFERENCE_EDGE": 0.5, "REFERENCE_CELLS": 16, "MOST_UNIFORM": 1_000, "MOST_NODES": 200}


def main() -> None:
    options = parser_of(globals(), "results/bench-refinement.json").parse_args()
    rows = [told(measure(name, spread)) for name in GROUNDS for spread in (True, False)]
    config = {
        "sensors": NUM_SENSORS,
        "relative_noise": RELATIVE_NOISE,
        "enough": ENOUGH,
        "reference": {"edge": REFERENCE_EDGE, "cells": REFERENCE_CELLS},
    }
    ratios = {f"{row['ground']}, {row['sensors']}": row["ratio"] for row in rows}
    save(options.out, config, SEED, rows, ratios)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
