"""Streamline-upwind Petrov-Galerkin stabilisation of transport."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from riesz.fem.pointwise import LinearForm, State, TestFunction, dot


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
    diffusivity $a$ along the stream is read off the form by one directional derivative.
    """
    dim = velocity.shape[0]
    form = physics(u)

    def flux_of(slopes):
        flux = physics(State(u.value, slopes)).flux or (None,) * dim
        return tuple(0.0 * slopes[0] if f is None else f for f in flux)

    _, along_stream = jax.jvp(flux_of, (u.slopes,), (tuple(velocity),))
    # A tiny offset keeps the derivative finite where the velocity vanishes.
    speed_squared = dot(velocity, velocity) + jnp.finfo(velocity.dtype).tiny
    diffusivity = dot(velocity, along_stream) / speed_squared
    slopes = [dot(row, velocity) for row in inverse_jacobian]
    crossing_rate = abs(sum(slopes[1:], start=slopes[0])) + sum(abs(s) for s in slopes)
    size_squared = volume ** (2 / dim)
    decay_rate = 12 * diffusivity / size_squared
    delta = (crossing_rate**2 + decay_rate**2 + jnp.finfo(velocity.dtype).tiny) ** -0.5
    return form + (delta * form.density * velocity) @ TestFunction(dim).grad
