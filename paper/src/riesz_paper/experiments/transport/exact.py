r"""The exact posterior of a few unknowns, by quadrature over a lattice of exact solves.

The lattice is spanned by the posterior's own axes, from the mode and the curvature there. The
trapezoidal rule on it converges exponentially: for a Gaussian in $d$ unknowns with a spacing of
$h$ standard deviations the relative error is about $2 d\,e^{-2\pi^2/h^2}$, $10^{-8}$ here.
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
from jaxtyping import Array, Float

from riesz.fem.elements.space import Operator
from riesz.problem.problem import InverseProblem

SPACING = 1.0  # standard deviations
REACH = 5.0


@dataclass(frozen=True)
class ExactPosterior:
    """Moments of the coordinates, and the lattice behind them."""

    mean: Float[np.ndarray, " coordinate"]
    sd: Float[np.ndarray, " coordinate"]
    lattice: Float[np.ndarray, "lattice coordinate"]
    weights: Float[np.ndarray, " lattice"]
    states: Float[np.ndarray, "lattice point"]  # the state at given points
    num_solves: int


def exact_posterior(
    problem: InverseProblem,
    points: Operator,
    *,
    spacing: float = SPACING,
    reach: float = REACH,
    start: Float[np.ndarray, " coordinate"] | None = None,
) -> ExactPosterior:
    """For Gaussian noise, standard normal priors and one mode, or one that is near `start`.

    `points` tells where states go.
    """
    mode, factor, num_solves = mode_and_factor(problem, start)
    steps = np.arange(-int(reach / spacing), int(reach / spacing) + 1) * spacing
    axes = np.meshgrid(*[steps] * len(mode), indexing="ij")
    offsets = np.stack([axis.ravel() for axis in axes], axis=1)
    offsets = offsets[np.linalg.norm(offsets, axis=1) <= reach]
    lattice = mode + offsets @ factor.T
    logs, states = map(np.asarray, densities(problem, points, jnp.asarray(lattice)))
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    mean = weights @ lattice
    sd = np.sqrt(weights @ (lattice - mean) ** 2)
    return ExactPosterior(mean, sd, lattice, weights, states, num_solves + len(lattice))


def mode_and_factor(
    problem: InverseProblem, start: Float[np.ndarray, " n"] | None = None
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, "n n"], int]:
    """The posterior's mode, a factor of the Gauss-Newton covariance there, and solves it took."""
    seen: dict[bytes, tuple[np.ndarray, np.ndarray]] = {}
    noise_sd = np.asarray(problem.noise_sd(None))
    identity = np.eye(problem.num_coordinates)

    def at(place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if place.tobytes() not in seen:
            values, slopes = map(np.asarray, sensed(problem, jnp.asarray(place)))
            misfit = (values - np.asarray(problem.observed)) / noise_sd
            slopes = np.concatenate([slopes / noise_sd[:, None], identity])
            seen[place.tobytes()] = np.concatenate([misfit, place]), slopes
        return seen[place.tobytes()]

    start = np.zeros(problem.num_coordinates) if start is None else start
    found = scipy.optimize.least_squares(
        lambda c: at(c)[0],
        start,
        jac=lambda c: at(c)[1],  # pyright: ignore[reportArgumentType]
    )
    _, slopes = at(found.x)
    return found.x, np.linalg.cholesky(np.linalg.inv(slopes.T @ slopes)), len(seen)


@eqx.filter_jit
def sensed(
    problem: InverseProblem, coordinates: Float[Array, " n"]
) -> tuple[Float[Array, " sensor"], Float[Array, "sensor n"]]:
    """The state at the sensors and its derivative."""

    def values(place):
        found = problem.operator @ problem.state(place)
        return found, found

    slopes, found = jax.jacfwd(values, has_aux=True)(coordinates)
    return found, slopes


@eqx.filter_jit
def densities(
    problem: InverseProblem, points: Operator, lattice: Float[Array, "lattice n"]
) -> tuple[Float[Array, " lattice"], Float[Array, "lattice point"]]:
    """The log-posterior and the state at points, from one solve each."""

    def one(coordinates):
        state = problem.state(coordinates)
        prior = problem.latents.log_prior(coordinates)
        return prior + problem.log_likelihood(coordinates, state), points @ state

    return jax.lax.map(one, lattice)
