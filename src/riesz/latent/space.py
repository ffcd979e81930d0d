"""All unknowns of a problem side by side in one vector of standard normal coordinates."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Bool, Float

from riesz.errors import RieszError
from riesz.latent.latent import AbstractFieldPrior, AbstractLatent
from riesz.latent.parametric import parametric
from riesz.mesh.mesh import Mesh


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

    def z(self, coordinates: Float[Array, " coordinate"]) -> dict[str, Float[Array, "..."]]:
        """The values of all unknowns, as equations read them."""
        return {
            name: self.latents[name].value(coordinates[part])
            for name, part in self.slices().items()
        }

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
