r"""A mesh as fine as the data need, where they need it: by dual-weighted residuals.

What the sensors read is off by $\sum_K a_K(u - u_h, \phi - \phi_h)$ with the solution $\phi$ of the
adjoint equation for a sensor (Becker & Rannacher 2001). Both differences are bounded by those from
interpolation between the nodes: $\eta_K$ is the product of their energies in the cell, for all
sensors, each weighted by its own error in units of noise. Cells with the largest are cut, until the
error is small or the nodes are too many.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from riesz.arrays import on_device
from riesz.diagnose.discretisation import MeshShift, discretisation_error
from riesz.errors import RieszError
from riesz.fem.assembly import jacobian, local_states
from riesz.fem.kernel import entity_matrices, resolve_terms
from riesz.fem.linear.host_lu import lu_solve
from riesz.fem.linear.sparse import SparseMatrix
from riesz.fem.problem import BoundaryValueProblem
from riesz.mesh.bisection import bisect
from riesz.mesh.mesh import Mesh
from riesz.notes import Note, Severity, warn_of
from riesz.posterior.posterior import ExactStates, Posterior, latent_values
from riesz.problem.finer import between_nodes, on_finer_elements, on_parts
from riesz.problem.problem import InverseProblem
from riesz.wording import NOTABLE_ERROR

CellValues = Float[np.ndarray, " cell"]

MOST_NODES = 20_000

GOAL = 0.9 * NOTABLE_ERROR
"""That cells are cut for: the last ones should be enough."""

BULK = 0.6
"""Of the sum of all indicators, what cells that are cut have together (Doerfler 1996)."""

MOST_GOALS = 16
"""Sensors that each have an adjoint; of more, as many sums with random signs."""


class NestedMesh(NamedTuple):
    """A problem on a mesh that refines its own, and the cell that each cell is part of."""

    problem: InverseProblem
    parent: Int[np.ndarray, " fine"]
    note: Note

    @property
    def mesh(self) -> Mesh:
        return self.problem.forward.space.mesh


def refine_for_data(
    problem: InverseProblem, posterior: Posterior, *, most_nodes: int = MOST_NODES
) -> InverseProblem:
    """The same problem on a mesh that is refined where what is observed needs it, so that its error
    is below a tenth of the noise at the posterior mean; a warning says where it is not.

    Unknowns keep their coordinates, which mean the same functions: a fit may begin at
    `posterior.coordinate_mean()`, as by `rz.Laplace(start=posterior)`.
    """
    result = mesh_for_data(problem, posterior.coordinate_mean(), most_nodes)
    if result.note.severity is Severity.WARNING:
        warn_of([result.note], "refine")
    return result.problem


refine = refine_for_data
"""Its public name; that of `riesz.mesh.refine` is older."""


def mesh_for_data(
    problem: InverseProblem,
    coordinates: Float[Array, " coordinate"],
    most_nodes: int = MOST_NODES,
    begin: NestedMesh | None = None,
) -> NestedMesh:
    """Cells are marked and cut until the error is not notable, or there are too many nodes.

    It may begin with a mesh that such a call has made of the problem, for other coordinates.
    """
    check_can_refine(problem)
    own, parent = problem, np.arange(problem.forward.space.mesh.num_cells)
    if begin is not None:
        own, parent, _ = begin
    error = discretisation_error(own, coordinates)
    while error.is_notable:
        worst = float(error.in_noise[error.worst])
        marked = cells_to_cut(cell_indicators(own, coordinates, error), worst)
        mesh, part_of = bisect(own.forward.space.mesh, marked)
        if mesh.num_nodes > most_nodes:
            break
        parent = parent[part_of]
        own = on_parts(problem, mesh, parent)
        error = discretisation_error(own, coordinates)
    note = Note(
        "mesh_refined",
        Severity.WARNING if error.is_notable else Severity.INFO,
        nodes=own.forward.space.mesh.num_nodes,
        before=problem.forward.space.mesh.num_nodes,
        off=float(error.in_noise[error.worst]),
    )
    return NestedMesh(own, parent, note)


def check_can_refine(problem: InverseProblem) -> None:
    """Raise where there are no indicators, or cells that are not bisected."""
    space = problem.forward.space
    if problem.time is not None:
        reason = "the equation is one in time"
    elif space.mesh.dim != 2:
        reason = f"the mesh is in {space.mesh.dim} dimensions"
    elif space.element.degree != 1:
        reason = "its elements are quadratic"
    else:
        return
    raise RieszError(
        f"{reason}: steady problems on triangles with linear elements are refined where the data "
        "need it; make a finer mesh yourself and compare fits on both."
    )


def cells_to_cut(indicators: CellValues, error: float) -> Int[np.ndarray, " marked"]:
    """The fewest cells with most of the sum, or with what is to go before the error is small.

    Cells that fall into four have a quarter of their indicators left.
    """
    bulk = min(BULK, (1 - GOAL / error) / 0.75)
    order = np.argsort(-indicators, kind="stable")
    sums = np.cumsum(indicators[order])
    return order[: 1 + np.searchsorted(sums, bulk * sums[-1])]


def cell_indicators(
    problem: InverseProblem, coordinates: Float[Array, " coordinate"], error: MeshShift
) -> CellValues:
    """What each cell may add to the errors at the sensors."""
    finer, _ = on_finer_elements(problem)
    rows = on_device(np.asarray(coordinates)[None])
    every = latent_values(problem, rows)
    z = jax.tree.map(lambda values: on_device(np.asarray(values)[0]), every)
    state = ExactStates().from_outside(finer, jr.key(0), rows, every)[0]
    goals = np.asarray(sensor_gradients(finer, state, z, on_device(sensor_weights(error))))
    mesh, parts = problem.forward.space.mesh, len(problem.forwards)
    ends, result = between_nodes(mesh), np.zeros(mesh.num_cells)
    for forward, own, goal in zip(
        finer.forwards, finer.states(state), np.split(goals, parts, axis=1), strict=True
    ):
        matrix, of_cells = cell_matrices(forward, own, z)
        places, free = (matrix.pattern.columns, matrix.pattern.row_starts), np.asarray(forward.free)
        both = np.zeros((1 + len(goal), goal.shape[1]))
        both[0], values = np.asarray(own), np.asarray(matrix.values)[None]
        both[1:, free] = lu_solve(values, *places, goal[:, free], transposed=True)
        surplus = (both - both[:, ends].mean(axis=2))[:, np.asarray(forward.space.cell_dofs)]
        energies = np.einsum("fci,ijc,fcj->fc", surplus, of_cells, surplus, optimize=True)
        primal, *dual = abs(energies).reshape(len(both), mesh.num_cells, -1).sum(axis=2)
        result += np.sqrt(primal * np.sum(dual, axis=0))
    return result


def sensor_weights(error: MeshShift) -> Float[np.ndarray, "goal sensor"]:
    """Of sensors in each goal: by their error in units of noise, with its own weight."""
    moves = np.abs(error.mesh.at_sensors)
    weights = np.divide(error.in_noise**2, moves, out=np.zeros_like(moves), where=moves > 0)
    if len(weights) <= MOST_GOALS:
        return np.diag(weights)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (MOST_GOALS, len(weights)))
    return signs * weights / np.sqrt(MOST_GOALS)


@eqx.filter_jit
def sensor_gradients(
    problem: InverseProblem,
    state: Float[Array, " dof"],
    z: PyTree,
    weights: Float[Array, "goal sensor"],
) -> Float[Array, "goal dof"]:
    """Derivatives of weighted sums of what sensors read by the state."""
    _, pull_back = jax.vjp(lambda own: problem.predict(own, z), state)
    return jax.vmap(lambda one: pull_back(one)[0])(weights)


@eqx.filter_jit
def cell_matrices(
    forward: BoundaryValueProblem, state: Float[Array, " dof"], z: PyTree
) -> tuple[SparseMatrix, Float[Array, "local local cell"]]:
    """The matrix of the equation about a state, and that of each cell."""
    group = forward.cells
    physics = resolve_terms(group.terms, forward.space.element, z)
    rows = entity_matrices(physics, group.domain, local_states(group.domain, state))
    return jacobian(forward, state, z), jnp.stack(list(rows))
