"""Times of dolfinx for `assembly.py`, which runs this with the system's Python.

Written for the interface of dolfinx 0.5, Debian 12's package python3-dolfinx-real. Prints one JSON
list of timings.
"""

import json
import resource
import sys
import time

import ufl
from dolfinx import fem, mesh
from mpi4py import MPI
from petsc4py import PETSc


def timings(side: int, rounds: int) -> list[dict]:
    """Best of `rounds` for the residual vector and the matrix of advection-diffusion."""
    domain = mesh.create_unit_square(MPI.COMM_WORLD, side - 1, side - 1)
    space = fem.FunctionSpace(domain, ("CG", 1))
    state, test, trial = fem.Function(space), ufl.TestFunction(space), ufl.TrialFunction(space)
    state.interpolate(lambda x: x[0] * x[1])
    velocity = fem.Constant(domain, PETSc.ScalarType((1.0, 2.0)))
    strength = fem.Constant(domain, PETSc.ScalarType(1.0))

    def bilinear(u):
        transport = ufl.inner(velocity, ufl.grad(u)) * test
        return (ufl.inner(ufl.grad(u), ufl.grad(test)) + transport) * ufl.dx

    residual = fem.form(bilinear(state) - strength * test * ufl.dx)
    matrix_form = fem.form(bilinear(trial))
    vector = fem.petsc.create_vector(residual)
    matrix = fem.petsc.create_matrix(matrix_form)

    def assemble_residual():
        with vector.localForm() as local:
            local.set(0)
        fem.petsc.assemble_vector(vector, residual)

    def assemble_matrix():
        matrix.zeroEntries()
        fem.petsc.assemble_matrix(matrix, matrix_form)
        matrix.assemble()

    nodes = space.dofmap.index_map.size_local
    return [
        row("residual", "vector assembly", nodes, best(assemble_residual, rounds)),
        row("stiffness", "matrix assembly", nodes, best(assemble_matrix, rounds)),
    ]


def best(action, rounds: int) -> float:
    """The shortest of `rounds` runs, or of as many as fit into a second."""
    action()
    seconds = []
    while len(seconds) < rounds or sum(seconds) < 1.0:
        start = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def row(operation: str, variant: str, nodes: int, seconds: float) -> dict:
    return {
        "library": "dolfinx",
        "operation": operation,
        "variant": variant,
        "nodes": nodes,
        "seconds": seconds,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "threads": 1,
    }


if __name__ == "__main__":
    print(json.dumps(timings(int(sys.argv[1]), int(sys.argv[2]))))
