"""How long do a solve and its gradient take? Riesz's linear solvers, and other libraries.

Diffusion on the unit square and cube with P1 elements and a log-normal coefficient: the mean of
the solution and its gradient by the logarithm of the coefficient at all nodes, to a residual of
1e-10, in float64. Of other libraries: assembly and the two solves that a value and its gradient
need, or one solve alone where `what` says so. Further cases are harder: transport, jumps, corners,
one level only, couplings in one direction. Each row comes from a process of its own, for its peak
of memory; times are the best of several rounds after compilation.
"""

import json
import os
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from statistics import median

import numpy as np
from bench import in_process, is_there, parser_of, save

TOLERANCE = 1e-10
SYSTEM_PYTHON = "/usr/bin/python3"
HERE = Path(__file__).parent

GRIDS = {  # dimension: cells along a side of the coarsest grid, and levels
    2: ((16, 4), (16, 6), (16, 7)),
    3: ((5, 3), (8, 3), (5, 4), (8, 4), (5, 5)),
}
LARGEST_FOR_LU = {2: 2_000_000, 3: 70_000}
FLAT_FROM = 9_000  # nodes from which on costs of a node are compared
COARSEST, VERTICES, EDGE = 16, 1926, 0.02  # of harder cases
HARD = ("peclet-10", "peclet-100", "jumps", "l-shape", "outline", "p2", "anisotropy", "layers")
SOLVERS = ("multigrid", "multigrid-single", "multigrid-aggregated", "sparse-lu")


def best(action, rounds: int = 3) -> float:
    """The shortest of some runs after one that compiles, or of one where it takes long."""
    action()
    seconds = []
    while len(seconds) < rounds and sum(seconds) < 60:
        start = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def log_coefficient(points):
    """A smooth Gaussian field by random waves, of standard deviation one."""
    rng = np.random.default_rng(0)
    waves = rng.normal(size=(40, points.shape[1])) * 2 * np.pi
    phases = rng.uniform(0, 2 * np.pi, size=40)
    return np.sqrt(2 / 40) * np.cos(points @ waves.T + phases).sum(axis=1)


def cells_along(coarsest: int, levels: int) -> int:
    return coarsest * 2 ** (levels - 1)


def riesz_seconds(dim: int, coarsest: int, levels: int, solver: str) -> dict:
    import jax

    jax.config.update("jax_enable_x64", True)
    import equinox as eqx
    import jax.numpy as jnp

    import riesz as rz

    shape = rz.rectangle if dim == 2 else rz.mesh.box
    nested = rz.hierarchy(shape((coarsest,) * dim), levels)
    mesh = nested.meshes[-1]
    form = rz.diffusion("a") - rz.source(1.0)
    problem = rz.boundary_value_problem(rz.P1(mesh), form, {"boundary": 0.0})
    start = time.perf_counter()
    own = linear_solver(problem, None if solver == "multigrid-aggregated" else nested, solver)
    setup = time.perf_counter() - start
    field = jnp.asarray(log_coefficient(mesh.nodes))

    @eqx.filter_jit
    @eqx.filter_value_and_grad
    def mean(field, problem, solver):
        z = {"a": rz.nodal(jnp.exp(field))}
        return jnp.mean(rz.solve(problem, z, linear_solver=solver))

    start = time.perf_counter()
    jax.block_until_ready(mean(field, problem, own))
    first = time.perf_counter() - start
    fields = (field * (1 + 0.01 * number) for number in range(1, 100))  # LU remembers the last ones
    seconds = best(lambda: jax.block_until_ready(mean(next(fields), problem, own)))
    found = iterations_of(problem, own, {"a": rz.nodal(jnp.exp(field))})
    device = jax.devices()[0].platform
    return {
        "nodes": mesh.num_nodes,
        "device": device,
        "seconds": seconds,
        "setup_seconds": setup,
        "first_seconds": first,
        **found,
    }


def linear_solver(problem, nested, name: str):
    import riesz as rz

    if name == "sparse-lu":
        return rz.solvers.SparseLU()
    single = name == "multigrid-single"
    return rz.solvers.multigrid(problem, nested, tolerance=TOLERANCE, single_precision=single)


def iterations_of(problem, solver, z=None) -> dict:
    """Iterations and the residual that is left, for the problem's own right-hand side."""
    import jax.numpy as jnp

    import riesz as rz

    if isinstance(solver, rz.solvers.SparseLU):
        return {"iterations": None, "residual": None}
    zeros = jnp.zeros(problem.space.num_dofs)
    side = -rz.fem.residual(problem, zeros, z)[problem.free]
    matrix = rz.fem.jacobian(problem, zeros, z)
    found = solver.outcome(matrix, side)
    left = jnp.linalg.norm(side - matrix @ found.solution) / jnp.linalg.norm(side)
    return {"iterations": int(found.iterations), "residual": float(left)}


def hard_seconds(case: str) -> dict:
    """One solve of a case that is not smooth diffusion, with a look at whether it converges."""
    import jax

    jax.config.update("jax_enable_x64", True)
    import jax.numpy as jnp

    import riesz as rz

    side = 16 * COARSEST
    nested = rz.hierarchy(rz.rectangle((COARSEST, COARSEST)), 5)
    space, form = rz.P1(nested.meshes[-1]), rz.diffusion(1.0) - rz.source(1.0)
    match case:
        case "peclet-10" | "peclet-100":
            velocity = np.array([1.0, 0.5])
            peclet = float(case.removeprefix("peclet-"))
            diffusivity = float(np.linalg.norm(velocity)) / (2 * peclet * side)
            form = rz.diffusion(diffusivity) + rz.advection(velocity, supg=True) - rz.source(1.0)
        case "jumps":
            chosen = np.random.default_rng(0).integers(0, 2, len(nested.meshes[2].cells))
            per_cell = np.repeat(1e4**chosen, 4**2)  # blocks of cells, down to the finest
            form = rz.diffusion(rz.per_cell(per_cell.astype(float))) - rz.source(1.0)
        case "l-shape":
            nested = rz.hierarchy(rz.mesh.l_shape(COARSEST), 5)
            space = rz.P1(nested.meshes[-1])
        case "outline":
            nested, space = None, rz.P1(wiggly())
        case "p2":
            nested = rz.hierarchy(rz.rectangle((COARSEST, COARSEST)), 4)
            space = rz.P2(nested.meshes[-1])
        case "anisotropy":
            form = rz.diffusion(np.diag([1.0, 1e-3])) - rz.source(1.0)
        case "layers":  # an aquitard between two aquifers, in cells of 1:100
            nested = rz.hierarchy(rz.mesh.box((8, 8, 6), upper=(1.0, 1.0, 0.0075)), 3)
            space = rz.P1(nested.meshes[-1])
            height = space.mesh.nodes[space.mesh.cells].mean(axis=1)[:, 2]
            layer = np.searchsorted([0.0025, 0.005], height)
            form = rz.diffusion(rz.per_cell(np.array([10.0, 1e-4, 5.0])[layer])) - rz.source(1.0)
    problem = rz.boundary_value_problem(space, form, {"boundary": 0.0})
    zeros = jnp.zeros(space.num_dofs)
    matrix, load = rz.fem.jacobian(problem, zeros), -rz.fem.residual(problem, zeros)[problem.free]
    solver = rz.solvers.multigrid(problem, nested, tolerance=TOLERANCE)
    seconds = best(lambda: jax.block_until_ready(solver.outcome(matrix, load)))
    return {
        "nodes": space.num_dofs,
        "device": jax.devices()[0].platform,
        "seconds": seconds,
        **iterations_of(problem, solver),
    }


def wiggly():
    """An outline of many vertices, meshed as one level."""
    import riesz as rz

    angle = np.linspace(0, 2 * np.pi, VERTICES, endpoint=False)
    rng = np.random.default_rng(0)
    radius = 1 + sum(rng.normal() * 0.3 / k * np.cos(k * angle + k * k) for k in range(3, 40))
    outline = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return rz.mesh_from_polygon(outline, max_edge=EDGE)


def skfem_seconds(dim: int, coarsest: int, levels: int, solver: str) -> dict:
    import scipy.sparse.linalg as spla
    import skfem
    from skfem.helpers import dot, grad

    along = np.linspace(0.0, 1.0, cells_along(coarsest, levels) + 1)
    if dim == 2:
        mesh, element = skfem.MeshTri.init_tensor(along, along), skfem.ElementTriP1()
    else:
        mesh, element = skfem.MeshTet.init_tensor(along, along, along), skfem.ElementTetP1()
    basis = skfem.Basis(mesh, element)
    field = np.exp(log_coefficient(mesh.p.T))
    inner = basis.complement_dofs(basis.get_dofs())
    goal = np.full(len(field), 1 / len(field))
    count = []

    @skfem.BilinearForm
    def stiffness(u, v, w):
        return w["a"] * dot(grad(u), grad(v))

    @skfem.LinearForm
    def load(v, _):
        return 1.0 * v

    def solved(matrix, side):
        if solver == "spsolve":
            return spla.spsolve(matrix.tocsc(), side)
        import pyamg

        hierarchy = pyamg.smoothed_aggregation_solver(matrix)
        residuals = []
        result = hierarchy.solve(side, tol=TOLERANCE, accel="cg", residuals=residuals)
        count.append(len(residuals) - 1)
        return result

    def value_and_gradient():
        matrix = stiffness.assemble(basis, a=basis.interpolate(field))[inner][:, inner]
        return [solved(matrix, side[inner]) for side in (load.assemble(basis), goal)]

    seconds = best(value_and_gradient)
    return {
        "nodes": len(field),
        "device": "cpu",
        "seconds": seconds,
        "iterations": count[0] if count else None,
    }


def work(library: str, dim: int, coarsest: int, levels: int, solver: str) -> dict:
    if library == "hard":
        found = hard_seconds(solver)
        dim = 3 if solver == "layers" else 2
        row = {"library": "riesz", "dim": dim, "case": solver, "solver": "multigrid"}
        row["what"] = "solve"
    else:
        seconds = riesz_seconds if library == "riesz" else skfem_seconds
        found = seconds(dim, coarsest, levels, solver)
        what = "value and gradient"
        row = {"library": library, "dim": dim, "case": "log-normal", "solver": solver, "what": what}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return row | found | {"peak_mb": peak}


Job = tuple[str, ...]
"""Words for a worker of this script, or what begins with `dolfinx` and is for its own."""


def jobs(dims: list[int], largest: int) -> list[Job]:
    """One for each row, size by size."""
    found: list[Job] = []
    with_pyamg = is_there(sys.executable, "pyamg")
    with_dolfinx = is_there(SYSTEM_PYTHON, "dolfinx.fem.petsc")
    for name, there in (("pyamg", with_pyamg), ("dolfinx", with_dolfinx)):
        if not there:
            print(f"{name} is absent and left out")
    for dim in dims:
        for coarsest, levels in GRIDS[dim]:
            along = cells_along(coarsest, levels)
            nodes = (along + 1) ** dim
            if nodes > largest:
                continue
            grid = (str(dim), str(coarsest), str(levels))
            is_small = nodes <= LARGEST_FOR_LU[dim]
            for solver in SOLVERS if is_small else SOLVERS[:-1]:
                found.append(("riesz", *grid, solver))
            if is_small:
                found.append(("scikit-fem", *grid, "spsolve"))
            if with_pyamg:
                found.append(("scikit-fem", *grid, "pyamg"))
            if with_dolfinx:
                found += [("dolfinx", str(dim), str(along), one) for one in ("hypre", "gamg")]
    return found + [("hard", "0", "0", "0", case) for case in HARD]


def answer_of(job: Job) -> dict | None:
    library, *words = job
    try:
        if library != "dolfinx":
            return in_process("--worker", *job)
        command = [SYSTEM_PYTHON, str(HERE / "dolfinx_solve.py"), *words]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        return json.loads(done.stdout.splitlines()[-1])
    except subprocess.CalledProcessError as error:
        print(f"{' '.join(job)} failed: {error}")
        return None


def against(job: Job, tree: Path, cores: str) -> dict | None:
    """A row of ours beside the same one of another checkout: each twice, in turn, the shorter."""
    rows: dict[Path, list[dict]] = {HERE.parent: [], tree: []}
    for _ in range(2):
        for root, own in rows.items():
            pinned = ["taskset", "-c", cores] if cores else []
            worker = [sys.executable, str(root / "benchmarks" / "solve.py"), "--worker", *job]
            paths = os.pathsep.join([str(root / "src"), os.environ.get("PYTHONPATH", "")])
            done = subprocess.run(
                [*pinned, *worker],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                check=False,
                env=os.environ | {"PYTHONPATH": paths},
            )
            if done.returncode == 0:
                own.append(json.loads(done.stdout.splitlines()[-1]))
    ours, theirs = (
        min(own, key=lambda row: row["seconds"]) if own else None for own in rows.values()
    )
    if ours is None:
        return None
    other = {} if theirs is None else {"before": theirs["seconds"]}
    other |= {} if theirs is None else {"ratio": ours["seconds"] / theirs["seconds"]}
    row = ours | other
    print(told(row), f"ratio {row.get('ratio', float('nan')):.2f}", flush=True)
    return row


def compare(options) -> None:
    """Each of our rows beside that of another checkout, several at once on two cores each."""
    tree = options.against.resolve()
    pairs = [f"{2 * n},{2 * n + 1}" for n in range(options.jobs)] if options.jobs > 1 else [""]
    free = Queue()
    for pair in pairs:
        free.put(pair)

    def one(job: Job) -> dict | None:
        cores = free.get()
        try:
            return against(job, tree, cores)
        finally:
            free.put(cores)

    ours = [job for job in jobs(options.dims, options.largest) if job[0] in ("riesz", "hard")]
    with ThreadPoolExecutor(options.jobs) as pool:
        rows = [row for row in pool.map(one, ours[::-1]) if row is not None]
    ratios = [row["ratio"] for row in rows if "ratio" in row]
    config = {"dims": options.dims, "largest": options.largest, "against": options.commit}
    totals = {"rows": len(rows), "worst_ratio": max(ratios), "median_ratio": median(ratios)}
    save(options.out, config | {"jobs": options.jobs}, 0, rows, totals)
    print(json.dumps(totals, indent=1))


def told(row: dict) -> str:
    iterations = "" if row.get("iterations") is None else row["iterations"]
    return (
        f"{row['library']:<11}{row['dim']}D {row['case']:<11}{row['nodes']:>9} "
        f"{row['solver']:<21}{row['seconds']:>9.3f} s {iterations!s:>4} {row['peak_mb']:>6.0f} MB"
    )


def summary(rows: list[dict]) -> dict:
    """How iterations and the cost of a node grow, and how others compare at the largest size."""
    result = {}
    for dim in sorted({row["dim"] for row in rows}):
        smooth = [row for row in rows if row["dim"] == dim and row["case"] == "log-normal"]
        own = [row for row in smooth if row["solver"] == "multigrid" and row["nodes"] >= FLAT_FROM]
        if not own:
            continue
        counts = [row["iterations"] for row in own]
        costs = [row["seconds"] / row["nodes"] for row in own]
        result[f"iterations_{dim}d_max_over_first"] = max(counts) / counts[0]
        result[f"seconds_per_node_{dim}d_max_over_min"] = max(costs) / min(costs)
        for row in own:
            others = [one for one in smooth if one["nodes"] == row["nodes"]]
            result[f"times_slower_{dim}d_{row['nodes']}"] = {
                f"{one['library']} {one['solver']}": one["seconds"] / row["seconds"]
                for one in others
                if one is not row
            }
    return result


SMOKE = {"GRIDS": {2: ((4, 2),), 3: ((2, 2),)}, "COARSEST": 2, "VERTICES": 60, "EDGE": 0.5}
SMOKE |= {"FLAT_FROM": 0, "HARD": HARD[:-1]}


def main() -> None:
    parser = parser_of(globals(), "results/bench-solve.json")
    parser.add_argument("--dims", type=int, nargs="+", default=[2, 3])
    parser.add_argument("--largest", type=int, default=2_000_000, help="nodes at most")
    parser.add_argument("--worker", nargs=5, metavar="PART")
    parser.add_argument("--against", type=Path, help="another checkout, timed in turn")
    parser.add_argument("--commit", default="", help="that of the other checkout")
    parser.add_argument("--jobs", type=int, default=1, help="rows at once, on two cores each")
    options = parser.parse_args()
    if options.worker:
        library, dim, coarsest, levels, solver = options.worker
        print(json.dumps(work(library, int(dim), int(coarsest), int(levels), solver)))
        return
    if options.against:
        compare(options)
        return
    rows = []
    for job in jobs(options.dims, options.largest):
        row = answer_of(job)
        if row is not None:
            print(told(row), flush=True)
            rows.append(row)
    config = {"dims": options.dims, "largest": options.largest, "cores": os.cpu_count()}
    save(options.out, config, 0, rows, summary(rows))
    print(json.dumps(summary(rows), indent=1))


if __name__ == "__main__":
    main()
