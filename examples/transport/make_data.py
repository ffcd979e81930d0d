"""Make sensors.csv: 25 sensors at random places, a wind of (2, -1), and two per cent of noise."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import riesz as rz

WIND, NOISE_SD, NUM_SENSORS, SEED = (2.0, -1.0), 0.0015, 25, 0


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    rng = np.random.default_rng(SEED)
    points = rng.uniform(0.05, 0.95, (NUM_SENSORS, 2)).round(3)
    equation = rz.diffusion(1.0) + rz.advection("tau") - rz.source(1.0)
    space = rz.P1(rz.rectangle((256, 256)))  # finer than the mesh that is fitted
    problem = rz.boundary_value_problem(space, equation, {"boundary": 0.0})
    state = rz.solve(problem, {"tau": jnp.array(WIND)})
    values = np.asarray(rz.fem.point_operator(space, points) @ state)
    values = values + NOISE_SD * rng.standard_normal(NUM_SENSORS)
    rows = [f"{x:.3f},{y:.3f},{u:.5f}" for (x, y), u in zip(points, values, strict=True)]
    Path(__file__).with_name("sensors.csv").write_text("\n".join(["x,y,u", *rows]) + "\n")


if __name__ == "__main__":
    main()
