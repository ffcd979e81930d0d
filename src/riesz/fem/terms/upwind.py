"""Streamline-upwind Petrov-Galerkin (SUPG) stabilisation of transport (Brooks & Hughes 1982)."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from riesz.fem.terms.pointwise import LinearForm, State, TestFunction, dot


def upwinded(
    physics: Callable[[State], LinearForm],
    u: State,
    velocity: Float[Array, " dim"],
    inverse_jacobian: Float[Array, "dim dim"],
    volume: Float[Array, ""],
) -> LinearForm:
    r"""SUPG: test the density with $v + \delta\,\tau\cdot\nabla v$ instead of $v$.

    $\delta = ((\sum_i |\tau\cdot\nabla\lambda_i|)^2 + (12\,a/h^2)^2)^{-1/2}$ after Shakib, Hughes
    and Johan (1991): $h/2|\tau|$ where transport wins, $h^2/12a$ where diffusion does. The
    diffusivity $a$ is read off the form: the mean of $\partial F/\partial\nabla u$ over the axes.
    """
    dim = velocity.shape[0]
    form = physics(u)

    def flux_of(slopes):
        flux = physics(State(u.value, slopes)).flux or (None,) * dim
        return tuple(0.0 * slopes[0] if f is None else f for f in flux)

    axes = [tuple(float(i == d) + 0 * u.slopes[0] for i in range(dim)) for d in range(dim)]
    responses = [jax.jvp(flux_of, (u.slopes,), (axis,))[1][d] for d, axis in enumerate(axes)]
    diffusivity = sum(responses[1:], start=responses[0]) / dim
    slopes = [dot(row, velocity) for row in inverse_jacobian]
    crossing_rate = abs(sum(slopes[1:], start=slopes[0])) + sum(abs(s) for s in slopes)
    decay_rate = 12 * diffusivity / volume ** (2 / dim)
    rate_squared = crossing_rate**2 + decay_rate**2
    # Without velocity and diffusion there is no time scale, and nothing to stabilise; the inner
    # `where` keeps the derivative finite there.
    moving = rate_squared > 0
    delta = jnp.where(moving, jnp.where(moving, rate_squared, 1.0) ** -0.5, 0.0)
    density = 0.0 if form.density is None else form.density
    return form + (delta * density * velocity) @ TestFunction(dim).grad
