r"""Steady flow under the Hanford Site: heads by finite elements, transmissivity cell by cell.

$-\nabla\cdot(e^Y \nabla u) = 0$ with known heads along the rivers, a known inflow from the hills
and closed walls elsewhere. Each quadrilateral is two triangles that share a value of $Y$.
"""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from riesz.fem.elements.domain import Domain
from riesz.fem.terms.coefficient import nodal
from riesz.fem.terms.pointwise import Point
from riesz.fem.terms.weakform import diffusion, point_source
from riesz.mesh.mesh import Mesh
from riesz.observe.likelihood import Gaussian
from riesz.observe.observations import observations
from riesz.priors.fields import AbstractField, AbstractFieldLatent, Scalar, Weights, cell_values
from riesz.priors.latent import LatentSpace
from riesz.problem.posing import inverse_problem, with_observations
from riesz.problem.problem import InverseProblem
from riesz_paper.data.hanford import HELD, INFLOW, Site
from riesz_paper.experiments.hanford.prior import CellPrior

RIVERS, UNKNOWN = "rivers", "T"


def cut_in_two(site: Site) -> Int[np.ndarray, "triangle 3"]:
    """Each quadrilateral along its shorter diagonal, and from its reflex corner if it has one."""
    corners = site.nodes[site.cells]
    ahead = np.roll(corners, -1, axis=1) - corners
    behind = np.roll(corners, 1, axis=1) - corners
    turns = ahead[..., 0] * behind[..., 1] - ahead[..., 1] * behind[..., 0]
    diagonals = np.linalg.norm(corners[:, :2] - corners[:, 2:], axis=2)
    first = np.where(turns.min(axis=1) <= 0, turns.argmin(axis=1), diagonals.argmin(axis=1))
    turned = np.take_along_axis(site.cells, (first[:, None] + np.arange(4)) % 4, axis=1)
    return turned[:, [[0, 1, 2], [0, 2, 3]]].reshape(-1, 3)


def site_mesh(site: Site) -> Mesh:
    """Triangles, two for each cell one after the other."""
    return Mesh(site.nodes, cut_in_two(site), {RIVERS: site.faces[site.kinds == HELD]})


def held_heads(site: Site) -> Float[np.ndarray, " node"]:
    """The heads at nodes of the rivers, means of the faces beside them; zero elsewhere."""
    held = site.kinds == HELD
    ends, values = site.faces[held].ravel(), np.repeat(site.values[held], 2)
    total = np.bincount(ends, values, len(site.nodes))
    return total / np.maximum(np.bincount(ends, minlength=len(site.nodes)), 1)


class CellField(AbstractField):
    """One value a quadrilateral."""

    cell_of: Int[Array, " triangle"]
    shares: Float[Array, "triangle 3"]  # each corner's share in its node
    corners: Int[Array, "triangle 3"]
    num_nodes: int = eqx.field(static=True)

    def gather(self, domain: Domain) -> PyTree[Array]:
        return self.cell_of if domain.cell is None else self.cell_of[domain.cell]

    def at(self, local: PyTree[Array], point: Point, weights: Weights) -> Scalar:
        return weights[cell_values(local, "field of cells")]

    def nodal(self, weights: Weights) -> Float[Array, " node"]:
        """The mean over the triangles around each node."""
        parts = self.shares.astype(weights.dtype) * weights[self.cell_of][:, None]
        return jnp.zeros(self.num_nodes, weights.dtype).at[self.corners].add(parts)

    @property
    def is_log(self) -> bool:
        return True

    def degree(self) -> int:
        return 0


class Transmissivity(AbstractFieldLatent):
    """The exponential of a Gaussian vector, one entry a quadrilateral."""

    field: AbstractField
    mean: Float[Array, " cell"]
    factor: Float[Array, "cell common"]
    local: Float[Array, "parent child child"] | None

    @property
    def num_coordinates(self) -> int:
        return self.factor.shape[1] + (0 if self.local is None else self.local[..., 0].size)

    def value(self, coordinates: Float[Array, " coordinate"]) -> Float[Array, " cell"]:
        count = self.factor.shape[1]
        logs = self.mean + self.factor @ coordinates[:count]
        if self.local is not None:
            rest = coordinates[count:].reshape(self.local.shape[:2])
            logs = logs + jnp.einsum("pcd,pd->pc", self.local, rest).reshape(logs.shape)
        return jnp.exp(logs)

    def describe(self) -> str:
        return f"exponential of a Gaussian process at {len(self.mean)} cells"


def cell_field(mesh: Mesh) -> CellField:
    counts = np.bincount(mesh.cells.ravel(), minlength=mesh.num_nodes)
    return CellField(
        jnp.asarray(np.arange(mesh.num_cells) // 2, jnp.int32),
        jnp.asarray(1 / counts[mesh.cells]),
        jnp.asarray(mesh.cells, jnp.int32),
        mesh.num_nodes,
    )


def flow_problem(site: Site, prior: CellPrior) -> InverseProblem:
    """Heads at the wells, not measured yet, and the transmissivity that they would tell of."""
    mesh = site_mesh(site)
    inflow = site.kinds == INFLOW
    # Half of what a face lets in goes to either end: that is its load on linear functions.
    into, rates = site.nodes[site.faces[inflow].ravel()], np.repeat(site.values[inflow] / 2, 2)
    return inverse_problem(
        mesh,
        diffusion(UNKNOWN) - point_source(into, rates),
        latents={UNKNOWN: transmissivity(cell_field(mesh), prior)},
        dirichlet={RIVERS: nodal(held_heads(site))},
        observations=observations(site.centroids[site.wells], np.zeros(len(site.wells))),
        likelihood=Gaussian(np.ones(len(site.wells))),
    )


def transmissivity(field: CellField, prior: CellPrior) -> Transmissivity:
    local = None if prior.local is None else jnp.asarray(prior.local)
    return Transmissivity(field, jnp.asarray(prior.mean), jnp.asarray(prior.factor), local)


def measured(
    site: Site,
    problem: InverseProblem,
    prior: CellPrior,
    heads: Float[np.ndarray, " well"],
    noise_sd: float,
) -> InverseProblem:
    """The same with heads and another prior: what is compiled for one serves all of its size."""
    field = cell_field(problem.forward.space.mesh)
    space = LatentSpace({UNKNOWN: transmissivity(field, prior)}, (UNKNOWN,))
    return with_observations(
        dataclasses.replace(problem, latents=space),
        observations(site.centroids[site.wells], heads),
        Gaussian(np.full(len(heads), noise_sd)),
    )
