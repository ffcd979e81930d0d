"""Is this gradient right? The Taylor test."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from riesz.errors import RieszError


class TaylorTest(eqx.Module):
    r"""Remainders $|f(z + h\,d) - f(z) - h\,\nabla f\cdot d|$ for shrinking h.

    They fall like $h^2$ where the gradient is right (`rate` near 2), like $h$ where it is not.
    `rate` is NaN where f is affine along the direction, so that only rounding errors remain;
    then the gradient is right as well.
    """

    steps: Float[np.ndarray, " step"]
    remainders: Float[np.ndarray, " step"]
    rounding: float  # remainders below this are rounding errors

    @property
    def rate(self) -> float:
        meaningful = self.remainders > self.rounding
        if meaningful.sum() < 2:
            return float("nan")
        logs = np.log(self.steps[meaningful]), np.log(self.remainders[meaningful])
        return float(np.polyfit(*logs, deg=1)[0])

    @property
    def passed(self) -> bool:
        return bool(np.isnan(self.rate) or self.rate > 1.9)

    def __str__(self) -> str:
        rows = [f"{h:10.2e}{r:14.4e}" for h, r in zip(self.steps, self.remainders, strict=True)]
        verdict = "right" if self.passed else "WRONG"
        return "\n".join(
            ["      step     remainder", *rows, f"observed rate {self.rate:.2f}: {verdict}"]
        )


def taylor_test(
    function: Callable[[PyTree], Float[Array, ""]],
    at: PyTree,
    *,
    key: PRNGKeyArray | None = None,
    largest_step: float = 1e-2,
    num_steps: int = 5,
) -> TaylorTest:
    """Compare a function's gradient by JAX with its values along a random direction.

    Run it in float64, at a point where the function is smooth; each step halves the one before.
    """
    point, unravel = ravel_pytree(at)
    if point.dtype != jnp.float64:
        raise RieszError(
            f"the Taylor test needs float64, but the point is {point.dtype}: add "
            'jax.config.update("jax_enable_x64", True) at the top of the program.'
        )
    direction = jr.normal(jr.key(0) if key is None else key, point.shape, point.dtype)
    direction = direction / jnp.linalg.norm(direction) * jnp.maximum(1, jnp.linalg.norm(point))
    value, gradient = jax.value_and_grad(lambda flat: function(unravel(flat)))(point)
    if not (jnp.isfinite(value) and jnp.all(jnp.isfinite(gradient))):
        raise RieszError(f"the function is {value} there, or its gradient has NaN: choose another.")
    slope = float(gradient @ direction)
    steps = largest_step * 0.5 ** np.arange(num_steps)
    values = np.array([float(function(unravel(point + h * direction))) for h in steps])
    remainders = np.abs(values - float(value) - steps * slope)
    rounding = 1e3 * np.finfo(float).eps * max(abs(float(value)), np.abs(values).max())
    return TaylorTest(steps, remainders, float(rounding))
