"""The sparse LU of the host as an operation of compiled code.

`jax.pure_callback` would do, were it not for its arguments: it copies them into new JAX arrays in
the background, and when all of JAX's worker threads wait for callbacks (on one core, always), the
copy never happens. Here the callback gets NumPy views of XLA's own buffers, and cannot wait.
"""

import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir
from jaxtyping import Array, Float

from riesz.fem.linear.host_lu import lu_solve
from riesz.fem.linear.sparse import SparseMatrix

host_lu_p = Primitive("host_lu")


def host_lu(
    matrix: SparseMatrix, side: Float[Array, " size"], *, transposed: bool
) -> Float[Array, " size"]:
    """Solve A x = b, or with A transposed; NaN where A is singular. Not differentiable itself."""
    pattern = matrix.pattern
    return host_lu_p.bind(
        matrix.values, pattern.columns, pattern.row_starts, side, transposed=transposed
    )


@host_lu_p.def_impl
def host_lu_impl(*parts, transposed):
    return jnp.asarray(lu_solve(*parts, transposed=transposed))


@host_lu_p.def_abstract_eval
def host_lu_shape(values, columns, row_starts, side, *, transposed):
    batch = np.broadcast_shapes(values.shape[:-1], side.shape[:-1])
    return ShapedArray((*batch, side.shape[-1]), side.dtype)


def host_lu_lowering(ctx, *parts, transposed):
    result, _, _ = mlir.emit_python_callback(
        ctx,
        lambda *arrays: (lu_solve(*arrays, transposed=transposed),),
        None,
        list(parts),
        ctx.avals_in,
        ctx.avals_out,
        has_side_effect=False,
        returns_token=False,
    )
    return result


def host_lu_batch(parts, axes, *, transposed):
    """One more leading axis for all; of length one where nothing varies along it."""
    parts = [
        part[None] if axis is None else jnp.moveaxis(part, axis, 0)
        for part, axis in zip(parts, axes, strict=True)
    ]
    return host_lu_p.bind(*parts, transposed=transposed), 0


mlir.register_lowering(host_lu_p, host_lu_lowering)
batching.primitive_batchers[host_lu_p] = host_lu_batch
