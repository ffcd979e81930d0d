"""`auto`: the engine for a problem, exact where that is cheap or nothing else applies.

Few unknowns on a mesh whose sparse solve takes milliseconds: there NUTS beats everything that has
to be trained first; beyond, `emulate` does.
"""

from dataclasses import dataclass

import jax.numpy as jnp

from riesz.engines.base import AbstractEngine
from riesz.engines.conditional.engine import Conditional
from riesz.engines.emulate.engine import Emulate
from riesz.engines.nuts.engine import Nuts
from riesz.errors import RieszError
from riesz.problem.linearity import linear_parts, prescribed_values
from riesz.problem.problem import InverseProblem

FEW_UNKNOWNS = 10
"""Coordinates up to which NUTS needs few gradients for an independent draw."""

SMALL_MESH = 65**2
"""Nodes up to which, measured on the transport problem, exact solves are the faster way."""


@dataclass(frozen=True, eq=False)
class Choice:
    """An engine, and why it was taken."""

    engine: AbstractEngine
    why: str


def choose_engine(problem: InverseProblem) -> Choice:
    """The engine for a problem, with its default settings."""
    size = problem.num_coordinates
    unknowns = f"{size} unknown number{'' if size == 1 else 's'}"
    if problem.forward.dtype != jnp.dtype(jnp.float64):
        return Choice(Emulate(), "exact solves need float64, and the problem is in float32")
    left = num_others(problem) if size > FEW_UNKNOWNS else size
    if size > FEW_UNKNOWNS and left == 0:
        return Choice(Conditional(), f"the state is linear in all of {unknowns}: nothing is left")
    if problem.hierarchy is None or len(problem.hierarchy.meshes) == 1:
        single = "a single mesh has no coarser levels, which emulate trains on"
        if not left <= FEW_UNKNOWNS < size:
            return Choice(Nuts(), single)
        why = f"{single}, and all but {left} of {unknowns} can be integrated out"
        return Choice(Conditional(), why)
    return on_nested_meshes(problem, unknowns)


def on_nested_meshes(problem: InverseProblem, unknowns: str) -> Choice:
    """Between exact solves and what is trained on mini-patches."""
    size, nodes = problem.num_coordinates, problem.forward.space.mesh.num_nodes
    try:
        prescribed_values(problem)
    except RieszError:
        return Choice(Nuts(), "the Dirichlet values depend on unknowns in a way emulate cannot")
    if size <= FEW_UNKNOWNS and nodes <= SMALL_MESH:
        return Choice(
            Nuts(), f"with {unknowns} and {nodes} nodes, exact solves are cheap and sampling sure"
        )
    reasons = [f"{unknowns}, more than {FEW_UNKNOWNS}"] if size > FEW_UNKNOWNS else []
    reasons += [f"{nodes} nodes, more than {SMALL_MESH}"] if nodes > SMALL_MESH else []
    return Choice(Emulate(), f"with {' and '.join(reasons)}, sampling by exact solves is slow")


def num_others(problem: InverseProblem) -> int:
    """Unknowns that cannot be integrated out."""
    try:
        return len(linear_parts(problem).others)
    except RieszError:
        return problem.num_coordinates
