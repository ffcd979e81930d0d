"""Unknown histories: Gaussian processes in time, at the times of a series."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from riesz.errors import RieszError
from riesz.priors.kernels import AbstractKernel

JITTER = 1e-10
"""Of the variance, added to it: smooth processes are nearly singular at times that are close."""


def process_in_time(kernel: AbstractKernel, times: Any, *, mean: Any = 0.0) -> dist.Distribution:
    """The prior of an unknown with one number a time, such as a rate, for `series(times, name)`.

    `kernel` has a length scale in units of time; `mean` is one number, or one a time.
    """
    at = np.asarray(times, float)
    if at.ndim != 1 or not len(at):
        raise RieszError(f"the times of a process have shape {at.shape}: give a list of numbers.")
    if not np.isfinite(at).all():
        raise RieszError("the times of a process have NaN or infinite values: remove them.")
    matrix = kernel.matrix(at[:, None], at[:, None])
    steadied = matrix + JITTER * matrix[0, 0] * np.eye(len(at))
    level = np.broadcast_to(np.asarray(mean, float), at.shape)
    factor = np.linalg.cholesky(steadied)
    return dist.MultivariateNormal(jnp.asarray(level), scale_tril=jnp.asarray(factor))
