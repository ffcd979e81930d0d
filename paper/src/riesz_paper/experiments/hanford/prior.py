r"""What is known of the log-transmissivity before heads are seen: a Gaussian process.

Its values at some cells are known exactly, so that the process is conditioned on them. Its kernel
has a variance and a length that are found by the marginal likelihood: of the known values, and
later of them and the heads together, these linear in $Y$ as they are about a mode. A constant mean
takes its best value for each kernel.

On the finer mesh the process is carried by its values at the centres of the coarser cells, and what
these leave of it is taken to be independent from one coarser cell to the next (Snelson & Ghahramani
2007): the work grows as the number of cells does.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg as sla
from jaxtyping import Bool, Float, Int
from scipy.optimize import minimize

from riesz.priors.kernels import AbstractKernel, Matern12, Matern32, Matern52
from riesz_paper.data.hanford import CHILDREN, Site

KERNELS: dict[str, Callable[..., AbstractKernel]] = {
    "matern12": Matern12,
    "matern32": Matern32,
    "matern52": Matern52,
}

JITTER = 1e-8
"""The variance of noise in known values, over that of the field: none but for rounding."""

FIRST_LENGTHS = (0.03, 0.1, 0.3)
"""Where searches for the length begin; one is 60 km."""

PRECISION = 0.01
"""Of logarithms of scales, and of log-likelihoods, where a search for them ends."""

Places = Float[np.ndarray, "_ 2"]


@dataclass(frozen=True)
class Process:
    """A Gaussian process with a constant mean."""

    kernel: str
    variance: float
    length: float
    mean: float

    def covariance(self, one: Places, other: Places) -> Float[np.ndarray, "a b"]:
        return self.variance * correlation(self.kernel, self.length, one, other)


def correlation(kernel: str, length: float, one: Places, other: Places) -> Float[np.ndarray, "a b"]:
    return KERNELS[kernel](length_scale=length, sd=1.0).matrix(one, other)


@dataclass(frozen=True, eq=False)
class KnownValues:
    """Of the field at some cells."""

    cells: Int[np.ndarray, " value"]
    values: Float[np.ndarray, " value"]
    noise_sd: float  # zero where they are exact


@dataclass(frozen=True, eq=False)
class Functionals:
    """Data that are linear in the field: rows on its values at places, what they gave, noise."""

    places: Places
    rows: Float[np.ndarray, "datum place"]
    values: Float[np.ndarray, " datum"]
    noise_sd: Float[np.ndarray, " datum"]
    is_scaled: Bool[np.ndarray, " datum"]  # whether the noise is known up to a factor only


def values_alone(site: Site, known: KnownValues) -> Functionals:
    count = len(known.cells)
    noise = np.full(count, known.noise_sd)
    scaled = np.zeros(count, bool)
    return Functionals(site.centroids[known.cells], np.eye(count), known.values, noise, scaled)


def with_heads(
    site: Site,
    known: KnownValues,
    rows: Float[np.ndarray, "head cell"],
    heads: Float[np.ndarray, " head"],
    noise_sd: float,
    *,
    is_scaled: bool,
) -> Functionals:
    """Values, and heads that are linear in the field, which they read at the coarser cells."""
    alone, count = values_alone(site, known), len(heads)
    by_parent = np.stack([np.bincount(site.parents, row) for row in rows])
    return Functionals(
        np.concatenate([alone.places, centres_of_parents(site)]),
        np.asarray(sla.block_diag(alone.rows, by_parent)),
        np.concatenate([alone.values, heads]),
        np.concatenate([alone.noise_sd, np.full(count, noise_sd)]),
        np.concatenate([alone.is_scaled, np.full(count, is_scaled)]),
    )


def marginal(
    kernel: str, logs: Float[np.ndarray, " scale"], data: Functionals
) -> tuple[float, float]:
    """Minus the log-likelihood of data with the field integrated out, and its best mean.

    `logs` are those of variance and length, and of a factor of the noise where there is one.
    """
    variance, length, *factors = np.exp(logs).tolist()
    noise = np.where(data.is_scaled, factors[0] if factors else 1.0, 1.0) * data.noise_sd
    rows = data.rows
    covariance = rows @ correlation(kernel, length, data.places, data.places) @ rows.T
    covariance[np.diag_indices_from(covariance)] += JITTER + noise**2 / variance
    try:
        factor = sla.cholesky(covariance, lower=True)
    except sla.LinAlgError:
        return np.inf, 0.0
    sides = np.stack([data.values, rows.sum(axis=1)], axis=1)
    values, ones = sla.solve_triangular(factor, sides, lower=True).T
    mean = float(values @ ones / (ones @ ones))
    square, count = np.sum((values - mean * ones) ** 2) / variance, len(values)
    log_volume = np.sum(np.log(np.diag(factor))) + 0.5 * count * np.log(2 * np.pi * variance)
    return float(0.5 * square + log_volume), mean


@dataclass(frozen=True)
class Choice:
    """A process that makes data most likely, how much, and by which factor of the noise."""

    process: Process
    log_likelihood: float
    noise_factor: float = 1.0


def likeliest(kernel: str, data: Functionals, start: tuple[float, float]) -> Choice:
    """Variance and length by the likelihood of data, and a factor of the noise that is unknown."""
    first = np.log([*start, 1.0] if data.is_scaled.any() else start)
    found = minimize(
        lambda logs: marginal(kernel, logs, data)[0],
        first,
        method="Nelder-Mead",
        options={
            "initial_simplex": first + 0.3 * np.eye(len(first) + 1, len(first), -1),
            "xatol": PRECISION,
            "fatol": PRECISION,
        },
    )
    least, mean = marginal(kernel, found.x, data)
    variance, length, *factors = np.exp(found.x).tolist()
    return Choice(Process(kernel, variance, length, mean), -least, *factors)


def likeliest_for_values(kernel: str, data: Functionals) -> Choice:
    """The same from several lengths: the likelihood of few values has more than one peak."""
    variance = float(np.var(data.values))
    tries = [likeliest(kernel, data, (variance, length)) for length in FIRST_LENGTHS]
    return max(tries, key=lambda one: one.log_likelihood)


@dataclass(frozen=True, eq=False)
class CellPrior:
    """The process given values, cell by cell: its mean plus linear maps of standard normals."""

    mean: Float[np.ndarray, " cell"]
    factor: Float[np.ndarray, "cell common"]
    local: Float[np.ndarray, "parent child child"] | None  # what the factor leaves, by parent

    @property
    def num_coordinates(self) -> int:
        return self.factor.shape[1] + (0 if self.local is None else self.local[..., 0].size)

    def deviations(
        self, coordinates: Float[np.ndarray, "coordinate draw"]
    ) -> Float[np.ndarray, "cell draw"]:
        """What coordinates add to the mean, column by column."""
        count = self.factor.shape[1]
        found = self.factor @ coordinates[:count]
        if self.local is not None:
            rest = coordinates[count:].reshape(*self.local.shape[:2], -1)
            found = found + (self.local @ rest).reshape(found.shape)
        return found

    def pulled_back(
        self, rows: Float[np.ndarray, "row cell"]
    ) -> Float[np.ndarray, "row coordinate"]:
        """Rows on cells, as rows on coordinates."""
        common = rows @ self.factor
        if self.local is None:
            return common
        by_parent = rows.reshape(len(rows), *self.local.shape[:2])
        own = np.einsum("rpc,pcd->rpd", by_parent, self.local).reshape(len(rows), -1)
        return np.concatenate([common, own], axis=1)

    @property
    def variances(self) -> Float[np.ndarray, " cell"]:
        found = np.sum(self.factor**2, axis=1)
        return found if self.local is None else found + np.sum(self.local**2, axis=2).ravel()


def centres_of_parents(site: Site) -> Places:
    """Where the coarser cells are, from the finer mesh alone."""
    children = np.bincount(site.parents)
    sums = [np.bincount(site.parents, site.centroids[:, axis]) for axis in (0, 1)]
    return np.stack(sums, axis=1) / children[:, None]


def conditioned(site: Site, process: Process, known: KnownValues) -> CellPrior:
    """The process given its values at some cells."""
    places, centres = site.centroids, centres_of_parents(site)
    at_known = places[known.cells]
    among = process.covariance(at_known, at_known)
    among[np.diag_indices_from(among)] += JITTER * process.variance + known.noise_sd**2
    factor = sla.cholesky(among, lower=True)

    def explained(where: Places) -> Float[np.ndarray, "value place"]:
        return sla.solve_triangular(factor, process.covariance(at_known, where), lower=True)

    by_cell, by_centre = explained(places), explained(centres)
    residual = sla.solve_triangular(factor, known.values - process.mean, lower=True)
    mean = process.mean + by_cell.T @ residual
    between = process.covariance(centres, centres) - by_centre.T @ by_centre
    # Where values are exact nothing is left to be known there: as many coordinates less.
    first = 0 if known.noise_sd else len(known.cells)
    eigenvalues, vectors = sla.eigh(between, subset_by_index=(first, len(centres) - 1))
    eigenvalues, vectors = eigenvalues[::-1], vectors[:, ::-1]
    if len(centres) == len(places):
        return CellPrior(mean, vectors * np.sqrt(eigenvalues), None)
    across = process.covariance(places, centres) - by_cell.T @ by_centre
    common = across @ (vectors / np.sqrt(eigenvalues))
    return CellPrior(mean, common, left_by(site, process, by_cell, common))


def left_by(
    site: Site,
    process: Process,
    by_cell: Float[np.ndarray, "value cell"],
    common: Float[np.ndarray, "cell common"],
) -> Float[np.ndarray, "parent child child"]:
    """A root of the covariance, among the cells of each parent, that the factor does not carry."""
    blocks = site.centroids.reshape(-1, CHILDREN, 2)
    own = np.stack([process.covariance(one, one) for one in blocks])
    for columns in (by_cell.T, common):
        parts = columns.reshape(len(blocks), CHILDREN, -1)
        own -= parts @ parts.transpose(0, 2, 1)
    values, vectors = np.linalg.eigh(own)
    return vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
