"""Array types that several layers share; shapes are named in the annotations that use them."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from jaxtyping import Array, Float, Int, Shaped

Scalar: TypeAlias = Float[Array, ""]
"""A traced real number."""

HostFloats: TypeAlias = Float[np.ndarray, "..."]
"""Real numbers that live on the host and are never traced."""

HostInts: TypeAlias = Int[np.ndarray, "..."]
"""Indices that live on the host and are never traced."""

AnyArray: TypeAlias = Shaped[Array, "..."] | Shaped[np.ndarray, "..."]
"""A device or host array of any type."""

SpatialFunction: TypeAlias = Callable[[AnyArray], object]
"""A function of one point `x` with `dim` coordinates."""
