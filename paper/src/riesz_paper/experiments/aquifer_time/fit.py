"""Scales by the likelihood of the training readings, and forecasts given both.

As `laplace(marginal)`: everything else is integrated out exactly, and
scales are drawn about their most probable values, with weights. A well that was read before has its
own level and drift in its forecast, as its readings leave them.
"""

import warnings
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg as sla
from jaxtyping import Array, Bool, Float

from riesz.density.marginal.spread import gaussian_spread, sample_hyperparameters
from riesz.method.training import minimise
from riesz_paper.experiments.aquifer_time.changes import At
from riesz_paper.experiments.aquifer_time.model import AbstractModel, Coordinates, Tables
from riesz_paper.experiments.aquifer_time.readings import Case, Rows

PARTS = 8
"""Values of scales over which forecasts are averaged."""

DRAWS_EACH = 150

GAIN = 1e-6
"""Of a step of the search, as a share of the cost, from which on it goes on."""


@dataclass(frozen=True, eq=False)
class Density:
    """Of scales, given the training readings.

    Rows that do not count fill up shorter cases, for which nothing is compiled anew. Factors are
    LAPACK's, and slopes go through the inverse, which costs less than those of a factor.
    """

    model: AbstractModel
    at: At
    heads: Float[np.ndarray, " row"]  # standardised
    counts: Bool[Array, " row"]
    tables: Tables

    def factored(
        self, coordinates: Coordinates
    ) -> tuple[float, Float[np.ndarray, "row row"], Float[np.ndarray, " row"]]:
        """The log-density, a factor of the covariance, and its inverse times the heads."""
        found = np.asarray(padded(self.model, coordinates, self.at, self.counts, self.tables))
        factor = sla.cholesky(found, lower=True)
        weights = sla.cho_solve((factor, True), self.heads)
        square = self.heads @ weights + float(coordinates @ coordinates)
        size = int(self.counts.sum()) * np.log(2 * np.pi)
        return -0.5 * (square + size) - np.log(np.diag(factor)).sum(), factor, weights

    def __call__(self, coordinates: Coordinates) -> float:
        """Minus infinity where there is none."""
        try:
            return self.factored(coordinates)[0]
        except (np.linalg.LinAlgError, ValueError):
            return -np.inf

    def cost(self, coordinates: Coordinates) -> tuple[float, Float[np.ndarray, " scale"]]:
        """The negative log-density with its slope; infinite where there is none."""
        try:
            value, factor, weights = self.factored(coordinates)
        except (np.linalg.LinAlgError, ValueError):
            return np.inf, np.zeros(len(coordinates))
        (invert,) = sla.get_lapack_funcs(("potri",), (factor,))
        lower = np.tril(invert(factor, lower=1)[0])
        inverse = lower + np.tril(lower, -1).T
        by_covariance = jnp.asarray(0.5 * (np.outer(weights, weights) - inverse))
        slope = pulled(self.model, coordinates, self.at, self.counts, self.tables, by_covariance)
        return -value, np.asarray(coordinates) - np.asarray(slope)


@eqx.filter_jit
def padded(
    model: AbstractModel,
    coordinates: Coordinates,
    at: At,
    counts: Bool[Array, " row"],
    tables: Tables,
) -> Float[Array, "row row"]:
    """The covariance of rows that count, errors included; others are of unit variance."""
    unit = jnp.eye(len(counts))
    found = model.covariance(coordinates, at, at, tables)
    both = counts[:, None] & counts[None, :]
    return jnp.where(both, found + model.error_sd(coordinates) ** 2 * unit, unit)


@eqx.filter_jit
def pulled(
    model: AbstractModel,
    coordinates: Coordinates,
    at: At,
    counts: Bool[Array, " row"],
    tables: Tables,
    by_covariance: Float[Array, "row row"],
) -> Float[Array, " scale"]:
    """A slope by the covariance as one by the scales."""
    _, pull = jax.vjp(lambda own: padded(model, own, at, counts, tables), coordinates)
    return pull(by_covariance)[0]


def at_rows(rows: Rows) -> At:
    return At(jnp.asarray(rows.well), jnp.asarray(rows.year))


def density_of(model: AbstractModel, case: Case, size: int) -> Density:
    """`size` rows, of which those of the case count."""
    rows, room = case.training, size - len(case.training)
    heads = np.pad((rows.head - case.centre) / case.spread, (0, room))
    at = At(*(jnp.asarray(np.pad(one, (0, room), mode="edge")) for one in (rows.well, rows.year)))
    return Density(model, at, heads, jnp.arange(size) < len(rows), model.tabulated(at, at))


@dataclass(frozen=True, eq=False)
class Fitted:
    """Values of scales, alike in weight, and how likely the readings are under the model."""

    model: AbstractModel
    case: Case
    mode: Float[np.ndarray, " scale"]
    scales: Float[np.ndarray, "part scale"]
    log_evidence: float
    k_hat: float


def fitted(model: AbstractModel, case: Case, size: int, *, seed: int, parts: int = PARTS) -> Fitted:
    density = density_of(model, case, size)
    mode = minimise(jnp.zeros(model.num_coordinates), density.cost, gain=GAIN)
    spread = gaussian_spread(density.cost, mode)
    sample, scales = sample_hyperparameters(density, spread, np.asarray(mode), parts, seed)
    for note in spread.notes + sample.notes("hyper_k_hat"):
        warnings.warn(f"{type(model).__name__}: {note}", stacklevel=2)
    evidence = density(mode) + float(np.sum(np.log(spread.lengths)))
    return Fitted(model, case, np.asarray(mode), scales, evidence, sample.k_hat)


def forecast(
    found: Fitted, targets: Rows, *, seed: int, each: int = DRAWS_EACH
) -> Float[np.ndarray, "draw row"]:
    """Joint draws of wells in years, errors included, in feet."""
    model, case = found.model, found.case
    read, asked = at_rows(case.training), at_rows(targets)
    pairs = ((read, read), (asked, read), (asked, asked))
    tables = [model.tabulated(*pair) for pair in pairs]
    heads = (case.training.head - case.centre) / case.spread
    rng, draws = np.random.default_rng(seed), []
    for scales in found.scales:
        own = jnp.asarray(scales)
        ours, cross, theirs = (
            np.asarray(covariance(model, own, *pair, table))
            for pair, table in zip(pairs, tables, strict=True)
        )
        error = float(model.error_sd(own)) ** 2
        factor = np.linalg.cholesky(ours + error * np.eye(len(ours)))
        white = sla.solve_triangular(factor, cross.T, lower=True)
        mean = white.T @ sla.solve_triangular(factor, heads, lower=True)
        left = theirs - white.T @ white + error * np.eye(len(theirs))
        normals = rng.standard_normal((each, len(mean)))
        draws.append(mean + normals @ np.linalg.cholesky(left).T)
    return case.centre + case.spread * np.concatenate(draws)


@eqx.filter_jit
def covariance(
    model: AbstractModel, coordinates: Coordinates, first: At, second: At, tables: Tables
) -> Float[Array, "first second"]:
    return model.covariance(coordinates, first, second, tables)
