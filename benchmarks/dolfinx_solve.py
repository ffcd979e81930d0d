"""One solve by dolfinx with PETSc for `solve.py`, which runs this with the system's Python.

Written for the interface of dolfinx 0.5, Debian 12's package python3-dolfinx-real. Conjugate
gradients with an algebraic multigrid of hypre or of PETSc itself, set up anew for each solve.
"""

import json
import resource
import sys
import time

import numpy as np
import ufl
from dolfinx import fem, mesh
from mpi4py import MPI
from petsc4py import PETSc
from solve import TOLERANCE, best, log_coefficient


def row(dim: int, along: int, solver: str) -> dict:
    cells = (along,) * dim
    create = mesh.create_unit_square if dim == 2 else mesh.create_unit_cube
    domain = create(MPI.COMM_WORLD, *cells)
    space = fem.FunctionSpace(domain, ("CG", 1))
    field, trial, test = fem.Function(space), ufl.TrialFunction(space), ufl.TestFunction(space)
    field.x.array[:] = np.exp(log_coefficient(space.tabulate_dof_coordinates()[:, :dim]))
    bilinear = fem.form(field * ufl.inner(ufl.grad(trial), ufl.grad(test)) * ufl.dx)
    linear = fem.form(fem.Constant(domain, PETSc.ScalarType(1.0)) * test * ufl.dx)
    domain.topology.create_connectivity(dim - 1, dim)
    edge = mesh.exterior_facet_indices(domain.topology)
    fixed = fem.locate_dofs_topological(space, dim - 1, edge)
    condition = fem.dirichletbc(PETSc.ScalarType(0.0), fixed, space)
    start = time.perf_counter()
    matrix = fem.petsc.assemble_matrix(bilinear, bcs=[condition])
    matrix.assemble()
    assembly = time.perf_counter() - start
    side = fem.petsc.assemble_vector(linear)
    fem.petsc.set_bc(side, [condition])
    solution = side.duplicate()
    counts = []

    def solve():
        krylov = PETSc.KSP().create(MPI.COMM_WORLD)
        krylov.setOperators(matrix)
        krylov.setType("cg")
        krylov.getPC().setType(solver)
        krylov.setTolerances(rtol=TOLERANCE)
        krylov.setNormType(PETSc.KSP.NormType.UNPRECONDITIONED)
        krylov.solve(side, solution)
        counts.append(krylov.getIterationNumber())

    seconds = best(solve)
    return {
        "library": "dolfinx",
        "dim": dim,
        "case": "log-normal",
        "solver": solver,
        "what": "solve",
        "nodes": space.dofmap.index_map.size_local,
        "device": "cpu",
        "seconds": seconds,
        "assembly_seconds": assembly,
        "iterations": counts[-1],
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


if __name__ == "__main__":
    print(json.dumps(row(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])))
