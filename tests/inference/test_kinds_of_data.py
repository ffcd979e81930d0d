"""Every likelihood and every kind of observation against NumPyro written by hand.

The equation -(k u')' = f on an interval, with u = 0 on the left and u = b on the right, is solved
here by a matrix of its own; data are made up and weighed by NumPyro's distributions; k and b are
integrated over by quadrature.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer.util import log_density
from tests.pairs import pair

import riesz as rz
from riesz.method.laplace import Laplace
from riesz.problem.posing import inverse_problem
from riesz.problem.posing import with_observations as with_data
from riesz.problem.problem import InverseProblem

CELLS, SOURCE, LOG_SD = 16, 8.0, 0.3
RIGHT, RIGHT_SD = 2.0, 0.5
TRUTH = jnp.array([0.5, -0.4])

NODES = np.linspace(0, 1, CELLS + 1)
STEP = 1 / CELLS
X = np.linspace(0.08, 0.92, 24)
MESH = rz.interval(CELLS)
EQUATION, BOUNDARY = rz.diffusion("k") - rz.source(SOURCE), {"left": 0.0, "right": "b"}
PRIORS = {"k": dist.LogNormal(0.0, LOG_SD), "b": dist.Normal(RIGHT, RIGHT_SD)}


def hanging():
    """The solution for k = f = 1 and zeros on both ends, by a tridiagonal matrix."""
    inner = CELLS - 1
    matrix = (2 * np.eye(inner) - np.eye(inner, k=1) - np.eye(inner, k=-1)) / STEP
    return np.concatenate([[0.0], np.linalg.solve(matrix, np.full(inner, STEP)), [0.0]])


def rows(*functionals: Callable[[np.ndarray], Any]):
    """The matrix of linear functions of the nodal values, from what they make of unit vectors."""
    return np.stack([[one(unit) for unit in np.eye(CELLS + 1)] for one in functionals])


def mean_between(a, b):
    """Of a piecewise linear function: trapezia between the ends and all nodes inside."""
    places = np.concatenate([[a], NODES[(a < NODES) & (b > NODES)], [b]])
    return lambda u: np.trapezoid(np.interp(places, NODES, u), places) / (b - a)


def slope_at(x):
    cell = int(x / STEP)
    return lambda u: (u[cell + 1] - u[cell]) / STEP


HANGING = hanging()
AT = rows(*(lambda u, x=x: np.interp(x, NODES, u) for x in X))
AREAS = [(0.03, 0.4), (0.3, 0.55), (0.5, 0.97), (0.1, 0.9)]
MEANS = rows(*(mean_between(a, b) for a, b in AREAS))
SLOPES = rows(*map(slope_at, X))
WELLS, TIMES = np.arange(len(X)) % 4, np.arange(len(X)) // 3
GROUPED = np.where(
    WELLS[:, None] == WELLS[None],
    0.02**2 + 0.01**2 * np.exp(-np.abs(TIMES[:, None] - TIMES[None]) / 1.5),
    0.0,
) + 0.02**2 * np.eye(len(X))
COVARIANCE = 0.02**2 * np.exp(-np.abs(X[:, None] - X[None]) / 0.2)


def outflow_left(k, u, source=SOURCE):
    return k * (u[1] - u[0]) / STEP + source * STEP / 2


def outflow_right(k, u):
    return k * (u[-2] - u[-1]) / STEP + SOURCE * STEP / 2


WEAK = 3.0


def second_state(k):
    """Of an experiment with a weaker source, between zero and one."""
    return NODES + WEAK / k * HANGING


EXPOSURE = np.linspace(80.0, 240.0, len(X))
TRIALS = np.arange(4000.0, 4000.0 + len(X))
POINTS = X[:, None]


class Laplacian(rz.observe.AbstractLikelihood):
    """One's own: heavy tails by a double exponential."""

    scale: float

    def distribution(self, predicted, z):
        return dist.Laplace(predicted, self.scale)

    def describe(self):
        return f"double exponential, scale {self.scale:g}"


@dataclass(frozen=True, eq=False)
class Kind:
    """Data sets of a problem, and the distributions of each as one writes them by hand."""

    observed: list[tuple[Any, rz.observe.AbstractLikelihood]]
    by_hand: list[Callable[..., dist.Distribution]]  # of k and u
    nearly_normal: bool = True


VALUES = (rz.observe.AtPoints(X), rz.Gaussian(0.05))


def values_by_hand(k, u):
    return dist.Normal(AT @ u, 0.05)


KINDS = {
    "poisson": Kind(
        [(rz.observe.AtPoints(X), rz.Poisson(EXPOSURE))],
        [lambda k, u: dist.Poisson(EXPOSURE * jnp.exp(AT @ u))],
    ),
    "poisson-identity": Kind(
        [(rz.observe.AtPoints(X), rz.Poisson(1000.0, link="identity"))],
        [lambda k, u: dist.Poisson(1000 * (AT @ u))],
    ),
    "negative-binomial": Kind(
        [(rz.observe.AtPoints(X), rz.observe.NegativeBinomial(1500.0, EXPOSURE))],
        [lambda k, u: dist.NegativeBinomial2(EXPOSURE * jnp.exp(AT @ u), 1500.0)],
    ),
    "binomial": Kind(
        [(rz.observe.AtPoints(X), rz.observe.Binomial(TRIALS))],
        [lambda k, u: dist.Binomial(TRIALS.astype(int), logits=AT @ u)],
    ),
    "log-normal": Kind(
        [(rz.observe.AtPoints(X), rz.observe.LogNormal(0.03))],
        [lambda k, u: dist.LogNormal(jnp.log(AT @ u), 0.03)],
    ),
    "correlated": Kind(
        [(rz.observe.AtPoints(X), rz.observe.CorrelatedNormal(0.02, points=X, length=0.2))],
        [lambda k, u: dist.MultivariateNormal(AT @ u, COVARIANCE)],
    ),
    "grouped": Kind(
        [
            (
                rz.observe.AtPoints(X),
                rz.observe.GroupedNormal(
                    *(0.02, WELLS),
                    level_sd=0.02,
                    drift_sd=0.01,
                    correlation_time=1.5,
                    times=TIMES,
                ),
            )
        ],
        [lambda k, u: dist.MultivariateNormal(AT @ u, GROUPED)],
    ),
    "covariance": Kind(
        [(rz.observe.AtPoints(X), rz.observe.CorrelatedNormal(covariance=COVARIANCE))],
        [lambda k, u: dist.MultivariateNormal(AT @ u, COVARIANCE)],
    ),
    "own": Kind(
        [(rz.observe.AtPoints(X), Laplacian(0.05))],
        [lambda k, u: dist.Laplace(AT @ u, 0.05)],
        nearly_normal=False,
    ),
    "averages": Kind(
        [(rz.observe.AverageOver(AREAS), rz.Gaussian(0.012))],
        [lambda k, u: dist.Normal(MEANS @ u, 0.012)],
    ),
    "along": Kind(
        [(rz.observe.AverageAlong([[[a], [b]] for a, b in AREAS]), rz.Gaussian(0.012))],
        [lambda k, u: dist.Normal(MEANS @ u, 0.012)],
    ),
    "slopes": Kind(
        [(rz.observe.GradientAt(X, [1.0]), rz.Gaussian(0.2))],
        [lambda k, u: dist.Normal(SLOPES @ u, 0.2)],
    ),
    "differences": Kind(
        [(rz.observe.DifferenceBetween(X[1:], X[:-1]), rz.Gaussian(0.006))],
        [lambda k, u: dist.Normal(jnp.diff(AT @ u), 0.006)],
    ),
    "fluxes": Kind(
        [VALUES, (rz.observe.FluxAlong(X[:5], [-1.0]), rz.Gaussian(0.3))],
        [values_by_hand, lambda k, u: dist.Normal(k * (SLOPES @ u)[:5], 0.3)],
    ),
    "outflows": Kind(
        [VALUES, (rz.observe.FluxThrough(["left", "right"]), rz.Gaussian([0.2, 0.3]))],
        [
            values_by_hand,
            lambda k, u: dist.Normal(
                jnp.stack([outflow_left(k, u), outflow_right(k, u)]), np.array([0.2, 0.3])
            ),
        ],
    ),
    "logarithms": Kind(
        [(rz.observe.LogOf(rz.observe.AtPoints(X)), rz.Gaussian(0.02))],
        [lambda k, u: dist.Normal(jnp.log(AT @ u), 0.02)],
    ),
    "coefficient": Kind(
        [VALUES, (rz.observe.CoefficientAt("k", X[:2]), rz.observe.LogNormal(0.1))],
        [values_by_hand, lambda k, u: dist.LogNormal(jnp.log(k) * jnp.ones(2), 0.1)],
    ),
    "several": Kind(
        [
            VALUES,
            (rz.observe.AtPoints(X), rz.Poisson(EXPOSURE)),
            (rz.observe.CoefficientAt("k", X[:2]), rz.observe.LogNormal(0.1)),
        ],
        [
            values_by_hand,
            lambda k, u: dist.Poisson(EXPOSURE * jnp.exp(AT @ u)),
            lambda k, u: dist.LogNormal(jnp.log(k) * jnp.ones(2), 0.1),
        ],
    ),
    "experiments": Kind(
        [
            VALUES,
            (rz.observe.AtPoints(X[:8]), rz.Gaussian(0.02)),
            (rz.observe.FluxThrough("left"), VALUES[1]),
        ],
        [
            values_by_hand,
            lambda k, u: dist.Normal((AT @ second_state(k))[:8], 0.02),
            lambda k, u: dist.Normal(outflow_left(k, second_state(k), WEAK)[None], 0.05),
        ],
    ),
}


ALONE = tuple(KINDS)
TOGETHER = [kind for name, kind in KINDS.items() if name != "experiments"]
KINDS["all"] = Kind(
    [one for kind in TOGETHER for one in kind.observed],
    [one for kind in TOGETHER for one in kind.by_hand],
)


def fields(coordinates):
    """The conductivity, and the state at the nodes."""
    k = jnp.exp(LOG_SD * coordinates[0])
    return k, (RIGHT + RIGHT_SD * coordinates[1]) * NODES + SOURCE / k * HANGING


def model(kind: Kind, values):
    """The whole of a problem by hand."""
    coordinates = numpyro.sample("coordinates", dist.Normal(0, 1).expand([2]).to_event(1))
    k, u = fields(coordinates)
    for number, one in enumerate(kind.by_hand):
        numpyro.sample(f"y{number}", one(k, u), obs=values[number])


@lru_cache
def made_up(name: str) -> list[np.ndarray]:
    """Data about what a kind's model by hand says at the truth, scattered as widely as it says."""

    by_hand, rng = KINDS[name].by_hand, np.random.default_rng(3)

    @jax.jit
    def moments():
        k, u = fields(TRUTH)
        return [(found.mean, found.variance) for found in (one(k, u) for one in by_hand)]

    whole = [one(1.0, NODES).support.is_discrete for one in by_hand]
    drawn = [
        np.asarray(mean) + np.sqrt(variance) * rng.normal(size=mean.shape)
        for mean, variance in moments()
    ]
    return [np.round(y) if counts else y for y, counts in zip(drawn, whole, strict=True)]


@lru_cache
def blank() -> InverseProblem:
    """One problem for all data: its solves are compiled once."""
    return inverse_problem(
        MESH,
        EQUATION,
        latents=PRIORS,
        observations=rz.observations(X, np.zeros(len(X))),
        likelihood=rz.Gaussian(1.0),
        dirichlet=BOUNDARY,
    )


@lru_cache
def problem_of(name: str) -> InverseProblem:
    kind, values = KINDS[name], made_up(name)
    noise = [one for _, one in kind.observed]
    data = [
        rz.observations(what, v / TRIALS if isinstance(own, rz.observe.Binomial) else v)
        for (what, own), v in zip(kind.observed, values, strict=True)
    ]
    if len(data) == 1:
        return with_data(blank(), data[0], noise[0])
    if name == "experiments":
        first = rz.Experiment(EQUATION, data[0], noise[0], BOUNDARY)
        weak = rz.diffusion("k") - rz.source(WEAK)
        second = rz.Experiment(weak, data[1:], noise[1:], {"left": 0.0, "right": 1.0})
        return rz.inverse_problem(MESH, experiments=[first, second], latents=PRIORS)
    return inverse_problem(
        MESH,
        EQUATION,
        latents=PRIORS,
        observations=data,
        likelihood=noise,
        dirichlet=BOUNDARY,
    )


@lru_cache
def densities_by_hand(name: str):
    kind, values = KINDS[name], made_up(name)

    def at(coordinates):
        return log_density(model, (kind, values), {}, {"coordinates": coordinates})[0]

    return jax.jit(jax.vmap(at))


@lru_cache
def moments_by_hand(name: str):
    """Mean and standard deviations by quadrature on ever narrower windows."""
    centre, spread = np.zeros(2), np.ones(2)
    for _ in range(5):
        axes = [c + s * np.linspace(-7, 7, 141) for c, s in zip(centre, spread, strict=True)]
        grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
        logs = np.nan_to_num(np.asarray(densities_by_hand(name)(jnp.asarray(grid))), nan=-np.inf)
        weights = np.exp(logs - logs.max())
        weights /= weights.sum()
        centre = weights @ grid
        spread = np.sqrt(weights @ (grid - centre) ** 2)
    return centre, spread


PLACES = jnp.asarray(np.random.default_rng(0).normal(size=(4, 2)) * 0.5)


@eqx.filter_jit
def states_at(problem):
    return jax.lax.map(problem.state, PLACES)


@eqx.filter_jit
def densities(problem, states):
    def one(place, state):
        return problem.latents.log_prior(place) + problem.log_likelihood(place, state)

    return jax.vmap(one)(PLACES, states)


@pytest.mark.parametrize(
    "name", ["experiments", *(pytest.param(one, marks=pytest.mark.slow) for one in ("all", *ALONE))]
)
def test_densities_are_those_written_by_hand(name):
    problem = problem_of(name)
    found = densities(problem, states_at(problem if problem.others else blank()))
    wanted = densities_by_hand(name)(PLACES)
    np.testing.assert_allclose(np.diff(found), np.diff(wanted), rtol=1e-6, atol=1e-8)


def check_moments(posterior, name):
    mean, sd = moments_by_hand(name)
    found = np.sqrt(np.diag(posterior.coordinate_covariance()))
    np.testing.assert_array_less(np.abs(posterior.coordinate_mean() - mean) / sd, 0.05)
    np.testing.assert_array_less(np.abs(found / sd - 1), 0.03)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in ALONE if KINDS[name].nearly_normal])
def test_laplace_agrees_with_quadrature(name):
    check_moments(pair("laplace").run(problem_of(name)), name)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALONE)
def test_nuts_agrees_with_quadrature(name):
    start = Laplace() if KINDS[name].nearly_normal else None
    engine = pair(
        "mcmc", kernel="nuts", num_samples=6000, num_chains=2, linear_solver="dense", start=start
    )
    check_moments(engine.run(problem_of(name)), name)
