r"""Where does the wind blow? Sensors and the posterior of its direction, Fig. 1 (d-e).

The source is known; unknown are the wind's vector at one place, $\tau \sim N(0, s^2 I)$ so that all
directions are alike before the data are seen, and by how much it turns along the domain. Sensors
see the smoothed output of a finer mesh, with noise. Three unknowns are few enough for quadrature
over exact solves, which gives the posterior itself.
"""

from dataclasses import dataclass
from functools import lru_cache

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float, PyTree

from riesz.experiments.smoother_forward import (
    DIFFUSIVITY,
    PIVOT,
    SPEED,
    VEER,
    length_of,
    noisy_source,
)
from riesz.experiments.transport_exact import exact_posterior
from riesz.fem.coefficient import nodal
from riesz.fem.interpolate import point_operator
from riesz.fem.problem import boundary_value_problem
from riesz.fem.solve import solve
from riesz.fem.space import P1
from riesz.fem.weakform import WeakForm, advection, diffusion, source
from riesz.infer.problem import InverseProblem, inverse_problem
from riesz.io.results import Row
from riesz.mesh.facets import boundary_node_mask
from riesz.mesh.mesh import Mesh
from riesz.mesh.refine import refine
from riesz.observe.likelihood import Gaussian
from riesz.observe.observations import observations

NUM_SENSORS = 30
RELATIVE_NOISE = 0.05  # of the largest output
VEER_SD = 2.0  # radians along the domain, before the data are seen
MIDDLE = 0.5  # where the direction is told, in domain lengths from the west
TRUTH = {"tau": jnp.array([SPEED, 0.0]), "veer": jnp.asarray(VEER)}


class VeeringWind(eqx.Module):
    """A velocity that turns evenly on the way east, in the mesh's lengths a unit time."""

    west: float = eqx.field(static=True)
    length: float = eqx.field(static=True)

    def __call__(self, x: Float[Array, " dim"], z: PyTree) -> Float[Array, " dim"]:
        turn = z["veer"] * ((x[0] - self.west) / self.length - PIVOT)
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
    """The wind's vector at the pivot and its turn: a lattice of values with their weights."""

    sensors: Float[np.ndarray, "sensor 2"]
    measured: Float[np.ndarray, " sensor"]
    velocities: Float[np.ndarray, "lattice 2"]
    veers: Float[np.ndarray, " lattice"]
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
        latents={"tau": dist.Normal(0.0, SPEED).expand([2]), "veer": dist.Normal(0.0, VEER_SD)},
        dirichlet={"boundary": 0.0},
        observations=observations(sensors, values),
        likelihood=Gaussian(noise_sd),
    )


@lru_cache(maxsize=16)
def wind_posterior(case: Case) -> WindPosterior:
    problem = wind_problem(case.mesh, case.seed)
    seen = problem.observations
    found = exact_posterior(problem, problem.operator)
    velocities, veers = SPEED * found.lattice[:, :2], VEER_SD * found.lattice[:, 2]
    return WindPosterior(seen.points, seen.values, velocities, veers, found.weights)


def directions(
    velocities: Float[np.ndarray, "draw 2"], veers: Float[np.ndarray, " draw"], place: float
) -> Float[np.ndarray, " draw"]:
    """Degrees from east towards north at a place, in domain lengths from the west."""
    angle = np.arctan2(velocities[:, 1], velocities[:, 0]) + veers * (place - PIVOT)
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
    mean, sd = circular_moments(directions(found.velocities, found.veers, MIDDLE), found.weights)
    truth = float(np.degrees(VEER * (MIDDLE - PIVOT)))
    return {
        "sensors": len(found.sensors),
        "direction": truth,
        "direction_mean": mean,
        "direction_sd": sd,
        "direction_error_sd": float(turned(np.array([mean - truth]))[0]) / sd,
    }


def wind_draws(
    found: WindPosterior, count: int
) -> tuple[Float[np.ndarray, "draw 2"], Float[np.ndarray, " draw"]]:
    """Draws for a picture, from the normal distribution with the posterior's moments."""
    lattice = np.column_stack([found.velocities, found.veers])
    mean = found.weights @ lattice
    covariance = (found.weights * (lattice - mean).T) @ (lattice - mean)
    drawn = np.random.default_rng(0).multivariate_normal(mean, covariance, count)
    return drawn[:, :2], drawn[:, 2]
