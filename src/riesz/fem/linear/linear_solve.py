"""Sparse linear systems inside compiled code, with all derivatives: ways to solve them.

The sparse LU of the host is an operation of its own. `jax.pure_callback` would do, were it not for
its arguments: it copies them into new JAX arrays in the background, and when all of JAX's worker
threads wait for callbacks (on one core, always), the copy never happens. Here the callback gets
NumPy views of XLA's own buffers, and cannot wait.
"""

from abc import abstractmethod
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir
from jaxtyping import Array, Float, PyTree

from riesz.errors import SolveError
from riesz.fem.linear.host_lu import SINGULAR, lu_solve
from riesz.fem.linear.sparse import SparseMatrix

Vector = Float[Array, " size"]


def host_operation(
    name: str,
    compute: Callable[..., Float[np.ndarray, "..."]],
    num_axes: int,
) -> Primitive:
    """An operation that NumPy computes, of right-hand sides that come last, and of their shape.

    Leading axes of all operands are a batch, of length one where nothing varies along it; sides
    have so many axes beside.
    """
    operation = Primitive(name)

    def result_of(*operands, **_):
        *others, all_rhs = operands
        each = [other.shape[:-1] for other in others]
        batch = np.broadcast_shapes(*each, all_rhs.shape[: all_rhs.ndim - num_axes])
        return ShapedArray((*batch, *all_rhs.shape[all_rhs.ndim - num_axes :]), all_rhs.dtype)

    def lower(ctx, *operands, **how):
        result, _, _ = mlir.emit_python_callback(
            ctx,
            lambda *arrays: (compute(*arrays, **how),),
            None,
            list(operands),
            ctx.avals_in,
            ctx.avals_out,
            has_side_effect=False,
            returns_token=False,
        )
        return result

    def batch(operands, axes, **how):
        operands = [
            operand[None] if axis is None else jnp.moveaxis(operand, axis, 0)
            for operand, axis in zip(operands, axes, strict=True)
        ]
        return operation.bind(*operands, **how), 0

    operation.def_impl(lambda *operands, **how: jnp.asarray(compute(*operands, **how)))
    operation.def_abstract_eval(result_of)
    mlir.register_lowering(operation, lower)
    batching.primitive_batchers[operation] = batch
    return operation


host_lu_p = host_operation("host_lu", lu_solve, num_axes=1)


def host_lu(matrix: SparseMatrix, rhs: Vector, *, transposed: bool) -> Vector:
    """Solve A x = b, or with A transposed; NaN where A is singular. Not differentiable itself."""
    pattern = matrix.pattern
    return host_lu_p.bind(
        matrix.values, pattern.columns, pattern.row_starts, rhs, transposed=transposed
    )


class AbstractLinearSolver(eqx.Module):
    """Solves A x = b; forward and reverse derivatives to any order come from the same solver."""

    def prepare(self, matrix: SparseMatrix) -> PyTree[Array]:
        """What solves with one matrix have in common, to be computed once for all of them."""
        return ()

    @abstractmethod
    def raw_solve(
        self, matrix: SparseMatrix, rhs: Vector, *, transposed: bool, prepared: PyTree = None
    ) -> Vector:
        """A solution without derivatives, or NaN where there is none."""

    def __call__(self, matrix: SparseMatrix, rhs: Vector) -> Vector:
        fixed = jax.lax.stop_gradient(matrix)
        return self.with_product(matrix.__matmul__, fixed, self.prepare(fixed), rhs)

    def with_product(
        self,
        product: Callable[[Vector], Vector],
        matrix: SparseMatrix,
        prepared: PyTree[Array],
        rhs: Vector,
        *,
        transposed: bool = False,
    ) -> Vector:
        """The same where derivatives by A are to be those of a function, its product with x.

        With A `transposed` the function is the product of the transpose.
        """
        return jax.lax.custom_linear_solve(
            product,
            rhs,
            solve=lambda _, b: self.raw_solve(matrix, b, transposed=transposed, prepared=prepared),
            transpose_solve=lambda _, b: self.raw_solve(
                matrix, b, transposed=not transposed, prepared=prepared
            ),
        )


class SparseLU(AbstractLinearSolver):
    """SuperLU on the host, for any matrix that fits in memory."""

    def raw_solve(
        self, matrix: SparseMatrix, rhs: Vector, *, transposed: bool, prepared: PyTree = None
    ) -> Vector:
        return host_lu(matrix, rhs, transposed=transposed)


class Automatic(AbstractLinearSolver):
    """The default solver of a problem, see `riesz.fem.default_solver`; sparse LU by itself."""

    def raw_solve(
        self, matrix: SparseMatrix, rhs: Vector, *, transposed: bool, prepared: PyTree = None
    ) -> Vector:
        return host_lu(matrix, rhs, transposed=transposed)


class Dense(AbstractLinearSolver):
    """Dense LU on the device: small problems, many at once on a GPU."""

    def raw_solve(
        self, matrix: SparseMatrix, rhs: Vector, *, transposed: bool, prepared: PyTree = None
    ) -> Vector:
        dense = matrix.to_dense()
        # Scaled to a unit diagonal, coefficients of any contrast do no harm to the estimate.
        root = jnp.sqrt(jnp.max(abs(dense), axis=1))
        weights = 1 + 0.5 * jnp.sin(jnp.arange(len(root), dtype=rhs.dtype))
        all_rhs = jnp.stack([rhs, root * weights], axis=1)
        solutions = jnp.linalg.solve(dense.T if transposed else dense, all_rhs)
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
        self, matrix: SparseMatrix, rhs: Vector, *, transposed: bool, prepared: PyTree = None
    ) -> Vector:
        product = matrix.__matmul__
        if transposed:  # not the same where the matrix is unsymmetric after all
            transpose = jax.linear_transpose(product, rhs)
            product = lambda vector: transpose(vector)[0]  # noqa: E731
        pattern = matrix.pattern
        on_diagonal = jnp.where(pattern.rows == pattern.columns, matrix.values, 0.0)
        diagonal = jax.ops.segment_sum(on_diagonal, pattern.rows, pattern.size)
        solution, _ = jax.scipy.sparse.linalg.cg(
            product, rhs, tol=self.tolerance, maxiter=self.max_steps, M=lambda r: r / diagonal
        )
        # What did not converge (an unsymmetric matrix, say) must not pass for a solution.
        error = jnp.linalg.norm(product(solution) - rhs)
        converged = error <= 1e3 * self.tolerance * jnp.linalg.norm(rhs)
        # Constants in the null space leave the solution undetermined, and CG does not mind.
        ones = jnp.ones_like(rhs)
        magnitude = SparseMatrix(pattern, abs(matrix.values)) @ ones
        undetermined = jnp.max(abs(matrix @ ones)) < 1e-13 * jnp.max(magnitude)
        return jnp.where(converged & ~undetermined, solution, jnp.nan)
