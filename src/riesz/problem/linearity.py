"""Which unknowns enter a problem linearly? Found once for each problem, by asking its parts.

Surrogates are made affine in those that the solution is affine in; where the noise is normal, they
can be integrated out.
"""

from collections.abc import Callable, Collection, Iterable
from functools import wraps
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from riesz.arrays import on_device
from riesz.errors import RieszError
from riesz.fem.assembly import residual
from riesz.priors.latent import LatentSpace, Z
from riesz.problem.dependence import Dependence, dependence, join_dependences
from riesz.problem.problem import InverseProblem
from riesz.problem.unknowns import STATE

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
    def remember(problem: InverseProblem) -> Answer:
        if problem not in known:
            known[problem] = answer(problem)
        return known[problem]

    return remember


def of_unknowns(
    problem: InverseProblem,
    function: Callable[..., Any],
    *,
    of_state: bool = False,
    smoothly: bool = False,
) -> Dependence:
    """What `function(z)`, or `function(state, z)`, depends on: the state and the unknowns by name.

    Scales of an unknown are told from what they scale. With `smoothly`, what its derivative
    depends on: steps of a comparison or of rounding have none.
    """
    latents, dtype = problem.latents, problem.forward.dtype
    inputs = {}
    for name, latent in latents.latents.items():
        count = latent.num_scales
        inputs[name] = jax.ShapeDtypeStruct((latent.num_coordinates - count,), dtype)
        if count:
            inputs[scales_of(name)] = jax.ShapeDtypeStruct((count,), dtype)
    state = jax.ShapeDtypeStruct((problem.forward.space.num_dofs,), dtype)

    def evaluate(given: dict[str, Array]) -> Any:
        z = latents.entries(
            {
                name: latent.value_given(
                    given.get(scales_of(name), jnp.zeros(0, dtype)), given[name]
                )
                for name, latent in latents.latents.items()
            }
        )
        return function(given[STATE], z) if of_state else function(z)

    inputs |= {STATE: state} if of_state else {}

    def derivative(direction: dict[str, Array]) -> Any:
        origin = jax.tree.map(jnp.zeros_like, direction)
        return jax.jvp(evaluate, (origin,), (direction,))[1]

    return dependence(derivative if smoothly else evaluate, inputs)


def scales_of(name: str) -> str:
    return f"scales of {name}"


@once_per_problem
def without_derivative(problem: InverseProblem) -> tuple[str, ...]:
    """Unknowns that the data depend on by steps alone: all derivatives by them are zero."""

    def everything(state: Float[Array, " dof"], z: Any) -> list[Array]:
        record, then = problem.record, problem.record.first(z)
        values = [record.boundary_values(one, z) for one in problem.forwards]
        steps = [record.equation(one, state) for one in problem.forwards]
        predicted = jnp.zeros_like(problem.observed)
        if record.axis is None:
            predicted = problem.predict(jnp.tile(state, len(steps)), z)
        density = problem.likelihood.log_prob(problem.observed, predicted, z)
        return [*values, *(residual(one, state, then) for one in steps), density]

    reads, moves = (
        of_unknowns(problem, everything, of_state=True, smoothly=smoothly).reads
        for smoothly in (False, True)
    )
    return tuple(name for name in problem.latents.names if name in reads - moves)


@once_per_problem
def by_equation(problem: InverseProblem) -> Dependence:
    """What the residual depends on; in time, that of a step, which reads earlier states as well."""
    forward, record = problem.forward, problem.record

    def of_step(state: Float[Array, " dof"], z: Any) -> Array:
        return residual(record.equation(forward, state), state, record.first(z))

    return of_unknowns(problem, of_step, of_state=True)


@once_per_problem
def beside_the_equation(problem: InverseProblem) -> tuple[Dependence, Dependence]:
    """What prescribed values and an initial state, and shifts of the data, depend on."""
    like = jax.ShapeDtypeStruct(problem.observed.shape, problem.forward.dtype)

    def shift(z: Any) -> Array:
        return problem.likelihood.mean(jnp.zeros(like.shape, like.dtype), z)

    def boundary_and_initial(z: Any) -> Array:
        return problem.record.boundary_values(problem.forward, z)

    return of_unknowns(problem, boundary_and_initial), of_unknowns(problem, shift)


def affine_together(names: Iterable[str], dependence_of_all: Dependence) -> set[str]:
    """Those that meet neither themselves nor each other: of a product both are left out."""
    left = set(names)
    return left - {name for pair in dependence_of_all.meets if pair <= left for name in pair}


@once_per_problem
def affine_coordinates(problem: InverseProblem) -> Int[np.ndarray, " affine"]:
    r"""Coordinates in which the solution is affine, such as the weights of a source.

    Where the equation is linear, $L(\xi) u = f(\xi)$, the solution is affine in those coordinates
    that $L$ does not depend on and $f$ is affine in.
    """
    result = by_equation(problem)
    if not result.is_affine_in([STATE]):
        return np.zeros(0, int)
    apart = {name for name in problem.latents.names if frozenset((STATE, name)) not in result.meets}
    return places_of(problem, affine_together(apart, result))


def places_of(problem: InverseProblem, names: Collection[str]) -> Int[np.ndarray, " coordinate"]:
    """The coordinates of some unknowns, but for their scales."""
    marked = ~problem.latents.are_scales()
    for name, part in problem.latents.slices().items():
        marked[part] &= name in names
    return np.flatnonzero(marked)


class Parts(eqx.Module):
    """Coordinates in which the state is affine when the others are held, and those others."""

    linear: Int[Array, " linear"]
    others: Int[Array, " other"]
    in_state: Int[Array, " state"]  # which of the linear ones the state depends on
    in_shift: Int[Array, " shift"]  # and what data differ by from it
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
    ) -> Z:
        """What equations read; derivatives by the linear coordinates go through them alone.

        By way of one vector of coordinates they would also go through scales and coefficients, as
        zeros, each with an array for every linear coordinate.
        """
        whole = self.together(linear, others)
        held = self.together(jnp.zeros_like(linear), others)
        result = {}
        for name, part in latents.slices().items():
            latent, own = latents.latents[name], held[part]
            count = latent.num_scales
            linear_too = name in self.names
            result[name] = (
                latent.value_given(own[:count], whole[part][count:])
                if linear_too
                else latent.value(own)
            )
        return latents.entries(result)


@once_per_problem
def linear_parts(problem: InverseProblem) -> Parts:
    """The split of a problem's coordinates; raises where nothing can be integrated out."""
    if len(problem.forwards) > 1:
        raise RieszError(
            "the density marginal takes one experiment, and there are "
            f"{len(problem.forwards)}: use the density exact."
        )
    if problem.linear is None:
        raise RieszError(
            "the density marginal needs observations that are linear in the state, and there are "
            f"{problem.observations.what.describe()}: use the density exact."
        )
    if not problem.likelihood.is_normal:
        raise RieszError(
            f"the density marginal needs normal noise; it is {type(problem.likelihood).__name__} "
            f"({problem.likelihood.describe()}): use the density exact."
        )
    linear = affine_coordinates(problem)
    linear = np.intersect1d(linear, affine_beside_the_equation(problem))
    linear = np.setdiff1d(linear, read_by_noise(problem))
    if not len(linear):
        raise RieszError(
            "the state is affine in none of the unknowns, so that the density marginal has nothing "
            "to integrate out: it is for linear equations with an unknown source or unknown "
            "boundary values. Use the density exact."
        )
    others = np.setdiff1d(np.arange(problem.num_coordinates), linear)
    names = tuple(
        name
        for name, part in problem.latents.slices().items()
        if np.isin(np.arange(part.start, part.stop), linear).any()
    )
    in_state = np.flatnonzero(read_by_state(problem)[linear])
    shifting = places_of(problem, beside_the_equation(problem)[1].reads)
    in_shift = np.flatnonzero(np.isin(linear, shifting))
    return Parts(*map(on_device, (linear, others, in_state, in_shift)), names=names)


def read_by_state(
    problem: InverseProblem, *, or_shifts: bool = False
) -> Bool[np.ndarray, " coordinate"]:
    """Which coordinates move the state: others, such as effects of covariates, need no solve.

    With `or_shifts`, which move what the data scatter about.
    """
    prescribed, shifts = beside_the_equation(problem)
    reads = by_equation(problem).reads | prescribed.reads | (shifts.reads if or_shifts else set())
    marked = np.zeros(problem.num_coordinates, bool)
    for name, part in problem.latents.slices().items():
        first = part.start + problem.latents.latents[name].num_scales
        marked[part.start : first] = scales_of(name) in reads
        marked[first : part.stop] = name in reads
    return marked


def affine_beside_the_equation(problem: InverseProblem) -> Int[np.ndarray, " affine"]:
    """Coordinates in which prescribed values, and shifts of the data, are affine together."""
    result = join_dependences(beside_the_equation(problem))
    return places_of(problem, affine_together(problem.latents.names, result))


def read_by_noise(problem: InverseProblem) -> Int[np.ndarray, " read"]:
    """Coordinates of all unknowns without which the scale of the noise cannot be evaluated."""
    origin = jnp.zeros(problem.num_coordinates, problem.forward.dtype)

    # Not the bound methods themselves: JAX would compare the whole problem, array by array.
    def unknowns(coordinates):
        return problem.z(coordinates)

    def scale(given):
        return problem.likelihood.parameters(given)

    z = jax.eval_shape(unknowns, origin)
    marked = np.zeros(problem.num_coordinates, dtype=bool)
    for name, part in problem.latents.slices().items():
        others = {key: value for key, value in z.items() if key != name}
        try:
            jax.eval_shape(scale, others)
        except KeyError:
            marked[part] = True
    return np.flatnonzero(marked)
