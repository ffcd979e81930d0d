"""What a method asks of a posterior: its log-density, and derivatives at a point.

Coordinates are standard normal before the data are seen: the prior's part of the Hessian of minus
the log-density is the identity, and a density is told from others by its likelihood alone. The
directions in which its curvature differs from the prior's are few, whatever the number of unknowns:
about as many as there are data.
"""

import os
import re
from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from riesz.devices import Devices, over_rows
from riesz.errors import RieszError
from riesz.fem.default_solver import map_in_parts
from riesz.posterior.family import standard_log_density
from riesz.problem.problem import Coordinates, InverseProblem

DIFFERENCE = 1e-4
"""Of gradients, in prior standard deviations."""

Directions = Float[Array, "direction coordinate"]
HessianVectorProduct = Callable[[Coordinates], Coordinates]


class Linearization(eqx.Module):
    """Coordinates, and all about them that Hessian-vector products meet again."""

    coordinates: Coordinates
    cost: Float[Array, ""]  # minus the log-posterior, up to a constant
    gradient: Coordinates
    reused: Any = None  # as the density has it


class AbstractDensity(eqx.Module):
    """A posterior density of standard normal coordinates, up to a constant.

    Derivatives are JAX's own, for likelihoods without a solve whose parts would be met again.
    """

    @abstractmethod
    def log_likelihood(self, coordinates: Coordinates) -> Float[Array, ""]:
        """NaN where there is none."""

    def __call__(self, coordinates: Coordinates) -> Float[Array, ""]:
        """The log-density; NaN where there is none."""
        return standard_log_density(coordinates) + self.log_likelihood(coordinates)

    @property
    def num_data(self) -> int:
        """In about so many directions the Hessian differs from the prior's."""
        return 0

    def seconds(self) -> float:
        """What a value takes, roughly."""
        return 1e-6

    def explain(self, coordinates: Coordinates, where: str) -> None:
        """Raise, and say why the log-density is not finite here."""
        raise RieszError(f"the log-density is not finite where {where}: pass start=...")

    def linearize(self, coordinates: Coordinates) -> Linearization:
        cost, gradient = jax.value_and_grad(self.misfit)(coordinates)
        cost = cost + 0.5 * coordinates @ coordinates
        return Linearization(coordinates, cost, coordinates + gradient)

    def hessian_vector_product(
        self, at: Linearization, second: Float[Array, ""]
    ) -> HessianVectorProduct:
        """The data's part of the Hessian, as a function of directions.

        `second` is one. Zero asks for what is left of it without second derivatives of the state,
        as Gauss and Newton had it, which is never negative where noise is normal and known; a
        density without a state has the whole of it alone.
        """

        def product(direction: Coordinates) -> Coordinates:
            # Forwards within, backwards outside: a loop that was turned around once has forgotten
            # what the derivatives of its steps are.
            def directional_derivative(point: Coordinates) -> Float[Array, ""]:
                return jax.jvp(self.misfit, (point,), (direction,))[1]

            return jax.grad(directional_derivative)(at.coordinates)

        return product

    def misfit(self, coordinates: Coordinates) -> Float[Array, ""]:
        """Minus the log-likelihood."""
        return -self.log_likelihood(coordinates)


class AbstractGradientDensity(AbstractDensity):
    """A density whose second derivatives JAX does not have, or not at a bearable cost.

    Its curvature is that of central differences of gradients.
    """

    def hessian_vector_product(
        self, at: Linearization, second: Float[Array, ""]
    ) -> HessianVectorProduct:
        gradient = jax.grad(self.misfit)

        def product(direction: Coordinates) -> Coordinates:
            size = jnp.linalg.norm(direction)
            step = DIFFERENCE * direction / jnp.where(size > 0, size, 1.0)
            ahead, behind = (gradient(at.coordinates + own) for own in (step, -step))
            return (ahead - behind) * (size / (2 * DIFFERENCE))

        return product


class AbstractRecordDensity(AbstractDensity):
    """A density by what is recorded of a state, such as what the sensors see of it."""

    problem: eqx.AbstractVar[InverseProblem]

    @abstractmethod
    def record(self, coordinates: Coordinates) -> Float[Array, " recorded"]:
        """What the likelihood reads; NaN where there is no state."""

    def log_likelihood_of(
        self, coordinates: Coordinates, record: Float[Array, " recorded"]
    ) -> Float[Array, ""]:
        """Given a record, which is what the sensors see unless a density says another."""
        problem = self.problem
        return problem.likelihood.log_prob(problem.observed, record, problem.z(coordinates))

    def log_likelihood(self, coordinates: Coordinates) -> Float[Array, ""]:
        return self.log_likelihood_of(coordinates, self.record(coordinates))

    @property
    def num_data(self) -> int:
        return len(self.problem.observed)

    def explain(self, coordinates: Coordinates, where: str) -> None:
        self.problem.explain(coordinates, where)

    def hessian_vector_product(
        self, at: Linearization, second: Float[Array, ""]
    ) -> HessianVectorProduct:
        full = super().hessian_vector_product(at, second)
        record, tangent = jax.linearize(self.record, at.coordinates)
        adjoint = jax.linear_transpose(tangent, at.coordinates)
        gradients = jax.grad(
            lambda point, record: -self.log_likelihood_of(point, record), argnums=(0, 1)
        )
        _, gradient_tangents = jax.linearize(gradients, at.coordinates, record)

        def gauss_newton(direction: Coordinates) -> Coordinates:
            by_unknowns, by_record = gradient_tangents(direction, tangent(direction))
            return by_unknowns + adjoint(by_record)[0]

        return lambda direction: jax.lax.cond(jnp.all(second > 0), full, gauss_newton, direction)


@eqx.filter_jit
def linearize_at(density: AbstractDensity, coordinates: Coordinates) -> Linearization:
    """Value, gradient and what else is met again; a NaN cost where there is no density."""
    return density.linearize(coordinates)


@eqx.filter_jit
def hessian_vector_products(
    density: AbstractDensity,
    at: Linearization,
    directions: Directions,
    second: Float[Array, ""] | None = None,
) -> Directions:
    """The data's part of the Hessian times several directions: all of it, but for `second`."""
    second = jnp.ones((), directions.dtype) if second is None else second
    return map_in_parts(density.hessian_vector_product(at, second), directions, directions.shape[1])


FACTORISATIONS = re.compile(r"= (eigh|cholesky|lu|svd|householder_product|triangular_solve)\b")
"""What jaxlib leaves to LAPACK, by its names behind a sign: variables may have such names, too."""


def pool_for(density: AbstractDensity, coordinates: Coordinates) -> ThreadPoolExecutor:
    """As many threads as may evaluate a density.

    A factorisation waits for the threads that run programs, of which there are as many as cores:
    where each of these waits, all do so for ever (jaxlib 0.10 and 0.11).
    """
    program = str(eqx.filter_make_jaxpr(density.log_likelihood)(coordinates)[0])
    return ThreadPoolExecutor(1 if FACTORISATIONS.search(program) else os.cpu_count())


OVERSAMPLING = 10
"""Directions beyond those that are wanted, for the random start to hold all of them."""

FEW_UNKNOWNS = 256
"""Up to so many, curvature is looked at in all directions."""

NUM_DIRECTIONS = 50
"""Of more, in as many as there are observations, but no fewer than these and at most four times as
many."""

LEAST_INFORMATION = -0.75
"""Where the log-density bends upwards a normal distribution is at most twice as wide as the
prior."""

Eigenpairs = tuple[Float[Array, " rank"], Float[Array, "coordinate rank"]]


def num_directions(size: int, num_data: int) -> int:
    """In how many directions curvature is looked at."""
    if size <= FEW_UNKNOWNS:
        return size
    return min(size, int(np.clip(num_data, NUM_DIRECTIONS, 4 * NUM_DIRECTIONS)))


def curvature_at(
    density: AbstractDensity,
    at: Linearization,
    count: int,
    key: PRNGKeyArray,
    *,
    second: Float[Array, ""] | None = None,
    devices: Devices | None = None,
) -> Eigenpairs:
    """The data's part of the Hessian at a point, by its eigenvalues of largest size."""
    product = eqx.Partial(hessian_vector_products, second=second)

    def action(directions: Directions) -> Directions:
        return over_rows(product, (density, at), directions, devices)

    return leading_eigenpairs(action, len(at.coordinates), count, key)


def leading_eigenpairs(
    action: Callable[[Directions], Directions], size: int, count: int, key: PRNGKeyArray
) -> tuple[Float[Array, " rank"], Float[Array, "coordinate rank"]]:
    """The eigenvalues of largest size of a symmetric operator, by a randomised double pass.

    Halko, Martinsson & Tropp (2011). `action` takes several directions at once.
    """
    rank = min(count + OVERSAMPLING, size)
    # Where directions are all there are, there is no subspace to be found.
    random = rank < size
    basis = orthonormal(action(jr.normal(key, (rank, size)))) if random else jnp.eye(size)
    return eigenpairs_within(basis, action(basis), min(count, rank))


@eqx.filter_jit
def orthonormal(directions: Directions) -> Directions:
    return jnp.linalg.qr(directions.T)[0].T


@eqx.filter_jit
def eigenpairs_within(
    basis: Directions, images: Directions, count: int
) -> tuple[Float[Array, " rank"], Float[Array, "coordinate rank"]]:
    """Of a symmetric operator in the span of an orthonormal basis, whose images are known."""
    inner = basis @ images.T
    values, rotation = jnp.linalg.eigh((inner + inner.T) / 2)
    leading = jnp.argsort(-jnp.abs(values))[:count]
    return values[leading], basis.T @ rotation[:, leading]
