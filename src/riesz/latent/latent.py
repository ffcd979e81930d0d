"""What an unknown is: a prior written as a function of independent standard normal coordinates.

With such coordinates every engine sees the same prior, N(0, I), whatever the units, bounds and
correlations of the quantities themselves (the non-centred parametrisation, Papaspiliopoulos,
Roberts & Skold 2007).
"""

from abc import abstractmethod

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from riesz.fem.terms.coefficient import AbstractCoefficient, Latent
from riesz.mesh.mesh import Mesh


class AbstractLatent(eqx.Module):
    """One unknown of an inverse problem with its prior."""

    @property
    @abstractmethod
    def num_coordinates(self) -> int:
        """How many standard normal coordinates it has."""

    @abstractmethod
    def value(self, coordinates: Float[Array, " coordinate"]) -> Float[Array, "..."]:
        """What `z` holds for these coordinates: a number, a vector, or the weights of a field."""

    @property
    def num_scales(self) -> int:
        """How many of its coordinates, the first ones, are scales of what the others make."""
        return 0

    def given(
        self, scales: Float[Array, " scale"], rest: Float[Array, " rest"]
    ) -> Float[Array, "..."]:
        """The value by its two kinds of coordinates: derivatives by one leave the other alone."""
        return self.value(jnp.concatenate([scales, rest]))

    def coefficient(self, name: str) -> AbstractCoefficient:
        """What stands in an equation where the unknown is named."""
        return Latent(name)

    def labels(self) -> tuple[str, ...]:
        """A word for each coordinate, to tell them apart."""
        return tuple(map(str, range(self.num_coordinates)))

    @abstractmethod
    def describe(self) -> str:
        """The prior in a few words, in physical units."""


@eqx.filter_jit
def value_of(
    latent: AbstractLatent, coordinates: Float[Array, " coordinate"]
) -> Float[Array, "..."]:
    """The value in one go: operation by operation, each would be compiled by itself."""
    return latent.value(coordinates)


class AbstractFieldPrior(eqx.Module):
    """A prior over functions that becomes an unknown once the mesh is known."""

    @abstractmethod
    def on(self, mesh: Mesh) -> AbstractLatent:
        """The unknown on a mesh."""
