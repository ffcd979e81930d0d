"""Ways to solve a sparse linear system inside compiled code, with all derivatives."""

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from riesz.errors import SolveError
from riesz.fem.linear.host_call import host_lu
from riesz.fem.linear.host_lu import SINGULAR
from riesz.fem.linear.sparse import SparseMatrix


class AbstractLinearSolver(eqx.Module):
    """Solves A x = b; forward and reverse derivatives to any order come from the same solver."""

    @abstractmethod
    def raw_solve(
        self, matrix: SparseMatrix, side: Float[Array, " size"], *, transposed: bool
    ) -> Float[Array, " size"]:
        """A solution without derivatives, or NaN where there is none."""

    def __call__(self, matrix: SparseMatrix, side: Float[Array, " size"]) -> Float[Array, " size"]:
        fixed = jax.lax.stop_gradient(matrix)
        return jax.lax.custom_linear_solve(
            matrix.__matmul__,
            side,
            solve=lambda _, b: self.raw_solve(fixed, b, transposed=False),
            transpose_solve=lambda _, b: self.raw_solve(fixed, b, transposed=True),
        )


class SparseLU(AbstractLinearSolver):
    """SuperLU on the host: the default, for any matrix that fits in memory."""

    def raw_solve(
        self, matrix: SparseMatrix, side: Float[Array, " size"], *, transposed: bool
    ) -> Float[Array, " size"]:
        return host_lu(matrix, side, transposed=transposed)


class Dense(AbstractLinearSolver):
    """Dense LU on the device: small problems, many at once on a GPU."""

    def raw_solve(
        self, matrix: SparseMatrix, side: Float[Array, " size"], *, transposed: bool
    ) -> Float[Array, " size"]:
        dense = matrix.to_dense()
        # Scaled to a unit diagonal, coefficients of any contrast do no harm to the estimate.
        root = jnp.sqrt(jnp.max(abs(dense), axis=1))
        weights = 1 + 0.5 * jnp.sin(jnp.arange(len(root), dtype=side.dtype))
        sides = jnp.stack([side, root * weights], axis=1)
        solutions = jnp.linalg.solve(dense.T if transposed else dense, sides)
        singular = ~(jnp.max(abs(root * solutions[:, 1])) < SINGULAR)
        return jnp.where(singular, jnp.nan, solutions[:, 0])


class ConjugateGradients(AbstractLinearSolver):
    """Jacobi-preconditioned conjugate gradients on the device, for symmetric positive matrices."""

    tolerance: float = eqx.field(static=True, default=1e-12)
    max_steps: int = eqx.field(static=True, default=10_000)

    def __check_init__(self):
        if not 0 < self.tolerance < 1:
            raise SolveError(f"the CG tolerance is {self.tolerance}: it must lie between 0 and 1.")

    def raw_solve(
        self, matrix: SparseMatrix, side: Float[Array, " size"], *, transposed: bool
    ) -> Float[Array, " size"]:
        product = matrix.__matmul__
        if transposed:  # not the same where the matrix is unsymmetric after all
            transpose = jax.linear_transpose(product, side)
            product = lambda vector: transpose(vector)[0]  # noqa: E731
        pattern = matrix.pattern
        on_diagonal = jnp.where(pattern.rows == pattern.columns, matrix.values, 0.0)
        diagonal = jax.ops.segment_sum(on_diagonal, pattern.rows, pattern.size)
        solution, _ = jax.scipy.sparse.linalg.cg(
            product, side, tol=self.tolerance, maxiter=self.max_steps, M=lambda r: r / diagonal
        )
        # What did not converge (an unsymmetric matrix, say) must not pass for a solution.
        error = jnp.linalg.norm(product(solution) - side)
        converged = error <= 1e3 * self.tolerance * jnp.linalg.norm(side)
        # Constants in the null space leave the solution undetermined, and CG does not mind.
        ones = jnp.ones_like(side)
        magnitude = SparseMatrix(pattern, abs(matrix.values)) @ ones
        undetermined = jnp.max(abs(matrix @ ones)) < 1e-13 * jnp.max(magnitude)
        return jnp.where(converged & ~undetermined, solution, jnp.nan)
