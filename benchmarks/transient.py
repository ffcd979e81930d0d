"""What does a march in time take, beside dolfinx, and its gradient; and what do later readings?

Diffusion on a unit square, a state kept at a few sensors only: by SDIRK2 with equal steps of two
solves each, and so with half as many steps as dolfinx takes by BDF2. Seconds have assembly and
factors or multigrid in them, and no compilation. dolfinx with PETSc is run where the system's
Python has it. Then readings of 100 places in a linear problem: 10,000 of them are taken in with the
table of what sensors would record, and 100 more without a solve.
"""

import json
import subprocess
import time
from pathlib import Path

import numpy as np
from bench import is_there, parser_of, save
from solve import SYSTEM_PYTHON

HERE = Path(__file__).parent
ALONG, NUM_STEPS = 316, 100
PEERS = ("lu", "hypre", "gamg")
REPEATS = 3
NUM_PLACES, NUM_TIMES, NUM_TERMS, CELLS = 100, 100, 60, 32
"""Of the readings."""


def marched(along: int, num_steps: int, solver: str) -> list[dict]:
    """Value, and gradient by a diffusivity, a capacity, a source and an initial level."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    import riesz as rz
    from riesz.fem.default_solver import default_multigrid
    from riesz.fem.time.time_stepping import integrate_in_time

    space = rz.P1(rz.rectangle((along, along)))
    problem = rz.transient_problem(
        space,
        rz.storage("s") + rz.diffusion("k") - rz.source("f"),
        {"boundary": 0.0},
        times=np.linspace(0, 1, num_steps // 2 + 1),
        initial="start",
    )
    sensors = rz.fem.point_operator(space, np.array([[0.5, 0.5], [0.2, 0.7]]))
    z = {name: jnp.asarray(value) for name, value in (("s", 1.0), ("k", 0.2), ("f", 1.0))}
    z |= {"start": jnp.asarray(0.0)}
    taken = (
        rz.solvers.SparseLU() if solver == "lu" else default_multigrid(problem.step, fallback=False)
    )

    def recorded(problem, z):
        return integrate_in_time(problem, z, taken, lambda state, z: sensors @ state).recorded

    value = eqx.filter_jit(recorded)
    gradient = eqx.filter_jit(
        lambda problem, z: jax.value_and_grad(lambda own: jnp.sum(recorded(problem, own)[-1]))(z)
    )
    rows = []
    for what, function in (("forward", value), ("gradient", gradient)):
        jax.block_until_ready(function(problem, z))
        best = np.inf
        for number in range(REPEATS):
            # Other numbers, so that no factors are remembered.
            own = z | {"k": jnp.asarray(0.2 + 1e-6 * (number + 1))}
            start = time.perf_counter()
            found = jax.block_until_ready(function(problem, own))
            best = min(best, time.perf_counter() - start)
        largest = float(found[-1][0]) if what == "forward" else None
        rows.append(
            {
                "library": "riesz",
                "what": what,
                "solver": solver,
                "nodes": space.num_dofs,
                "steps": problem.axis.num_steps,
                "seconds": best,
                "largest": largest,
            }
        )
    return rows


def assimilated() -> dict:
    """Readings at places and times of a linear problem, and another hundred after them."""
    import jax
    import numpyro.distributions as dist

    import riesz as rz

    rng = np.random.default_rng(0)
    places = rng.uniform(0.1, 0.9, (NUM_PLACES, 2))
    times = np.linspace(0, 1, NUM_TIMES + 2)

    def readings(when):
        points = np.repeat(places, len(when), axis=0)
        values = rng.normal(size=len(points))
        return rz.observations(points, values, times=np.tile(when, NUM_PLACES))

    problem = rz.inverse_problem(
        rz.rectangle((CELLS, CELLS)),
        rz.storage(1.0) + rz.diffusion(0.2) - rz.source("f"),
        latents={
            "f": rz.KarhunenLoeve(rz.Matern32(0.3), num_terms=NUM_TERMS),
            "start": rz.KarhunenLoeve(rz.Matern32(0.3), num_terms=NUM_TERMS),
            "level": dist.Normal(0.0, 1.0),
        },
        dirichlet={"boundary": "level"},
        observations=readings(times[1:-1]),
        likelihood=rz.Gaussian(0.1),
        times=times,
        initial="start",
    )
    start = time.perf_counter()
    first = rz.inference.assimilate(problem)
    jax.block_until_ready(first.posterior().distribution.mean)
    middle = time.perf_counter()
    more = first.update(readings(times[-1:]), rz.Gaussian(0.1))
    mean = more.mean()
    end = time.perf_counter()
    assert np.isfinite(mean).all()
    return {
        "library": "riesz",
        "what": "readings",
        "first_readings": first.num_readings,
        "first_seconds": middle - start,
        "more_readings": more.num_readings - first.num_readings,
        "more_seconds": end - middle,
    }


def peer(along: int, num_steps: int, solver: str) -> dict | None:
    worker = str(HERE / "dolfinx_transient.py")
    command = [SYSTEM_PYTHON, worker, str(along), str(num_steps), solver]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"dolfinx with {solver} failed: {done.stderr.strip().splitlines()[-1:]}")
        return None
    return json.loads(done.stdout.splitlines()[-1])


SMOKE = {"ALONG": 4, "NUM_STEPS": 3, "REPEATS": 1, "NUM_PLACES": 3, "NUM_TIMES": 3}
SMOKE |= {"NUM_TERMS": 2, "CELLS": 4}


def main() -> None:
    parser = parser_of(globals(), "results/bench-transient.json")
    parser.add_argument("--along", type=int, default=ALONG, help="cells on each side")
    parser.add_argument("--steps", type=int, default=NUM_STEPS)
    parser.add_argument("--solvers", nargs="*", default=["lu"], help="or multigrid")
    options = parser.parse_args()
    import jax

    jax.config.update("jax_enable_x64", True)
    rows: list[dict] = []
    for solver in options.solvers:
        rows += marched(options.along, options.steps, solver)
        print(*map(json.dumps, rows[-2:]), sep="\n", flush=True)
    if is_there(SYSTEM_PYTHON, "dolfinx.fem.petsc"):
        for solver in PEERS:
            found = peer(options.along, options.steps, solver)
            if found is not None:
                rows.append(found)
                print(json.dumps(found), flush=True)
    else:
        print("dolfinx is absent and left out")
    rows.append(assimilated())
    print(json.dumps(rows[-1]), flush=True)
    ours = {row["solver"]: row["seconds"] for row in rows if row["what"] == "gradient"}
    forward = [row for row in rows if row["what"] == "forward"]
    best = {
        library: min(row["seconds"] for row in forward if row["library"] == library)
        for library in {row["library"] for row in forward}
    }
    figures = {f"{library}: forward seconds": seconds for library, seconds in best.items()}
    for row in forward:
        if row["library"] == "riesz":
            ratio = ours[row["solver"]] / row["seconds"]
            figures[f"gradient over forward, {row['solver']}"] = ratio
    config = {"along": options.along, "steps": options.steps}
    save(options.out, config, 0, rows, figures)
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
