"""Formulas for NumPy's arrays and JAX's alike, and the way from one to the other.

What is written once for both compiles nothing where it is given NumPy's, and can be traced and
differentiated where it is given JAX's.
"""

from types import ModuleType
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg as sla
from jax.scipy import linalg as jsla
from jaxtyping import Array, DTypeLike, Int, Shaped

if TYPE_CHECKING:
    AnyArray = Any  # which of both it is follows from what is given
else:
    AnyArray = Array | np.ndarray


def on_device(values: Any, dtype: DTypeLike | None = None) -> Shaped[Array, "..."]:
    """The same numbers, in another precision where one is given; JAX's own arrays may be traced.

    By copying: `jnp.asarray` would compile a program for each shape.
    """
    if isinstance(values, jax.Array):
        return values if dtype is None or values.dtype == dtype else values.astype(dtype)
    return jax.device_put(np.asarray(values, dtype, order="C"))


def numpy_of(values: Any) -> ModuleType:
    """The library of an array: NumPy or JAX's namesake."""
    return np if isinstance(values, np.ndarray) else jnp


def linalg_of(values: Any) -> ModuleType:
    """SciPy's linear algebra, or JAX's."""
    return sla if isinstance(values, np.ndarray) else jsla


def as_like(values: Any, reference: Any) -> Any:
    """Numbers beside an array: NumPy's in float64 where that is one of NumPy's."""
    return np.asarray(values, float) if isinstance(reference, np.ndarray) else values


def evenly_spaced(count: int, most: int) -> Int[np.ndarray, " chosen"]:
    """So many of a number of things at most, the first and the last among them."""
    return np.unique(np.linspace(0, count - 1, min(most, count)).round().astype(int))


def beside(values: Shaped[AnyArray, " row"], columns: AnyArray) -> Shaped[AnyArray, " row *one"]:
    """One value for each row of columns."""
    return values.reshape(-1, *(1,) * (columns.ndim - 1))
