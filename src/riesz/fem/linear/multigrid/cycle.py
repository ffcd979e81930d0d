"""Levels of a multigrid hierarchy, and the V-cycle over them."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, DTypeLike, Float, Int

from riesz.fem.linear.multigrid.galerkin import Galerkin
from riesz.fem.linear.multigrid.tables import Combination, Rows, Table, gather

SMOOTHED = 3
"""Smoothing is for eigenvalues between the largest one and a part of it: this times its steps."""

DAMPED = 0.7
"""Jacobi steps are taken by this part."""

Vector = Float[Array, " size"]

Steps = tuple[tuple[float, ...], tuple[float, ...]]
"""Weights of the last step and of the scaled residual in each step of a smoother."""


class Transfer(eqx.Module):
    """From a level to the next coarser one and back."""

    galerkin: Galerkin
    prolong: Combination
    restrict: Combination
    mirrored: Int[Array, " entry"]  # of the coarser matrix, the entry across the diagonal


class Level(eqx.Module):
    """The matrix of a level, ready for smoothing."""

    rows: Rows
    inverse_diagonal: Vector  # for Chebyshev's steps divided by the bound of the eigenvalues


class Matrices(eqx.Module):
    """The numbers of all levels, the finest first; where they stand is told by tables."""

    values: tuple[tuple[Float[Array, "_ _"], ...], ...]
    inverse_diagonals: tuple[Float[Array, " _"], ...]
    coarsest: Float[Array, "coarse coarse"]  # inverse

    def astype(self, dtype: DTypeLike) -> "Matrices":
        return jax.tree.map(lambda part: part.astype(dtype), self)


class Cycle(eqx.Module):
    """An approximate inverse of the finest matrix, or of the rows of it that a device owns."""

    levels: tuple[Any, ...]  # the finest first
    transfers: tuple[Any, ...]
    coarsest: Any  # inverse: a matrix, or what is multiplied like one
    steps: Steps = eqx.field(static=True)

    def __call__(self, rhs: Vector, at: int = 0) -> Vector:
        if at == len(self.levels):
            return self.coarsest @ rhs
        level, transfer = self.levels[at], self.transfers[at]
        kept, taken = self.steps
        first = level.inverse_diagonal * rhs * taken[0]
        # The last of the steps is not taken, and weighs nothing.
        later = (*kept[1:], 0.0), (*taken[1:], 0.0)
        solution, residual, _ = smooth_residual(level, first, rhs, later)
        correction = transfer.prolong(self(transfer.restrict(residual), at + 1))
        change, _, last = smooth_residual(level, correction, residual, (kept, taken))
        return solution + change + last


def smooth_residual(
    level: Any, step: Vector, residual: Vector, steps: Steps
) -> tuple[Vector, Vector, Vector]:
    """Take a step, and those that follow from the residuals: the sum, what is left, the next."""
    kept, taken = (jnp.asarray(part, residual.dtype) for part in steps)

    def advance(number, at):
        solution, residual, step = at
        residual = residual - level.rows @ step
        following = kept[number] * step + taken[number] * level.inverse_diagonal * residual
        return solution + step, residual, following

    return jax.lax.fori_loop(0, len(kept), advance, (jnp.zeros_like(step), residual, step))


def chebyshev(degree: int) -> Steps:
    """A Chebyshev iteration for eigenvalues between 1 and a part of it.

    See Saad, Iterative Methods for Sparse Linear Systems, algorithm 12.1.
    """
    least = 1 / (SMOOTHED * degree)
    centre, half_width = (1 + least) / 2, (1 - least) / 2
    sigma = centre / half_width
    rho = 1 / sigma
    kept, taken = [0.0], [1 / centre]
    for _ in range(degree - 1):
        following = 1 / (2 * sigma - rho)
        kept.append(following * rho)
        taken.append(2 * following / half_width)
        rho = following
    return tuple(kept), tuple(taken)


def jacobi(num_steps: int) -> Steps:
    """Damped Jacobi steps, which do no harm where eigenvalues are complex."""
    return (0.0,) * num_steps, (DAMPED,) * num_steps


def cycle(
    tables: tuple[Table, ...],
    transfers: tuple[Transfer, ...],
    matrices: Matrices,
    num_steps: int,
    *,
    is_symmetric: bool,
) -> Cycle:
    """One V-cycle with matrices that are made for it."""
    levels = tuple(
        Level(Rows(table.columns, values), inverse_diagonal)
        for table, values, inverse_diagonal in zip(
            tables[:-1], matrices.values, matrices.inverse_diagonals, strict=True
        )
    )
    steps = chebyshev(num_steps) if is_symmetric else jacobi(num_steps)
    return Cycle(levels, transfers, matrices.coarsest, steps)


def matrices(
    tables: tuple[Table, ...],
    transfers: tuple[Transfer, ...],
    values: Float[Array, " entry"],
    *,
    is_symmetric: bool,
) -> Matrices:
    """Matrices of all levels from the values of the finest."""
    operators = [tables[0].fill(values)]
    for table, transfer in zip(tables[1:], transfers, strict=True):
        values = transfer.galerkin(values)
        rows = table.fill(values)
        if not is_symmetric:
            rows = with_artificial_diffusion(rows, table.fill(gather(values, transfer.mirrored)))
        operators.append(rows)
    return Matrices(
        values=tuple(rows.values for rows in operators[:-1]),
        inverse_diagonals=tuple(
            inverse_diagonal(rows, is_symmetric=is_symmetric) for rows in operators[:-1]
        ),
        coarsest=inverse(operators[-1].to_dense()),
    )


def inverse_diagonal(rows: Rows, *, is_symmetric: bool) -> Vector:
    """For the steps of a smoother; zero where a row only fills up.

    Over a bound of the eigenvalues of the diagonally scaled matrix (Gershgorin), where symmetric.
    """
    diagonal = rows.diagonal()
    sums = jnp.where(diagonal == 0, 0.0, rows.magnitudes() / abs(diagonal))
    bound = jnp.max(sums) if is_symmetric else 1.0
    return jnp.where(diagonal == 0, 0.0, 1 / (bound * diagonal))


def with_artificial_diffusion(rows: Rows, transpose: Rows) -> Rows:
    r"""With the least diffusion added that leaves no positive entry off the diagonal.

    $d_{ij} = \max(0, a_{ij}, a_{ji})$ is moved from each entry to the diagonal (discrete upwinding,
    Kuzmin & Turek 2002). What stabilises transport on a fine mesh is too little on a coarse one.
    """
    values = []
    for own, other in zip(rows.values, transpose.values, strict=True):
        moved = jnp.maximum(jnp.maximum(own[1:], other[1:]), 0.0)
        values.append(jnp.concatenate([own[:1] + jnp.sum(moved, axis=0)[None], own[1:] - moved]))
    return Rows(rows.columns, tuple(values))


def inverse(matrix: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """Of a small matrix that needs no pivoting.

    On a CPU by Gauss and Jordan: LAPACK's threads take longer to meet than the work lasts.
    """
    return jax.lax.platform_dependent(matrix, cpu=gauss_jordan, default=jnp.linalg.inv)


def gauss_jordan(matrix: Float[Array, "n n"]) -> Float[Array, "n n"]:
    def eliminate(k, matrix):
        pivot, column = matrix[k, k], matrix[:, k]
        row = matrix[k] / pivot
        matrix = (matrix - column[:, None] * row[None]).at[k].set(row).at[:, k].set(-column / pivot)
        return matrix.at[k, k].set(1 / pivot)

    return jax.lax.fori_loop(0, len(matrix), eliminate, matrix)
