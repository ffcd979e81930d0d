"""Which linear solver suits a problem: one place decides, by what was measured.

The table is on the page "Linear solvers" of the book; `make bench-solve` measures it anew. Sparse
LU factorises once for all right-hand sides and needs next to no compilation; its work grows with
the power 1.5 of the unknowns in two dimensions and with their square in three. That of multigrid
grows as they do, but it compiles for ten to thirty seconds.
"""

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree, Shaped

from riesz.fem.elements.space import Space
from riesz.fem.levels import multigrid
from riesz.fem.linear.linear_solve import AbstractLinearSolver, Automatic, Dense, SparseLU
from riesz.fem.linear.multigrid.solver import Multigrid
from riesz.fem.problem import BoundaryValueProblem
from riesz.fem.terms.coefficient import is_traced
from riesz.fem.terms.weakform import MOVING
from riesz.mesh.refine import hierarchy_of

LARGEST_FOR_LU = {1: 10_000_000, 2: 400_000, 3: 20_000}
"""Unknowns, by dimension, up to which sparse LU is the faster way to one symmetric system."""

FOR_MANY_MATRICES = 0.25
"""That number times so much where a hundred matrices are met or more: what multigrid takes to be
compiled no longer counts."""

FOR_TRANSPORT = 2
"""That number times so much where the matrix is not symmetric: more iterations are needed."""

FOR_MANY_SIDES = 3
"""That number times so much for tens of right-hand sides: the factors serve them all."""

FITS_IN_MEMORY = {1: 10_000_000, 2: 2_000_000, 3: 120_000}
"""Unknowns whose LU factors take some gigabytes: the way back where multigrid does not converge."""

LARGEST_DENSE = 2_000
"""Unknowns up to which accelerators solve dense systems: a host is far away from them."""

LU_SECONDS = {1: (5e-6, 1.0), 2: (8e-7, 1.2), 3: (2.5e-9, 2.0)}
"""Seconds of sparse LU on two cores, by dimension: a factor, and the power of the unknowns."""

ITERATED_SECONDS = {1: 3e-6, 2: 3e-6, 3: 1.1e-5}
"""Those of multigrid for each unknown, its coarser matrices included."""

DENSE_SECONDS = 2e-11
"""Those of dense LU, for the cube of the unknowns."""

DEVICE_GAIN = 100
"""So many times quicker is an accelerator."""

NUMBERS_AT_ONCE = {"cpu": 100_000, "other": 1 << 24}
"""Right-hand sides are solved for together as long as they have no more numbers than this in all.

Triangular solves of a few sides take half the time of as many single ones on a CPU, but what is
gathered from many at once no longer fits into its cache.
"""

_made: WeakKeyDictionary[Space, dict[tuple, Multigrid]] = WeakKeyDictionary()


def chosen(
    problem: BoundaryValueProblem,
    solver: AbstractLinearSolver | None = None,
    *,
    num_sides: int = 1,
    num_matrices: int = 1,
    platform: str | None = None,
    z: Any = None,
) -> AbstractLinearSolver:
    """The solver that was asked for, or else the one that suits the problem.

    `num_sides` is how many right-hand sides each of `num_matrices` meets, `platform` where it is
    solved, by default where JAX computes; `z` are values of the unknowns that stand for others, or
    a function that gives them. Inside compiled code a problem has no numbers to choose by: sparse
    LU is taken.
    """
    if solver is not None and not isinstance(solver, Automatic):
        return solver
    if is_traced(problem):
        return SparseLU()
    on_host = (platform or jax.default_backend()) == "cpu"
    size, dim = problem.num_free, problem.space.mesh.dim
    if not on_host:
        return Dense() if size <= LARGEST_DENSE else levels_of(problem, fallback=False, z=z)
    if size <= largest_for_lu(problem, num_sides, num_matrices):
        return SparseLU()
    return levels_of(problem, fallback=size <= FITS_IN_MEMORY[dim], z=z)


def largest_for_lu(problem: BoundaryValueProblem, num_sides: int, num_matrices: int) -> float:
    """Unknowns up to which sparse LU is the faster way."""
    largest = float(LARGEST_FOR_LU[problem.space.mesh.dim])
    largest *= FOR_MANY_MATRICES if num_matrices >= 100 else 1
    largest *= 1 if problem.form.is_symmetric else FOR_TRANSPORT
    return largest * (FOR_MANY_SIDES if num_sides >= 10 else 1)


def in_parts(rows: Shaped[Array, " row *shape"], size: int) -> Shaped[Array, " part width *shape"]:
    """Rows that stand for so many numbers each, by parts of those to be worked on together.

    Parts have the same length, for which zeros follow the last row.
    """
    most = NUMBERS_AT_ONCE["cpu" if jax.default_backend() == "cpu" else "other"] // size
    count = len(rows)
    num_parts = -(-count // max(1, min(count, most)))
    width = -(-count // num_parts)
    filling = ((0, num_parts * width - count), *((0, 0),) * (rows.ndim - 1))
    return jnp.pad(rows, filling).reshape(num_parts, width, *rows.shape[1:])


def mapped(
    function: Callable[[Array], Array],
    rows: Shaped[Array, " row *shape"],
    size: int,
) -> Float[Array, " row *other"]:
    """A function of one row for all of them, where it solves for so many numbers."""
    images = jax.lax.map(jax.vmap(function), in_parts(rows, size))
    return images.reshape(-1, *images.shape[2:])[: len(rows)]


def one_by_one(function: Callable[..., PyTree], rows: PyTree, size: int) -> PyTree:
    """A function of each row that solves for so many numbers, as one with solves of the host asks.

    Several factorisations at a time have been seen to wait for each other forever on two cores.
    An accelerator solves by itself, and is idle with one solve at a time.
    """
    if jax.default_backend() == "cpu":
        return jax.lax.map(function, rows)
    count = len(jax.tree.leaves(rows)[0])
    together = max(1, min(count, NUMBERS_AT_ONCE["other"] // size))
    return jax.lax.map(function, rows, batch_size=together)


def levels_of(problem: BoundaryValueProblem, *, fallback: bool, z: Any = None) -> Multigrid:
    """Multigrid for a problem, remembered: levels depend on the space, what is fixed and diffusion.

    Unknown coefficients are those of the first `z`: levels serve other values of them as well.
    """
    known = _made.setdefault(problem.space, {})
    fixed = problem.dirichlet_tags, problem.form.is_symmetric, str(problem.dtype)
    key = (*fixed, fallback, z is None or is_traced(z), *content_of_diffusion(problem))
    if key not in known:
        with jax.ensure_compile_time_eval():
            values = z() if callable(z) else z
        nested = hierarchy_of(problem.space.mesh)
        known[key] = multigrid(problem, nested, z=values, fallback=fallback)
    return known[key]


def content_of_diffusion(problem: BoundaryValueProblem) -> tuple:
    """The coefficients of diffusion, as something to look up by."""
    terms = [term for term in problem.form.terms if term.integrand in MOVING]
    leaves, structure = jax.tree.flatten(terms)
    return structure, *(
        hash(np.asarray(leaf).tobytes()) if eqx.is_array(leaf) else leaf for leaf in leaves
    )


def expected_seconds(
    problem: BoundaryValueProblem, solver: AbstractLinearSolver, *, platform: str | None = None
) -> float:
    """Seconds of one linear solve, assembly included, within a factor of about two: from sizes.

    No clock is asked: what hangs on it must come out the same each time.
    """
    size, dim = problem.num_free, problem.space.mesh.dim
    on_host = (platform or jax.default_backend()) == "cpu"
    if isinstance(solver, SparseLU):
        factor, power = LU_SECONDS[dim]
        seconds = factor * size**power
    elif isinstance(solver, Dense):
        seconds = DENSE_SECONDS * size**3 / (1 if on_host else DEVICE_GAIN)
    else:
        seconds = ITERATED_SECONDS[dim] * size / (1 if on_host else DEVICE_GAIN)
        seconds *= 1 if problem.form.is_symmetric else FOR_TRANSPORT
    return seconds
