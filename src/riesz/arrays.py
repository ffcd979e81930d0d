"""NumPy's arrays become JAX's by copying: `jnp.asarray` would compile a program for each shape."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Array, DTypeLike, Shaped


def on_device(values: Any, dtype: DTypeLike | None = None) -> Shaped[Array, "..."]:
    """The same numbers, in another precision where one is given; JAX's own arrays may be traced."""
    if isinstance(values, jax.Array):
        return values if dtype is None or values.dtype == dtype else values.astype(dtype)
    return jax.device_put(np.asarray(values, dtype, order="C"))
