"""One unknown number for each region of the mesh: rock types, land uses, layers."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpyro.distributions as dist
from jaxtyping import Array, Float, Int, PyTree

from riesz.errors import RieszError
from riesz.fem.elements.domain import Domain
from riesz.fem.terms.pointwise import Point
from riesz.mesh.mesh import Mesh
from riesz.mesh.tags import REST, node_shares, region_of_cells
from riesz.priors.fields import AbstractField, AbstractFieldLatent, Scalar, Weights, cell_values
from riesz.priors.latent import AbstractFieldPrior, Parametric, parametric


class PiecewiseConstant(AbstractField):
    """One weight a region, the same at all points of its cells."""

    region: Int[Array, " cell"]
    shares: Float[Array, "node region"]  # of the volume around each node

    def gather(self, domain: Domain) -> PyTree[Array]:
        return self.region if domain.cell is None else self.region[domain.cell]

    def at(self, local: PyTree[Array], point: Point, weights: Weights) -> Scalar:
        return weights[cell_values(local, "field of regions")]

    def nodal(self, weights: Weights) -> Float[Array, " node"]:
        """At a node between regions, the mean over the cells around it."""
        return self.shares.astype(weights.dtype) @ weights

    def degree(self) -> int:
        return 0


class RegionValues(AbstractFieldLatent):
    """Independent unknown numbers, one a region."""

    field: AbstractField
    names: tuple[str, ...] = eqx.field(static=True)
    priors: tuple[Parametric, ...]

    @property
    def num_coordinates(self) -> int:
        return len(self.names)

    def value(self, coordinates: Float[Array, " coordinate"]) -> Float[Array, " region"]:
        return jnp.stack([p.value(coordinates[i : i + 1]) for i, p in enumerate(self.priors)])

    def labels(self) -> tuple[str, ...]:
        return self.names

    def describe(self) -> str:
        parts = [f"{n}: {p.describe()}" for n, p in zip(self.names, self.priors, strict=True)]
        return "one value a region; " + "; ".join(parts)


class Regions(AbstractFieldPrior):
    """An unknown number for each region of the mesh (see `riesz.mesh.tag_region`).

    `priors` is one NumPyro distribution for all regions, or a mapping from their names; `rest` is
    the prior of the value in all cells that are in none of these regions.
    """

    priors: Any
    rest: Any = None

    def on(self, mesh: Mesh) -> RegionValues:
        priors = self.by_region(mesh)
        region = region_of_cells(mesh, tuple(priors), has_rest=self.rest is not None)
        if self.rest is not None and (region == len(priors)).any():
            priors[REST] = self.rest
        return RegionValues(
            field=PiecewiseConstant(
                jnp.asarray(region, dtype=jnp.int32),
                jnp.asarray(node_shares(mesh, region, len(priors))),
            ),
            names=tuple(priors),
            priors=tuple(scalar_prior(prior, name) for name, prior in priors.items()),
        )

    def by_region(self, mesh: Mesh) -> dict[str, Any]:
        if isinstance(self.priors, Mapping):
            return dict(self.priors)
        if not mesh.regions:
            raise RieszError(
                "the mesh has no regions: tag some by tag_region(mesh, name, polygon), "
                "[regions.NAME] in a problem file, or give the distribution itself for one number "
                "everywhere."
            )
        return dict.fromkeys(mesh.regions, self.priors)


def scalar_prior(prior: Any, name: str) -> Parametric:
    if not isinstance(prior, dist.Distribution):
        raise RieszError(
            f"the prior of region {name!r} is a {type(prior).__name__}: give a NumPyro "
            "distribution."
        )
    latent = parametric(prior, name)
    if latent.shape != ():
        raise RieszError(
            f"the prior of region {name!r} has shape {latent.shape}: give one of a single number."
        )
    return latent
