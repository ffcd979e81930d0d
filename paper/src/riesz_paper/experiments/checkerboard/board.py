r"""The checkerboard: $-\nabla\cdot(a\nabla u) = 1$ on the unit square, $u = 0$ around it.

The diffusivity alternates between 1 and 100 on 4 x 4 squares that the mesh resolves. Where four
squares meet, the solution is as rough as $r^{0.13}$: it has hardly more than one derivative, and no
uniform mesh comes near it.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from riesz.fem.assembly import matrix
from riesz.fem.elements.space import P1
from riesz.fem.problem import BoundaryValueProblem, boundary_value_problem
from riesz.fem.solve import solve
from riesz.fem.terms.coefficient import per_cell
from riesz.fem.terms.weakform import diffusion, reaction, source
from riesz.mesh.mesh import Mesh
from riesz.mesh.refinement import Hierarchy, hierarchy
from riesz.mesh.shapes import rectangle

SQUARES = 4
CONTRAST = 100.0
SOURCE = 1.0
RIM = {"boundary": 0.0}


@dataclass(frozen=True)
class Board:
    """The problem on the finest mesh of a hierarchy, and its finite-element solution."""

    meshes: Hierarchy
    problem: BoundaryValueProblem
    diffusivity: Float[np.ndarray, " cell"]
    solution: Float[np.ndarray, " node"]
    stiffness: sp.csr_array  # on free nodes: everything compared vanishes on the others
    mass: sp.csr_array

    @property
    def mesh(self) -> Mesh:
        return self.meshes.meshes[-1]

    def energy_error(self, state: Float[np.ndarray, " node"]) -> float:
        """Relative to the solution, in the norm of the equation."""
        return relative(self.stiffness, state, self.solution, np.asarray(self.problem.free))

    def l2_error(self, state: Float[np.ndarray, " node"]) -> float:
        return relative(self.mass, state, self.solution, np.asarray(self.problem.free))


def relative(
    matrix: sp.csr_array,
    state: Float[np.ndarray, " node"],
    solution: Float[np.ndarray, " node"],
    free: np.ndarray,
) -> float:
    error, wanted = (state - solution)[free], solution[free]
    return float(np.sqrt(error @ (matrix @ error) / (wanted @ (matrix @ wanted))))


@lru_cache(maxsize=4)
def board(levels: int) -> Board:
    """The board on the finest of so many nested meshes: 65^2 nodes with five of them."""
    meshes = hierarchy(rectangle((SQUARES, SQUARES)), levels)
    mesh = meshes.meshes[-1]
    diffusivity = checkered(mesh)
    equation = diffusion(per_cell(diffusivity))
    problem = boundary_value_problem(P1(mesh), equation - source(SOURCE), RIM)
    return Board(
        meshes,
        problem,
        diffusivity,
        np.asarray(solve(problem)),
        matrix(mesh, equation, RIM).to_scipy(),
        matrix(mesh, reaction(1.0), RIM).to_scipy(),
    )


def checkered(mesh: Mesh) -> Float[np.ndarray, " cell"]:
    """The diffusivity of each cell; the square at the origin has the low one."""
    squares = np.floor(SQUARES * mesh.nodes[mesh.cells].mean(axis=1))
    return np.where(squares.sum(axis=1) % 2 == 0, 1.0, CONTRAST)
