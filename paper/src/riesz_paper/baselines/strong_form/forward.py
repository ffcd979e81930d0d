r"""Losses that train a network to solve $-\nabla\cdot(a\nabla u) = f$ without a mesh's norm.

Each is the mean of a density over random points, so that its gradient is unbiased for that of an
integral. A field maps a place to a vector whose first entry is $u$; its boundary values are built
in. The diffusivity is constant on each cell: its gradient vanishes inside, and all that is left of
the equation between cells is that the flux does not jump.
"""

from abc import abstractmethod
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from riesz_paper.baselines.strong_form.points import InsidePoints, InterfacePoints

Place = Float[Array, " 2"]
Field = Callable[[Place], Float[Array, " output"]]

OFFSET = 1e-6
"""How far from an interface one-sided derivatives are taken, in units of length."""


class AbstractForwardLoss(eqx.Module):
    """What is minimised over fields; quadratic in them."""

    @abstractmethod
    def __call__(self, key: PRNGKeyArray, field: Field) -> Float[Array, ""]:
        """An unbiased estimate from points drawn with the key."""


class StrongForm(AbstractForwardLoss):
    r"""$\int (a\,\Delta u + f)^2$ in cells plus $\lambda \int [a\,\partial_n u]^2$ between them.

    The physics-informed network of Raissi et al. (2019); the second term, without which nothing
    joins the cells, is that of its variants for interface problems.
    """

    inside: InsidePoints
    interface: InterfacePoints
    source: float = eqx.field(static=True)
    num_points: int = eqx.field(static=True)
    num_interface: int = eqx.field(static=True)
    jump_weight: float = eqx.field(static=True)

    def __call__(self, key: PRNGKeyArray, field: Field) -> Float[Array, ""]:
        inside_key, interface_key = jr.split(key)
        total = jnp.mean(self.residuals(inside_key, field) ** 2)
        if self.jump_weight == 0:
            return total
        return total + self.jump_weight * jnp.mean(self.jumps(interface_key, field) ** 2)

    def residuals(self, key: PRNGKeyArray, field: Field) -> Float[Array, " point"]:
        x, diffusivity = self.inside.draw(key, self.num_points)
        return diffusivity * jax.vmap(lambda place: laplacian(field, place))(x) + self.source

    def jumps(self, key: PRNGKeyArray, field: Field) -> Float[Array, " point"]:
        """Of the normal flux, from one side of an interface to the other."""
        x, normal, diffusivity = self.interface.draw(key, self.num_interface)

        def normal_flux(place, normal, diffusivity):
            return diffusivity * derivative(field, place, normal)[0]

        before = jax.vmap(normal_flux)(x - OFFSET * normal, normal, diffusivity[:, 0])
        return jax.vmap(normal_flux)(x + OFFSET * normal, normal, diffusivity[:, 1]) - before


class FirstOrderSystem(AbstractForwardLoss):
    r"""$\int |\sigma - a\nabla u|^2 / a + \lambda \int (\nabla\cdot\sigma + f)^2$.

    The least squares of a first-order system: the field's second and third entries are $\sigma$,
    and only first derivatives are taken.
    """

    inside: InsidePoints
    source: float = eqx.field(static=True)
    num_points: int = eqx.field(static=True)
    balance_weight: float = eqx.field(static=True)

    def __call__(self, key: PRNGKeyArray, field: Field) -> Float[Array, ""]:
        x, diffusivity = self.inside.draw(key, self.num_points)

        def density(place, diffusivity):
            flux, slopes = field(place)[1:], gradients(field, place)
            law = flux - diffusivity * slopes[0]
            balance = slopes[1, 0] + slopes[2, 1] + self.source
            return law @ law / diffusivity + self.balance_weight * balance**2

        return jnp.mean(jax.vmap(density)(x, diffusivity))


class DeepRitz(AbstractForwardLoss):
    r"""$\int \frac12 a\,|\nabla u|^2 - f u$, the energy itself (E & Yu, 2018); not a square."""

    inside: InsidePoints
    source: float = eqx.field(static=True)
    num_points: int = eqx.field(static=True)

    def __call__(self, key: PRNGKeyArray, field: Field) -> Float[Array, ""]:
        x, diffusivity = self.inside.draw(key, self.num_points)

        def density(place, diffusivity):
            slope = gradients(field, place)[0]
            return diffusivity * (slope @ slope) / 2 - self.source * field(place)[0]

        return jnp.mean(jax.vmap(density)(x, diffusivity))


def derivative(field: Field, place: Place, direction: Place) -> Float[Array, " output"]:
    return jax.jvp(field, (place,), (direction,))[1]


def gradients(field: Field, place: Place) -> Float[Array, "output 2"]:
    """Forward mode: two directions, however many outputs and weights."""
    return jax.jacfwd(field)(place)


def laplacian(field: Field, place: Place) -> Float[Array, ""]:
    """Of the first entry, direction by direction: no mixed derivatives are needed."""

    def second(direction):
        return derivative(lambda x: derivative(field, x, direction), place, direction)[0]

    return jnp.sum(jax.vmap(second)(jnp.eye(2, dtype=place.dtype)))
