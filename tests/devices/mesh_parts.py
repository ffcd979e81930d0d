"""A mesh on four devices, as a process of its own: JAX counts its devices when it starts.

Prints one JSON object: how far residuals and solutions are from those of one device; with the word
`solve`, those of the whole equation as well.
"""

import json
import sys

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import scipy.sparse.linalg as spla

import riesz as rz
import riesz_sharded


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    nested = rz.hierarchy(rz.rectangle((6, 6)), 3)
    space = rz.P1(nested.meshes[-1])
    form = rz.diffusion("a") + rz.reaction(0.5) - rz.source(1.0) + rz.robin(2.0, 1.0, on="right")
    form = form - rz.point_source([[0.3, 0.4]], [2.0])
    problem = rz.boundary_value_problem(space, form, {"left": 1.0})
    z, state = {"a": jnp.asarray(1.5)}, jr.normal(jr.key(1), (space.num_dofs,))
    shared = riesz_sharded.sharded_problem(problem, 4, nested, fewest=8)
    expected, own = rz.fem.residual(problem, state, z), shared.residual(state, z)
    # All frequencies are in that residual.
    matrix, side = rz.fem.jacobian(problem, state, z), expected[problem.free]
    together = shared.solver.outcome(matrix, side)
    exact = spla.spsolve(matrix.to_scipy().tocsc(), np.asarray(side))
    found = {
        "residual": float(jnp.max(abs(own - expected))),
        "linear system": float(jnp.max(abs(together.solution - exact))),
        "shared levels": len(shared.solver.tables.levels),
    }
    if "solve" in sys.argv:
        plain = rz.solvers.multigrid(problem, nested)
        alone = plain.outcome(matrix, side)
        state = rz.solve(problem, z, linear_solver=plain)
        by_solver = rz.solve(problem, z, linear_solver=shared.solver)
        found |= {
            "beside one": float(jnp.max(abs(together.solution - alone.solution))),
            "iterations": [int(alone.iterations), int(together.iterations)],
            "solution": float(jnp.max(abs(shared.solve(z) - state))),
            "by solver": float(jnp.max(abs(by_solver - state))),
        }
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
