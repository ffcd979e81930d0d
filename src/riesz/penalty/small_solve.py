"""Quadratic forms with the inverses of small matrices, many at once.

Written out instead of calling LAPACK: batched LAPACK kernels of the CPU backend hand work to the
same few threads that wait for it, and two of them side by side can wait for ever.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


@jax.custom_jvp
def inverse_quadratic(
    matrix: Float[Array, "row row"], vectors: Float[Array, "row sample"]
) -> Float[Array, " sample"]:
    r"""$r^\top A^{-1} r$ for each column, with a symmetric positive definite matrix."""
    return jnp.sum(vectors * solve_positive(matrix, vectors), axis=0)


@inverse_quadratic.defjvp
def inverse_quadratic_jvp(primals, tangents):
    """With the solution at hand, no second solve is needed."""
    (matrix, vectors), (matrix_change, vector_change) = primals, tangents
    solution = solve_positive(matrix, vectors)
    value = jnp.sum(vectors * solution, axis=0)
    change = 2 * jnp.sum(solution * vector_change, axis=0)
    return value, change - jnp.sum(solution * (matrix_change @ solution), axis=0)


def solve_positive(
    matrix: Float[Array, "row row"], sides: Float[Array, "row sample"]
) -> Float[Array, "row sample"]:
    """Gauss-Jordan elimination without pivoting, which positive definite matrices do not need."""
    num_rows = len(matrix)

    def eliminate(k, table):
        pivot_row = table[k] / table[k, k]
        return (table - table[:, k][:, None] * pivot_row[None, :]).at[k].set(pivot_row)

    table = jnp.concatenate([matrix, sides], axis=1)
    return jax.lax.fori_loop(0, num_rows, eliminate, table)[:, num_rows:]
