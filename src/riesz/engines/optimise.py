"""L-BFGS for smooth functions of a few parameters, in any tree of arrays."""

from typing import TypeVar

import jax.numpy as jnp
import numpy as np
import scipy
from jax.flatten_util import ravel_pytree

MAX_STEPS = 200

Tree = TypeVar("Tree")


def minimised(tree: Tree, cost, *arguments, max_steps: int = MAX_STEPS) -> Tree:
    """The parameters that minimise a smooth cost, which returns its gradient too."""
    start, rebuild = ravel_pytree(tree)

    def flat_cost(flat: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = cost(rebuild(jnp.asarray(flat, start.dtype)), *arguments)
        return float(value), np.asarray(ravel_pytree(slope)[0], dtype=float)

    found = scipy.optimize.minimize(
        flat_cost,
        np.asarray(start, dtype=float),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": max_steps},
    )
    return rebuild(jnp.asarray(found.x, start.dtype))
