"""A march in time by dolfinx with PETSc, for `transient.py`: it runs this with the system's Python.

Written for the interface of dolfinx 0.5, Debian 12's package python3-dolfinx-real. BDF2 with equal
steps, the first one by Euler; the matrix of either is assembled once, and its factors or multigrid
are kept.
"""

import json
import sys
import time

import numpy as np
import ufl
from dolfinx import fem, mesh
from mpi4py import MPI
from petsc4py import PETSc

TOLERANCE = 1e-9


def row(along: int, num_steps: int, solver: str) -> dict:
    domain = mesh.create_unit_square(MPI.COMM_WORLD, along, along)
    space = fem.FunctionSpace(domain, ("CG", 1))
    trial, test = ufl.TrialFunction(space), ufl.TestFunction(space)
    last, before = fem.Function(space), fem.Function(space)
    step = 1 / num_steps
    domain.topology.create_connectivity(1, 2)
    edge = mesh.exterior_facet_indices(domain.topology)
    condition = fem.dirichletbc(
        PETSc.ScalarType(0.0), fem.locate_dofs_topological(space, 1, edge), space
    )

    stiffness = 0.2 * ufl.inner(ufl.grad(trial), ufl.grad(test)) * ufl.dx
    forms = [fem.form(rate / step * trial * test * ufl.dx + stiffness) for rate in (1.0, 1.5)]
    sides = (
        fem.form((1.0 / step * last + 1.0) * test * ufl.dx),
        fem.form(((2.0 * last - 0.5 * before) / step + 1.0) * test * ufl.dx),
    )

    def system(form):
        matrix = fem.petsc.assemble_matrix(form, bcs=[condition])
        matrix.assemble()
        krylov = PETSc.KSP().create(MPI.COMM_WORLD)
        krylov.setOperators(matrix)
        if solver == "lu":
            krylov.setType("preonly")
            krylov.getPC().setType("lu")
        else:
            krylov.setType("cg")
            krylov.getPC().setType(solver)
            krylov.setTolerances(rtol=TOLERANCE)
            krylov.setInitialGuessNonzero(True)
        krylov.setUp()
        return krylov

    start = time.perf_counter()
    solvers = [system(form) for form in forms]
    solution = last.vector.duplicate()
    for number in range(num_steps):
        which = min(number, 1)
        side = fem.petsc.assemble_vector(sides[which])
        fem.petsc.set_bc(side, [condition])
        last.vector.copy(solution)
        solvers[which].solve(side, solution)
        before.x.array[:] = last.x.array
        last.x.array[:] = solution.array
    return {
        "library": "dolfinx",
        "what": "forward",
        "solver": solver,
        "nodes": space.dofmap.index_map.size_local,
        "steps": num_steps,
        "seconds": time.perf_counter() - start,
        "largest": float(np.max(last.x.array)),
    }


if __name__ == "__main__":
    print(json.dumps(row(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])))
