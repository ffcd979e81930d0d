r"""Physics that is only partly right: strengths of sixteen districts, and an eddy nobody knows of.

$-\Delta u + w\,c(x)\cdot\nabla u = f$ on the unit square with $u = 0$ on its boundary. The source
$f$ has an unknown strength in each of 4 x 4 districts, N(1, 1) before the data are seen. An eddy
turns about a random centre, $c(x) = e^{-|d|^2/2\ell^2}\,(-d_2, d_1)/\ell$ with $d$ the way from
there, and $w \sim N(0, 20^2)$: in some data sets it hardly matters, in others it outruns diffusion.
The model under test lacks that term. The oracle has it, with centre and shape given and $w$ unknown
with its true prior. The data come from a mesh finer than the fitted one.
"""

import dataclasses
from dataclasses import dataclass
from functools import lru_cache

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float, PyTree

from riesz.fem.elements.space import P1, point_operator
from riesz.fem.problem import BoundaryValueProblem, boundary_value_problem, with_form
from riesz.fem.solve import solve
from riesz.fem.terms.weakform import WeakForm, advection, diffusion, source
from riesz.mesh.refinement import Hierarchy, hierarchy
from riesz.mesh.shapes import rectangle
from riesz.observe.likelihood import Gaussian
from riesz.observe.observations import observations
from riesz.problem.posing import inverse_problem, with_observations
from riesz.problem.problem import InverseProblem

DISTRICTS = 4  # along each side
STRENGTH, STRENGTH_SD = 1.0, 1.0
EDDY_SD = 20.0
EDDY_SIZE = 0.2
EDDY_CENTRES = (0.3, 0.7)  # of both coordinates
NUM_SENSORS = 50
NUM_VALIDATION = 200
RELATIVE_NOISE = 0.02
MARGIN = 0.05  # of sensors and validation points from the boundary
LEVELS = 4  # nested meshes: 33 x 33 nodes are fitted
DATA_LEVELS = 6  # 129 x 129 nodes


class Eddy(eqx.Module):
    """The velocity about a centre; the strength is the unknown `w`."""

    centre: Float[Array, " 2"]

    def __call__(self, x: Float[Array, " 2"], z: PyTree) -> Float[Array, " 2"]:
        away = x - self.centre
        fading = jnp.exp(-(away @ away) / (2 * EDDY_SIZE**2))
        return z["w"] * fading * jnp.stack([-away[1], away[0]]) / EDDY_SIZE


@dataclass(frozen=True)
class DataSet:
    """What was measured, and the truth behind it."""

    strengths: Float[np.ndarray, " district"]
    centre: Float[np.ndarray, " 2"]  # of the eddy
    turning: float  # its strength w
    points: Float[np.ndarray, "sensor 2"]
    values: Float[np.ndarray, " sensor"]
    noise_sd: float
    validation_points: Float[np.ndarray, "validation 2"]
    validation_values: Float[np.ndarray, " validation"]  # without noise


def strength(x: Float[Array, " 2"], z: PyTree) -> Float[Array, ""]:
    """Of the source, that of the district around a point."""
    column, row = jnp.clip(jnp.floor(DISTRICTS * x), 0, DISTRICTS - 1).astype(int)
    return z["f"][DISTRICTS * row + column]


def equation() -> WeakForm:
    """What the model knows."""
    return diffusion(1.0) - source(strength)


def true_equation(centre: Float[np.ndarray, " 2"]) -> WeakForm:
    return equation() + advection(Eddy(jnp.asarray(centre)))


@lru_cache(maxsize=4)
def meshes(levels: int) -> Hierarchy:
    """From 5 x 5 nodes on, so that districts end where cells do."""
    return hierarchy(rectangle((DISTRICTS, DISTRICTS)), levels)


@lru_cache(maxsize=2)
def data_problem(levels: int) -> BoundaryValueProblem:
    """The true equation on the mesh that makes the data, with an eddy in the middle."""
    mesh = meshes(levels).meshes[-1]
    return boundary_value_problem(P1(mesh), true_equation(np.full(2, 0.5)), {"boundary": 0.0})


@lru_cache(maxsize=64)
def data_set(seed: int, replicate: int) -> DataSet:
    """Strengths and an eddy from their priors, and what sensors at random places see."""
    rng = np.random.default_rng([seed, replicate])
    strengths = STRENGTH + STRENGTH_SD * rng.standard_normal(DISTRICTS**2)
    turning = float(EDDY_SD * rng.standard_normal())
    centre = rng.uniform(*EDDY_CENTRES, size=2)
    points, validation_points = (
        rng.uniform(MARGIN, 1 - MARGIN, size=(count, 2)) for count in (NUM_SENSORS, NUM_VALIDATION)
    )
    problem = with_form(data_problem(DATA_LEVELS), true_equation(centre))
    state = solve(problem, {"f": jnp.asarray(strengths), "w": jnp.asarray(turning)})
    clean, truth = (
        np.asarray(point_operator(problem.space, x) @ state) for x in (points, validation_points)
    )
    noise_sd = RELATIVE_NOISE * float(np.abs(clean).max())
    values = clean + noise_sd * rng.standard_normal(NUM_SENSORS)
    return DataSet(strengths, centre, turning, points, values, noise_sd, validation_points, truth)


@lru_cache(maxsize=4)
def template(*, knows_eddy: bool, levels: int) -> InverseProblem:
    """The problem with dummy data: data sets share what is compiled for it."""
    form = true_equation(np.full(2, 0.5)) if knows_eddy else equation()
    latents: dict[str, dist.Distribution] = {
        "f": dist.Normal(STRENGTH, STRENGTH_SD).expand([DISTRICTS**2])
    }
    if knows_eddy:
        latents["w"] = dist.Normal(0.0, EDDY_SD)
    return inverse_problem(
        meshes(levels),
        form,
        latents=latents,
        dirichlet={"boundary": 0.0},
        observations=observations(data_set(0, 0).points, np.ones(NUM_SENSORS)),
        likelihood=Gaussian(np.ones(NUM_SENSORS)),
    )


def posed(data: DataSet, *, knows_eddy: bool) -> InverseProblem:
    """The inverse problem of a data set: the model's, or with the true equation the oracle's."""
    problem = template(knows_eddy=knows_eddy, levels=LEVELS)
    if knows_eddy:
        forward = with_form(problem.forward, true_equation(data.centre))
        problem = dataclasses.replace(problem, forward=forward)
    noise = Gaussian(np.full(NUM_SENSORS, data.noise_sd))
    return with_observations(problem, observations(data.points, data.values), noise)
