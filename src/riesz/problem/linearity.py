"""Which unknowns enter a problem linearly? Found once for each problem, by asking its parts.

Surrogates are made affine in those that the solution is affine in; where the noise is normal, they
can be integrated out.
"""

from collections.abc import Callable
from functools import wraps
from typing import TypeVar
from weakref import WeakKeyDictionary

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from riesz.errors import RieszError
from riesz.fem.assembly import dirichlet_values, residual
from riesz.fem.problem import BoundaryValueProblem
from riesz.latent.latent import LatentSpace
from riesz.problem.problem import InverseProblem
from riesz.surrogate.surrogate import AffineValues, affine_values

TOLERANCE = 1e-9
ROUNDING = 1e4  # units of rounding error

Answer = TypeVar("Answer")


def once_per_problem(
    answer: Callable[[InverseProblem], Answer],
) -> Callable[[InverseProblem], Answer]:
    """The same function, which remembers its answers for as long as the problems live.

    Problems never change and are told apart by identity: other data make another problem, so that
    no answer can be out of date.
    """
    known: WeakKeyDictionary[InverseProblem, Answer] = WeakKeyDictionary()

    @wraps(answer)
    def remembered(problem: InverseProblem) -> Answer:
        if problem not in known:
            known[problem] = answer(problem)
        return known[problem]

    return remembered


@once_per_problem
def affine_coordinates(problem: InverseProblem) -> Int[np.ndarray, " affine"]:
    r"""Coordinates in which the solution is affine, such as the weights of a source.

    Where the equation is linear, $L(\xi) u = f(\xi)$, the solution is affine in those coordinates
    that $L$ does not depend on and $f$ is affine in. A random functional of the residual has then
    a derivative by them that depends neither on the state nor on themselves.
    """
    rng = np.random.default_rng(0)
    forward, latents = problem.forward, problem.latents
    num_dofs, dtype = forward.space.num_dofs, forward.dtype
    states = rng.normal(size=(2, num_dofs)).astype(dtype)
    places = rng.normal(size=(2, problem.num_coordinates)).astype(dtype)
    functional = rng.normal(size=num_dofs).astype(dtype)
    functional[np.asarray(forward.fixed)] = 0.0

    def slopes(state, place):
        arrays = map(jnp.asarray, (functional, state, place))
        return functional_slopes(forward, latents, *arrays)

    tolerance = ROUNDING * np.finfo(dtype).eps
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
    if not close(by_state, by_moved_state, tolerance).all():
        return np.zeros(0, int)
    return np.flatnonzero(affine)


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


@once_per_problem
def prescribed_values(problem: InverseProblem) -> AffineValues:
    """Dirichlet values as affine functions of the coordinates; raises where they are not."""
    return affine_values(problem.forward, problem.latents)


class Parts(eqx.Module):
    """Coordinates in which the state is affine when the others are held, and those others."""

    linear: Int[Array, " linear"]
    others: Int[Array, " other"]
    in_state: Int[Array, " state"]  # which of the linear ones the state depends on
    names: tuple[str, ...] = eqx.field(static=True)  # of unknowns with linear coordinates

    @property
    def num_coordinates(self) -> int:
        return len(self.linear) + len(self.others)

    def together(
        self, linear: Float[Array, " linear"], others: Float[Array, " other"]
    ) -> Float[Array, " coordinate"]:
        """All coordinates in their own order."""
        whole = jnp.zeros(self.num_coordinates, linear.dtype)
        return whole.at[self.linear].set(linear).at[self.others].set(others)

    def z(
        self, latents: LatentSpace, linear: Float[Array, " linear"], others: Float[Array, " other"]
    ) -> dict[str, Float[Array, "..."]]:
        """What equations read; derivatives by the linear coordinates go through them alone.

        By way of one vector of coordinates they would also go through scales and coefficients, as
        zeros, each with an array for every linear coordinate.
        """
        whole = self.together(linear, others)
        held = self.together(jnp.zeros_like(linear), others)
        found = {}
        for name, part in latents.slices().items():
            latent, own = latents.latents[name], held[part]
            count = latent.num_scales
            linear_too = name in self.names
            found[name] = (
                latent.given(own[:count], whole[part][count:]) if linear_too else latent.value(own)
            )
        return found


@once_per_problem
def linear_parts(problem: InverseProblem) -> Parts:
    """The split of a problem's coordinates; raises where nothing can be integrated out."""
    if not problem.likelihood.is_normal:
        raise RieszError(
            f"conditional needs normal noise, and it is {type(problem.likelihood).__name__} "
            f"({problem.likelihood.describe()}): use laplace, nuts or emulate."
        )
    linear = affine_coordinates(problem)
    linear = np.intersect1d(linear, affine_beside_the_equation(problem))
    linear = np.setdiff1d(linear, read_by_noise(problem))
    if not len(linear):
        raise RieszError(
            "the state is affine in none of the unknowns, so that conditional has nothing to "
            "integrate out: it is for linear equations with an unknown source or unknown boundary "
            "values. Use laplace, nuts or emulate."
        )
    others = np.setdiff1d(np.arange(problem.num_coordinates), linear)
    names = tuple(
        name
        for name, part in problem.latents.slices().items()
        if np.isin(np.arange(part.start, part.stop), linear).any()
    )
    in_state = jnp.flatnonzero(read_by_state(problem)[linear])
    return Parts(jnp.asarray(linear), jnp.asarray(others), in_state, names)


def read_by_state(problem: InverseProblem) -> Bool[np.ndarray, " coordinate"]:
    """Which coordinates move the state: others, such as effects of covariates, need no solve.

    A random functional has a slope of zero by those that a function does not read, by no others.
    """
    rng = np.random.default_rng(2)
    forward, dtype = problem.forward, problem.forward.dtype
    functional, state = rng.normal(size=(2, forward.space.num_dofs)).astype(dtype)
    place = jnp.asarray(rng.normal(size=problem.num_coordinates), dtype)
    arrays = jnp.asarray(functional), jnp.asarray(state), place
    by_equation = functional_slopes(forward, problem.latents, *arrays)[1]

    at_fixed = jnp.asarray(rng.normal(size=len(forward.fixed)), dtype)
    nothing = jnp.zeros(len(problem.observed), dtype)
    prescribed = slopes_beside_the_equation(problem, at_fixed, nothing, place)
    return np.asarray((by_equation != 0) | (prescribed != 0))


def affine_beside_the_equation(problem: InverseProblem) -> Int[np.ndarray, " affine"]:
    """Coordinates in which prescribed values, and shifts of the data, are affine together."""
    dtype = problem.forward.dtype
    rng = np.random.default_rng(1)
    sizes = (len(problem.forward.fixed), len(problem.observed), problem.num_coordinates)
    functional, at_sensors, one, other = (
        rng.normal(size=size).astype(dtype) for size in (*sizes, sizes[-1])
    )

    def slopes(coordinates):
        arrays = map(jnp.asarray, (functional, at_sensors, coordinates))
        return slopes_beside_the_equation(problem, *arrays)

    at_one = slopes(one)
    affine = ~problem.latents.are_scales()
    # Those that are not drop out one after the other: what is left must be affine together.
    while not (good := close(at_one, slopes(np.where(affine, other, one)), TOLERANCE))[
        affine
    ].all():
        affine &= good
    return np.flatnonzero(affine)


@eqx.filter_jit
def slopes_beside_the_equation(
    problem: InverseProblem,
    functional: Float[Array, " fixed"],
    at_sensors: Float[Array, " sensor"],
    coordinates: Float[Array, " coordinate"],
) -> Float[Array, " coordinate"]:
    """Derivatives of functionals of prescribed values and of shifts of the data."""

    def asked(coordinates):
        z = problem.z(coordinates)
        prescribed = functional @ dirichlet_values(problem.forward, z)
        return prescribed + at_sensors @ problem.likelihood.mean(jnp.zeros_like(at_sensors), z)

    return jax.grad(asked)(coordinates)


def read_by_noise(problem: InverseProblem) -> Int[np.ndarray, " read"]:
    """Coordinates of all unknowns without which the scale of the noise cannot be evaluated."""
    origin = jnp.zeros(problem.num_coordinates, problem.forward.dtype)

    # Not the bound methods themselves: JAX would compare the whole problem, array by array.
    def unknowns(coordinates):
        return problem.z(coordinates)

    def scale(given):
        return problem.likelihood.scale(given)

    z = jax.eval_shape(unknowns, origin)
    marked = np.zeros(problem.num_coordinates, dtype=bool)
    for name, part in problem.latents.slices().items():
        others = {key: value for key, value in z.items() if key != name}
        try:
            jax.eval_shape(scale, others)
        except KeyError:
            marked[part] = True
    return np.flatnonzero(marked)
