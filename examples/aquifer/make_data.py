"""Writes `outline.geojson` and `wells.csv`: heads in wells of a made-up aquifer.

    python examples/aquifer/make_data.py

The truth is a smooth transmissivity and a head on the rim that falls from west to east, solved on
a mesh finer than the one that `problem.toml` asks for. Noise has a standard deviation of 1 m.
"""

import csv
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import riesz as rz
from riesz_paper.data.synthetic import aquifer_outline, aquifer_wells

RECHARGE = 2e-4  # m/day
NOISE = 1.0  # m
NUM_WELLS = 80
CENTRE = np.array([150e3, 130e3])  # m


def transmissivity(x):
    """In square metres a day, between about 6,000 and 65,000."""
    east, north = (x - CENTRE) / 50e3
    return 2e4 * jnp.exp(0.7 * jnp.sin(1.3 * east + 0.4) + 0.5 * jnp.cos(1.7 * north - 0.8 * east))


def rim(x):
    """The head on the outline, in metres."""
    east, north = (x - CENTRE) / 100e3
    return 1450.0 - 90.0 * east + 25.0 * jnp.sin(3 * east + 1) * jnp.cos(2 * north)


def true_heads(max_edge: float = 2_500.0):
    """The problem on a fine mesh, and its solution."""
    mesh = rz.mesh_from_polygon(aquifer_outline(), max_edge=max_edge)
    equation = rz.diffusion(transmissivity) - rz.source(RECHARGE)
    problem = rz.boundary_value_problem(rz.P1(mesh), equation, {"outer": rim})
    return problem, rz.solve(problem)


def main(folder: Path) -> None:
    problem, heads = true_heads()
    wells = aquifer_wells(NUM_WELLS, seed=1)
    noise = NOISE * np.random.default_rng(1).normal(size=NUM_WELLS)
    measured = np.asarray(rz.fem.point_operator(problem.space, wells) @ heads) + noise
    ring = aquifer_outline().round(1)
    polygon = {"type": "Polygon", "coordinates": [[*ring.tolist(), ring[0].tolist()]]}
    (folder / "outline.geojson").write_text(f"{json.dumps(polygon)}\n")
    with (folder / "wells.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["well", "x_m", "y_m", "head_m"])
        rows = enumerate(zip(wells, measured, strict=True), start=1)
        writer.writerows([f"W{i}", f"{x:.0f}", f"{y:.0f}", f"{h:.2f}"] for i, ((x, y), h) in rows)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main(Path(__file__).parent)
