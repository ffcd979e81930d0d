r"""The forward map of Fig. 1: a noisy source that a wind carries and diffusion smooths.

$-\nabla\cdot(a\,\nabla u) + \tau\cdot\nabla u = f$ with $u = 0$ on the boundary of an irregular
domain, whose longest side is the unit of length.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from riesz.fem.assembly import matrix
from riesz.fem.elements.space import P1
from riesz.fem.problem import BoundaryValueProblem, boundary_value_problem
from riesz.fem.terms.coefficient import nodal
from riesz.fem.terms.weakform import advection, diffusion, reaction, source
from riesz.mesh.facets import boundary_node_mask
from riesz.mesh.mesh import Mesh
from riesz.mesher.polygon import mesh_from_polygon
from riesz_paper.data.synthetic import aquifer_outline

DIFFUSIVITY = 2e-3  # in domain lengths squared a unit time
SPEED = 0.1  # domain lengths a unit time
VEER = 0.6 * np.pi  # by so much the wind turns along the domain
PIVOT = 0.3  # there, in domain lengths from the west, it blows due east
NUM_PUFFS = 6


def outline_mesh(max_edge: float) -> Mesh:
    """The synthetic aquifer's outline with its longest side as the unit."""
    outline = aquifer_outline()
    low = outline.min(axis=0)
    return mesh_from_polygon((outline - low) / np.ptp(outline, axis=0).max(), max_edge=max_edge)


def length_of(mesh: Mesh) -> float:
    """The longer side of the box around a mesh."""
    return float(np.ptp(mesh.nodes, axis=0).max())


def unit_nodes(mesh: Mesh) -> Float[np.ndarray, "node 2"]:
    """Nodes in domain lengths."""
    return (mesh.nodes - mesh.nodes.min(axis=0)) / length_of(mesh)


def noisy_source(mesh: Mesh, seed: int) -> Float[np.ndarray, " node"]:
    """Puffs at random nodes inside plus noise at every node."""
    rng = np.random.default_rng(seed)
    (inner,) = np.nonzero(~boundary_node_mask(mesh))
    x = unit_nodes(mesh)
    centres = x[rng.choice(inner, NUM_PUFFS)]
    widths, heights = rng.uniform(0.02, 0.06, NUM_PUFFS), rng.uniform(0.5, 1.5, NUM_PUFFS)
    distances = np.linalg.norm(x[:, None] - centres, axis=2)
    puffs = (heights * np.exp(-0.5 * (distances / widths) ** 2)).sum(axis=1)
    return puffs + 0.3 * rng.standard_normal(mesh.num_nodes)


def wind(mesh: Mesh) -> Float[np.ndarray, "node 2"]:
    """A wind that veers along the domain, in the mesh's lengths a unit time."""
    angle = VEER * (unit_nodes(mesh)[:, 0] - PIVOT)
    return SPEED * length_of(mesh) * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def forward_problem(mesh: Mesh) -> BoundaryValueProblem:
    """The smoothing equation, with the source's nodal values as the latent `f`."""
    smoothing = diffusion(DIFFUSIVITY * length_of(mesh) ** 2)
    form = smoothing + advection(nodal(wind(mesh)), supg=True) - source("f")
    return boundary_value_problem(P1(mesh), form, {"boundary": 0.0})


def roughness(mesh: Mesh, values: Float[np.ndarray, " node"]) -> float:
    r"""$L\,|\nabla u|_{L^2}/|u|_{L^2}$, with the domain's length $L$: larger means rougher."""
    state = jnp.asarray(values)
    stiffness, mass = matrix(mesh, diffusion(1.0)), matrix(mesh, reaction(1.0))
    return length_of(mesh) * float(
        jnp.sqrt((state @ (stiffness @ state)) / (state @ (mass @ state)))
    )
