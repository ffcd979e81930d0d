"""Unknowns: priors written as functions of independent standard normal coordinates.

With such coordinates every method sees the same prior, N(0, I), whatever the units, bounds and
correlations of the quantities themselves (the non-centred parametrisation, Papaspiliopoulos,
Roberts & Skold 2007). Numbers and vectors have a prior from NumPyro; all unknowns stand side by
side in one vector of coordinates.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Bool, Float, PyTree
from scipy.special import ndtr

from riesz.arrays import on_device
from riesz.errors import RieszError
from riesz.fem.terms.coefficient import AbstractCoefficient, Latent
from riesz.mesh.mesh import Mesh
from riesz.priors.transport import AbstractTransport, ByQuantiles, ByTable, plain, transport

Z = dict[str, PyTree[Float[Array, "..."]]]
"""What equations read, by the names of the unknowns."""

ManyZ = dict[str, PyTree[Float[Array, "draw ..."]]]
"""The same of many draws."""


class AbstractLatent(eqx.Module):
    """One unknown of an inverse problem with its prior."""

    description = ""
    """The prior in a few words, in physical units."""

    num_scales = 0
    """How many of its coordinates, the first ones, are scales of what the others make."""

    @property
    @abstractmethod
    def num_coordinates(self) -> int:
        """How many standard normal coordinates it has."""

    @abstractmethod
    def value(self, coordinates: Float[Array, " coordinate"]) -> Float[Array, "..."]:
        """For these coordinates: a number, a vector, or the weights of a field."""

    def entry(self, value: Float[Array, "..."]) -> PyTree[Float[Array, "..."]]:
        """What `z` holds for a value, under the unknown's name."""
        return value

    def display_value(self, entry: PyTree[Float[Array, "..."]]) -> Float[Array, "..."]:
        """The quantity itself, for what `z` holds of it: a field at the nodes."""
        return jnp.asarray(entry)

    def value_given(
        self, scales: Float[Array, " scale"], rest: Float[Array, " rest"]
    ) -> Float[Array, "..."]:
        """The value by its two kinds of coordinates: derivatives by one leave the other alone."""
        return self.value(jnp.concatenate([scales, rest]))

    def of_draws(
        self, draws: Float[np.ndarray, "draw coordinate"]
    ) -> Float[np.ndarray, " draw *value"] | None:
        """Values for many draws, on the host; None where a program is as good."""
        return None

    def coefficient(self, name: str) -> AbstractCoefficient:
        """What stands in an equation where the unknown is named."""
        return Latent(name)

    def labels(self) -> tuple[str, ...]:
        """A word for each coordinate, to tell them apart."""
        return tuple(map(str, range(self.num_coordinates)))

    def describe(self) -> str:
        return self.description


@eqx.filter_jit
def value_of(
    latent: AbstractLatent, coordinates: Float[Array, " coordinate"]
) -> Float[Array, "..."]:
    """The value in one go: operation by operation, each would be compiled by itself."""
    return latent.value(coordinates)


@eqx.filter_jit
def values_of_draws(
    latents: dict[str, AbstractLatent], draws: dict[str, Float[Array, "draw _"]]
) -> dict[str, Float[Array, " draw *value"]]:
    """One draw after the other: those of a field may take a factorisation each."""
    return jax.lax.map(lambda own: {n: latents[n].value(one) for n, one in own.items()}, draws)


class AbstractFieldPrior(eqx.Module):
    """A prior over functions that becomes an unknown once the mesh is known."""

    @abstractmethod
    def on(self, mesh: Mesh) -> AbstractLatent:
        """The unknown on a mesh."""


class Parametric(AbstractLatent):
    """A number or vector with a distribution of NumPyro."""

    distribution: dist.Distribution
    transport: AbstractTransport  # of coordinates to it

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.distribution.shape())

    @property
    def num_coordinates(self) -> int:
        return self.transport.num_coordinates

    def value(self, coordinates: Float[Array, " coordinate"]) -> Float[Array, "..."]:
        return self.transport(coordinates).astype(coordinates.dtype)

    def where_all_are(self, place: float) -> Float[Array, "..."]:
        """The value where every coordinate is the same."""
        return value_of(self, on_device(np.full(self.num_coordinates, place)))

    def levels(self) -> Float[np.ndarray, "level ..."]:
        """Quantiles by which it is told, of each entry by itself."""
        prior = self.distribution
        if isinstance(prior, dist.MultivariateNormal):
            return np.stack([prior.mean + place * prior.variance**0.5 for place in PLACES])
        if isinstance(self.transport, ByQuantiles | ByTable) or self.num_coordinates == 1:
            result = np.stack([np.asarray(self.where_all_are(place)) for place in PLACES])
            return np.sort(result, axis=0)  # a transform may fall with the coordinate
        normals = np.random.default_rng(0).normal(size=(NUM_DRAWS, self.num_coordinates))
        draws = values_of_draws({"own": self}, {"own": on_device(normals)})["own"]
        return np.quantile(np.asarray(draws), ndtr(PLACES), axis=0)

    def describe(self) -> str:
        low, middle, high = (format_values(np.asarray(one)) for one in self.levels())
        return f"{kind_of(self.distribution)}, 95 % within {low} .. {high}, median {middle}"


PLACES = (-1.96, 0.0, 1.96)
NUM_DRAWS = 4000
"""For quantiles of numbers that come together."""


def parametric(prior: dist.Distribution, name: str) -> Parametric:
    """The unknown for a NumPyro distribution, found to be usable."""
    if prior.is_discrete:
        raise RieszError(
            f"the prior of {name!r} is a {kind_of(prior)}, over whole numbers: unknowns must be "
            "able to move a little, so give a continuous one."
        )
    if math.prod(prior.shape()) == 0:
        raise RieszError(f"the prior of {name!r} has shape {prior.shape()}: it holds no number.")
    latent = Parametric(prior, transport(prior, name))
    middle = latent.where_all_are(0.0)
    if middle.shape != latent.shape:
        raise RieszError(f"the prior of {name!r} gives shape {middle.shape}, not {latent.shape}.")
    if not np.isfinite(middle).all():
        raise RieszError(f"the prior of {name!r} has the median {middle}: check its parameters.")
    if isinstance(latent.transport, ByQuantiles) and kind_of(prior) != "MultivariateNormal":
        low, high = (latent.where_all_are(place) for place in (-1.0, 1.0))
        if not np.all(np.asarray(low) < np.asarray(high)):
            raise RieszError(
                f"the prior of {name!r} goes from {format_values(low)} to {format_values(high)} "
                "within a standard deviation: its parameters are reversed, or leave it no room."
            )
    return latent


def kind_of(prior: dist.Distribution) -> str:
    return type(plain(prior)).__name__


def format_values(values: Float[Array | np.ndarray, "..."]) -> str:
    if values.ndim == 0:
        return f"{float(values):.4g}"
    return "(" + ", ".join(f"{v:.4g}" for v in np.asarray(values).ravel()) + ")"


class LatentSpace(eqx.Module):
    """Named unknowns; their coordinates follow one another in the order of the names given."""

    latents: dict[str, AbstractLatent]
    names: tuple[str, ...] = eqx.field(static=True)

    @property
    def num_coordinates(self) -> int:
        return sum(self.latents[name].num_coordinates for name in self.names)

    def slices(self) -> dict[str, slice]:
        """Where each unknown's coordinates stand."""
        counts = [self.latents[name].num_coordinates for name in self.names]
        starts = np.cumsum([0, *counts]).tolist()
        return {
            name: slice(start, start + count)
            for name, start, count in zip(self.names, starts, counts, strict=False)
        }

    def are_scales(self) -> Bool[np.ndarray, " coordinate"]:
        """Which coordinates are scales of what others make."""
        marks = np.zeros(self.num_coordinates, dtype=bool)
        for name, part in self.slices().items():
            marks[part.start : part.start + self.latents[name].num_scales] = True
        return marks

    def z(self, coordinates: Float[Array, " coordinate"]) -> Z:
        """The values of all unknowns, as equations read them."""
        return self.entries(
            {
                name: self.latents[name].value(coordinates[part])
                for name, part in self.slices().items()
            }
        )

    def entries(self, values: Mapping[str, Float[Array, "..."]]) -> Z:
        """`z` from the value of each unknown, or from those of many draws."""
        return {name: self.latents[name].entry(value) for name, value in values.items()}

    def of_draws(
        self, draws: Float[Array, "draw coordinate"]
    ) -> dict[str, Float[Array, " draw *value"]]:
        """The values for many draws, a first axis each; asked for by Python, not in a program."""
        parts = {name: draws[:, part] for name, part in self.slices().items()}
        by_host = {n: self.latents[n].of_draws(np.asarray(own, float)) for n, own in parts.items()}
        left = {n: own for n, own in parts.items() if by_host[n] is None}
        result = values_of_draws({name: self.latents[name] for name in left}, left) if left else {}
        for name, values in by_host.items():
            if values is not None:
                result[name] = on_device(values, draws.dtype)
        return result

    def log_prior(self, coordinates: Float[Array, " coordinate"]) -> Float[Array, ""]:
        """The log-density of the coordinates: standard normal."""
        return -0.5 * jnp.sum(coordinates**2 + jnp.log(2 * jnp.pi))

    def coordinate_names(self) -> tuple[str, ...]:
        """A readable name for each coordinate."""
        return tuple(
            name if self.latents[name].num_coordinates == 1 else f"{name}[{label}]"
            for name in self.names
            for label in self.latents[name].labels()
        )


def latent_space(priors: Mapping[str, Any], mesh: Mesh) -> LatentSpace:
    """The unknowns for named priors: NumPyro distributions, or priors over fields."""
    if not priors:
        raise RieszError("there are no unknowns: give at least one latent with a prior.")
    return LatentSpace(
        {name: as_latent(p, name, mesh) for name, p in priors.items()}, tuple(priors)
    )


def as_latent(prior: Any, name: str, mesh: Mesh) -> AbstractLatent:
    if isinstance(prior, AbstractLatent):
        return prior
    if isinstance(prior, AbstractFieldPrior):
        return prior.on(mesh)
    if isinstance(prior, dist.Distribution):
        return parametric(prior, name)
    raise RieszError(
        f"the prior of {name!r} is a {type(prior).__name__}: give a NumPyro distribution, such as "
        "numpyro.distributions.Normal(0.0, 1.0), or a prior over fields."
    )
