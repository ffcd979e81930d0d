r"""Where does the wind blow? Sensors and the posterior of its direction, Fig. 1 (d-e).

The source is known, and how the wind turns on its way; unknown is its vector at one place,
$\tau \sim N(0, s^2 I)$, so that all directions are alike before the data are seen. Sensors see the
smoothed output of a finer mesh, with noise. Two unknowns are few enough for quadrature over exact
solves, which gives the posterior itself.
"""

from dataclasses import dataclass
from functools import lru_cache

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float, PyTree

from riesz.fem.elements.space import P1, point_operator
from riesz.fem.problem import boundary_value_problem
from riesz.fem.solve import solve
from riesz.fem.terms.coefficient import nodal
from riesz.fem.terms.weakform import WeakForm, advection, diffusion, source
from riesz.io.store.results import Row
from riesz.mesh.facets import boundary_node_mask
from riesz.mesh.mesh import Mesh
from riesz.mesh.refinement import refine
from riesz.observe.likelihood import Gaussian
from riesz.observe.observations import observations
from riesz.problem.posing import inverse_problem
from riesz.problem.problem import InverseProblem
from riesz_paper.experiments.smoother.forward import (
    DIFFUSIVITY,
    PIVOT,
    SPEED,
    VEER,
    length_of,
    noisy_source,
)
from riesz_paper.experiments.transport.exact import densities, exact_posterior

NUM_SENSORS = 30
RELATIVE_NOISE = 0.05  # of the largest output
MIDDLE = 0.5  # where the direction is told, in domain lengths from the west
TRUTH = {"tau": jnp.array([SPEED, 0.0])}
SCAN = np.linspace(-2.5, 2.5, 9)  # prior sds along each axis; as many points as the quadrature's


class VeeringWind(eqx.Module):
    """A velocity that turns evenly on the way east, in the mesh's lengths a unit time."""

    west: float = eqx.field(static=True)
    length: float = eqx.field(static=True)

    def __call__(self, x: Float[Array, " dim"], z: PyTree) -> Float[Array, " dim"]:
        turn = VEER * ((x[0] - self.west) / self.length - PIVOT)
        east, north = self.length * z["tau"]
        cosine, sine = jnp.cos(turn), jnp.sin(turn)
        return jnp.stack([cosine * east - sine * north, sine * east + cosine * north])


@dataclass(frozen=True, eq=False)
class Case:
    """A mesh and a source on it; told apart by identity, so that its posterior is kept."""

    mesh: Mesh
    seed: int


@dataclass(frozen=True)
class WindPosterior:
    """The wind's vector at the pivot: a lattice of values with their weights."""

    sensors: Float[np.ndarray, "sensor 2"]
    measured: Float[np.ndarray, " sensor"]
    velocities: Float[np.ndarray, "lattice 2"]
    weights: Float[np.ndarray, " lattice"]


def wind_of(mesh: Mesh) -> VeeringWind:
    return VeeringWind(float(mesh.nodes[:, 0].min()), length_of(mesh))


def equation(mesh: Mesh, forcing: Float[np.ndarray, " node"], wind: VeeringWind) -> WeakForm:
    smoothing = diffusion(DIFFUSIVITY * length_of(mesh) ** 2)
    return smoothing + advection(wind, supg=True) - source(nodal(forcing))


def wind_problem(mesh: Mesh, seed: int) -> InverseProblem:
    """Sensors at random nodes inside see the output of a mesh with cells of half the size."""
    rng = np.random.default_rng([seed, 1])
    forcing, wind, finer = noisy_source(mesh, seed), wind_of(mesh), refine(mesh)
    fine, fine_forcing = finer.mesh, finer.prolongation @ forcing
    truth = boundary_value_problem(P1(fine), equation(fine, fine_forcing, wind), {"boundary": 0.0})
    output = solve(truth, TRUTH)
    (inner,) = np.nonzero(~boundary_node_mask(mesh))
    sensors = mesh.nodes[rng.choice(inner, min(NUM_SENSORS, len(inner)), replace=False)]
    noise_sd = RELATIVE_NOISE * float(jnp.max(jnp.abs(output)))
    clean = np.asarray(point_operator(P1(fine), sensors) @ output)
    values = clean + noise_sd * rng.standard_normal(len(sensors))
    return inverse_problem(
        mesh,
        equation(mesh, forcing, wind),
        latents={"tau": dist.Normal(0.0, SPEED).expand([2])},
        dirichlet={"boundary": 0.0},
        observations=observations(sensors, values),
        likelihood=Gaussian(noise_sd),
    )


@lru_cache(maxsize=16)
def wind_posterior(case: Case) -> WindPosterior:
    problem = wind_problem(case.mesh, case.seed)
    seen = problem.observations
    found = exact_posterior(problem, problem.operator, start=likeliest(problem))
    return WindPosterior(seen.points, seen.values, SPEED * found.lattice, found.weights)


def likeliest(problem: InverseProblem) -> Float[np.ndarray, " coordinate"]:
    """The best of many winds: other directions may be locally best, but not by far."""
    tried = np.stack(np.meshgrid(SCAN, SCAN), axis=2).reshape(-1, 2)
    logs, _ = densities(problem, problem.operator, jnp.asarray(tried))
    return tried[int(jnp.argmax(logs))]


def directions(velocities: Float[np.ndarray, "draw 2"], place: float) -> Float[np.ndarray, " draw"]:
    """Degrees from east towards north at a place, in domain lengths from the west."""
    angle = np.arctan2(velocities[:, 1], velocities[:, 0]) + VEER * (place - PIVOT)
    return np.degrees(angle)


def circular_moments(
    degrees: Float[np.ndarray, " draw"], weights: Float[np.ndarray, " draw"]
) -> tuple[float, float]:
    """The mean direction, and the standard deviation about it on the shorter way round."""
    mean = np.degrees(np.angle(weights @ np.exp(1j * np.radians(degrees))))
    return float(mean), float(np.sqrt(weights @ turned(degrees - mean) ** 2))


def turned(degrees: Float[np.ndarray, " draw"]) -> Float[np.ndarray, " draw"]:
    """The same angles between -180 and 180 degrees."""
    return (degrees + 180) % 360 - 180


def direction_row(case: Case) -> Row:
    """What the sensors tell of the direction in the middle of the domain, in degrees."""
    found = wind_posterior(case)
    mean, sd = circular_moments(directions(found.velocities, MIDDLE), found.weights)
    truth = float(np.degrees(VEER * (MIDDLE - PIVOT)))
    return {
        "sensors": len(found.sensors),
        "direction": truth,
        "direction_mean": mean,
        "direction_sd": sd,
        "direction_error_sd": float(turned(np.array([mean - truth]))[0]) / sd,
    }


def wind_draws(found: WindPosterior, count: int) -> Float[np.ndarray, "draw 2"]:
    """Velocities for a picture, from the normal distribution with the posterior's moments."""
    mean = found.weights @ found.velocities
    gaps = found.velocities - mean
    covariance = (found.weights * gaps.T) @ gaps
    return np.random.default_rng(0).multivariate_normal(mean, covariance, count)
