r"""Sixty-four unknowns: a diffusivity that is constant on the 8 x 8 blocks of a square.

$-\nabla\cdot(a \nabla u) = 10$ on the unit square with $u = 0$ on its boundary, seen at the 13 x 13
points $(k/14, l/14)$ with noise of standard deviation 0.05. Before that, each $\log a$ is
$N(0, 2^2)$. The set-up is that of Aristoff and Bangerth's benchmark of Bayesian inversion (2023,
SIAM Review 65(4)); data here are our own, from a mesh of triangles eight times finer.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Float

from riesz.fem.terms.weakform import diffusion, source
from riesz.mesh.mesh import Mesh
from riesz.mesh.refinement import hierarchy
from riesz.mesh.shapes import rectangle
from riesz.mesh.tags import tag_region
from riesz.observe.likelihood import Gaussian
from riesz.observe.observations import observations
from riesz.priors.regions import Regions
from riesz.problem.posing import inverse_problem
from riesz.problem.problem import InverseProblem

NUM_BLOCKS = 8
"""Along each side."""

PRIOR_SD = 2.0
"""Of the logarithm of the diffusivity."""

NOISE_SD = 0.05

LEVELS = 3
"""Nested meshes from one square a block on: 33 x 33 nodes."""

FINER = 3
"""Refinements between the fitted mesh and the one that makes the data."""


def true_diffusivity() -> Float[np.ndarray, "row column"]:
    """One, but for a tenth in rows and columns 2 and 3, and ten in 6 and 7 (from 1 on)."""
    values = np.ones((NUM_BLOCKS, NUM_BLOCKS))
    values[1:3, 1:3] = 0.1
    values[5:7, 5:7] = 10.0
    return values


def block_name(row: int, column: int) -> str:
    """Rows go up with y and columns with x, both from 1 on."""
    return f"row {row} column {column}"


def block_mesh() -> Mesh:
    """One square a block, each a region of its own, row by row."""
    mesh, side = rectangle((NUM_BLOCKS, NUM_BLOCKS)), 1 / NUM_BLOCKS
    corners = np.array([[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]])
    for row in range(NUM_BLOCKS):
        for column in range(NUM_BLOCKS):
            square = side * (corners + np.array([column, row]))
            mesh = tag_region(mesh, block_name(row + 1, column + 1), square)
    return mesh


def sensors() -> Float[np.ndarray, "sensor 2"]:
    ticks = np.arange(1, 14) / 14
    return np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)


def posed(levels: int, values: Any) -> InverseProblem:
    """The problem with these measurements, on so many nested meshes."""
    return inverse_problem(
        hierarchy(block_mesh(), levels),
        diffusion("a") - source(10.0),
        latents={"a": Regions(dist.LogNormal(0.0, PRIOR_SD))},
        dirichlet={"boundary": 0.0},
        observations=observations(sensors(), values),
        likelihood=Gaussian(NOISE_SD),
    )


def measured(problem: InverseProblem, seed: int) -> Float[np.ndarray, " sensor"]:
    """What the sensors of a problem would read for the true diffusivity."""
    truth = jnp.asarray(np.log(true_diffusivity()).ravel() / PRIOR_SD)
    clean = np.asarray(problem.operator @ problem.state(truth))
    return clean + NOISE_SD * np.random.default_rng(seed).normal(size=len(clean))


def block_problem(seed: int, *, levels: int = LEVELS) -> InverseProblem:
    """The problem with data from a mesh that is eight times finer."""
    finer = posed(levels + FINER, np.zeros(len(sensors())))
    return posed(levels, measured(finer, seed))
