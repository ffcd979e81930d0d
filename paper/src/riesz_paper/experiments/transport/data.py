r"""The transport problem of Fig. 4: sensors, noise, and the meshes that it is solved on.

$-\Delta u + \tau\cdot\nabla u = 1$ with $u = 0$ on the boundary and $\tau \sim N(0, 3^2 I)$. The
data come from a mesh finer than any that is fitted; noise is two per cent of the largest value.
"""

from dataclasses import dataclass
from functools import lru_cache

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Float

from riesz.fem.elements.space import P1, P2, Space, point_operator
from riesz.fem.problem import BoundaryValueProblem, boundary_value_problem
from riesz.fem.solve import solve
from riesz.fem.terms.weakform import WeakForm, advection, diffusion, source
from riesz.mesh.mesh import Mesh
from riesz.mesh.refinement import Hierarchy, hierarchy
from riesz.mesh.shapes import rectangle
from riesz.mesher.polygon import mesh_from_polygon
from riesz.observe.likelihood import Gaussian
from riesz.observe.observations import observations
from riesz.problem.posing import inverse_problem, with_observations
from riesz.problem.problem import InverseProblem

PRIOR_SD = 3.0
NUM_SENSORS = 25
NUM_VALIDATION = 200
RELATIVE_NOISE = 0.02
CENTRE, RADIUS = 0.5, 0.5  # of the disc, and of the circle that sensors keep away from
DISC_SIDES, DISC_EDGE = 16, 0.3  # of the polygon, and its coarsest cells
DATA_LEVELS = {"square": 8, "disc": 7}  # meshes in the family that ends in the data's: 513^2 nodes
FINEST_LEVELS = 5  # with quadratic elements: more accurate than linear ones on 257^2 nodes


@dataclass(frozen=True)
class Case:
    """One data set, and the mesh that it is fitted on."""

    domain: str  # "square", or the unstructured "disc"
    levels: int  # nested meshes; on the square from 5 x 5 nodes on
    replicate: int
    seed: int

    def fit_seed(self) -> int:
        """For initialisations and draws, apart from that of the data."""
        return int(np.random.default_rng([self.seed, self.replicate, 1]).integers(2**31))


@dataclass(frozen=True)
class DataSet:
    """What was measured, and what is known of the truth behind it."""

    velocity: Float[np.ndarray, " dim"]
    points: Float[np.ndarray, "sensor dim"]
    values: Float[np.ndarray, " sensor"]
    noise_sd: float
    validation_points: Float[np.ndarray, "validation dim"]
    validation_values: Float[np.ndarray, " validation"]  # without noise


def equation() -> WeakForm:
    return diffusion(1.0) + advection("tau") - source(1.0)


def coarsest_mesh(domain: str) -> Mesh:
    if domain == "square":
        return rectangle((4, 4))
    angles = 2 * np.pi * np.arange(DISC_SIDES) / DISC_SIDES
    outline = CENTRE + RADIUS * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return mesh_from_polygon(outline, max_edge=DISC_EDGE)


@lru_cache(maxsize=8)
def mesh_family(domain: str, levels: int) -> Hierarchy:
    return hierarchy(coarsest_mesh(domain), levels)


def num_nodes(domain: str, levels: int) -> int:
    """Nodes of the finest mesh; those of the square without building it."""
    if domain == "square":
        return (2 ** (levels + 1) + 1) ** 2
    return mesh_family(domain, levels).meshes[-1].num_nodes


@lru_cache(maxsize=2)
def data_problem(domain: str) -> BoundaryValueProblem:
    """The equation on the mesh that makes the data, one that nothing is fitted on."""
    mesh = mesh_family(domain, DATA_LEVELS[domain]).meshes[-1]
    return boundary_value_problem(P1(mesh), equation(), {"boundary": 0.0})


@lru_cache(maxsize=64)
def data_set(domain: str, seed: int, replicate: int) -> DataSet:
    """A velocity from the prior, and what sensors at random places see of its solution."""
    rng = np.random.default_rng([seed, replicate])
    velocity = PRIOR_SD * rng.standard_normal(2)
    points = random_points(rng, domain, NUM_SENSORS)
    validation_points = random_points(rng, domain, NUM_VALIDATION)
    problem = data_problem(domain)
    state = solve(problem, {"tau": jnp.asarray(velocity)})
    clean, truth = (
        np.asarray(point_operator(problem.space, x) @ state) for x in (points, validation_points)
    )
    noise_sd = RELATIVE_NOISE * float(np.abs(clean).max())
    values = clean + noise_sd * rng.standard_normal(NUM_SENSORS)
    return DataSet(velocity, points, values, noise_sd, validation_points, truth)


def random_points(
    rng: np.random.Generator, domain: str, count: int
) -> Float[np.ndarray, "point 2"]:
    """Places inside the domain, away from its boundary by a twentieth of its width or more."""
    inside = 0.9 * (rng.uniform(size=(20 * count, 2)) - 0.5)
    if domain == "disc":
        inside = inside[np.linalg.norm(inside, axis=1) < 0.45]
    return CENTRE + inside[:count]


@lru_cache(maxsize=4)
def template(domain: str, levels: int) -> InverseProblem:
    """The problem on one mesh with dummy data: replicates share what is compiled for it."""
    return with_dummy_data(mesh_family(domain, levels), domain)


def with_dummy_data(mesh: Hierarchy | Space, domain: str) -> InverseProblem:
    points = random_points(np.random.default_rng(0), domain, NUM_SENSORS)
    return inverse_problem(
        mesh,
        equation(),
        latents={"tau": dist.Normal(0.0, PRIOR_SD).expand([2])},
        dirichlet={"boundary": 0.0},
        observations=observations(points, np.ones(NUM_SENSORS)),
        likelihood=Gaussian(np.ones(NUM_SENSORS)),
    )


def noise(data: DataSet) -> Gaussian:
    """As an array, so that data sets with other noise need no compilation."""
    return Gaussian(np.full(len(data.values), data.noise_sd))


def posed(case: Case) -> tuple[InverseProblem, DataSet]:
    """The inverse problem of a case, and its data."""
    data = data_set(case.domain, case.seed, case.replicate)
    problem = template(case.domain, case.levels)
    return with_observations(problem, observations(data.points, data.values), noise(data)), data


@lru_cache(maxsize=2)
def finest_template(domain: str) -> InverseProblem:
    """The problem with quadratic elements, whose error is far below that of every fitted mesh."""
    return with_dummy_data(P2(mesh_family(domain, FINEST_LEVELS).meshes[-1]), domain)


def posed_finest(domain: str, data: DataSet) -> InverseProblem:
    seen = observations(data.points, data.values)
    return with_observations(finest_template(domain), seen, noise(data))
