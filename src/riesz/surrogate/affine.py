"""In which coordinates is the solution of an equation affine? Found by asking the residual."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from riesz.fem.assembly import residual
from riesz.fem.problem import BoundaryValueProblem
from riesz.latent.space import LatentSpace

ROUNDING = 1e4  # units of rounding error


def affine_coordinates(
    problem: BoundaryValueProblem, latents: LatentSpace
) -> Int[np.ndarray, " affine"]:
    r"""Coordinates such as the weights of a source.

    Where the equation is linear, $L(\xi) u = f(\xi)$, the solution is affine in those coordinates
    that $L$ does not depend on and $f$ is affine in. A random functional of the residual has then
    a derivative by them that depends neither on the state nor on themselves.
    """
    rng = np.random.default_rng(0)
    num_dofs, num_coordinates = problem.space.num_dofs, latents.num_coordinates
    states = rng.normal(size=(2, num_dofs)).astype(problem.dtype)
    places = rng.normal(size=(2, num_coordinates)).astype(problem.dtype)
    functional = rng.normal(size=num_dofs).astype(problem.dtype)
    functional[np.asarray(problem.fixed)] = 0.0

    def slopes(state, place):
        arrays = map(jnp.asarray, (functional, state, place))
        return functional_slopes(problem, latents, *arrays)

    tolerance = ROUNDING * np.finfo(problem.dtype).eps
    by_state, by_place = slopes(states[0], places[0])
    other_by_state, other_by_place = slopes(states[1], places[0])
    if not close(by_state, other_by_state, tolerance).all():
        return np.zeros(0, int)
    # A scale times what it scales is affine in each; what it scales is the larger part.
    affine = close(by_place, other_by_place, tolerance) & ~latents.are_scales()
    # All at once: a product of two unknowns is affine in each, but not in both.
    moved = np.where(affine, places[1], places[0])
    affine &= close(by_place, slopes(states[0], moved)[1], tolerance)
    by_moved_state = slopes(states[0], np.where(affine, places[1], places[0]))[0]
    return (
        np.nonzero(affine)[0]
        if close(by_state, by_moved_state, tolerance).all()
        else (np.zeros(0, int))
    )


@eqx.filter_jit
def functional_slopes(
    problem: BoundaryValueProblem,
    latents: LatentSpace,
    functional: Float[Array, " dof"],
    state: Float[Array, " dof"],
    place: Float[Array, " coordinate"],
) -> tuple[Float[Array, " dof"], Float[Array, " coordinate"]]:
    """Derivatives of a functional of the residual by the state and by the coordinates."""

    def asked(state, place):
        return functional @ residual(problem, state, latents.z(place))

    return jax.grad(asked, argnums=(0, 1))(state, place)


def close(one, other, tolerance: float) -> np.ndarray:
    one, other = np.asarray(one, float), np.asarray(other, float)
    return np.abs(one - other) <= tolerance * max(np.abs(one).max(), np.abs(other).max(), 1e-300)
