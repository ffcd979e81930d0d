"""Residuals by where they are: regions that lean to one side, trends, and likeness of neighbours.

A pattern is a sum of scores, whose variance the law knows. The largest of many patterns is held
against the largest of each copy, so that looking at many places costs no error.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int
from scipy.spatial import KDTree

from riesz.diagnose.criticism.findings import (
    COVARIATE,
    LEVELS,
    NEIGHBOURS,
    REGION,
    TOLD,
    Finding,
    Readers,
)
from riesz.diagnose.criticism.law import Law
from riesz.diagnose.criticism.sizes import Against, exceeding
from riesz.notes import Note
from riesz.priors.representatives import farthest_points

MOST_CENTRES, MOST_PLACES = 120, 1500
SIZES = (1, 2, 3, 5, 8, 13, 21, 34, 55, 89)
"""Places in a region."""

LARGEST_SHARE = 0.6
"""Of all places: what is larger is no region."""

FREE = 0.05
"""Share of a pattern's variance that the unknowns must leave: what they follow is no residual."""

MOST_REGIONS = 3
AS_SURE = 0.8
"""Of the largest lean."""

FEWEST_PLACES, NUM_NEIGHBOURS = 8, 5


@dataclass(frozen=True, eq=False)
class Sites:
    """Where observations are; several at one place are summed."""

    points: Float[np.ndarray, "place dim"]
    of: Int[np.ndarray, " sensor"]  # -1: nowhere

    @property
    def sums(self) -> Float[np.ndarray, "sensor place"]:
        result = np.zeros((len(self.of), len(self.points)))
        somewhere = np.flatnonzero(self.of >= 0)
        result[somewhere, self.of[somewhere]] = 1.0
        return result


def site_points(points: Float[np.ndarray, "sensor dim"]) -> Sites:
    """Each place once; where there are very many, cells of a grid."""
    finite = np.isfinite(points).all(axis=1)
    own = points[finite]
    of = np.full(len(points), -1)
    if not len(own):
        return Sites(own, of)
    result, place = np.unique(own, axis=0, return_inverse=True)
    if len(result) > MOST_PLACES:
        sides = max(int(MOST_PLACES ** (1 / own.shape[1])), 1)
        low, size = own.min(axis=0), np.maximum(np.ptp(own, axis=0), 1e-300)
        cells = np.minimum((own - low) / size * sides, sides - 1).astype(int)
        result, place = np.unique(cells, axis=0, return_inverse=True)
        result = low + (result + 0.5) * size / sides
    of[finite] = place.ravel()
    return Sites(result, of)


def regions_among(places: Sites) -> Float[np.ndarray, "region place"]:
    """Each place with its nearest ones, in several sizes."""
    points = places.points
    count, per_place = len(points), np.bincount(places.of[places.of >= 0]).max(initial=0)
    sizes = [k for k in SIZES if k <= LARGEST_SHARE * count and (k > 1 or per_place > 1)]
    if not sizes:
        return np.zeros((0, count))
    centres = points if count <= MOST_CENTRES else points[farthest_points(points, MOST_CENTRES)]
    near = np.asarray(KDTree(points).query(centres, k=max(*sizes, 2))[1])
    rows = np.zeros((len(centres) * len(sizes), count))
    for number, size in enumerate(sizes):
        block = rows[number * len(centres) : (number + 1) * len(centres)]
        np.put_along_axis(block, near[:, :size], 1.0, axis=1)
    return np.unique(rows, axis=0)


def region_findings(
    against: Against, law: Law, places: Sites, readers: Readers, sd: Float[np.ndarray, " sensor"]
) -> list[Finding]:
    """Where residuals lean to one side."""
    if len(places.points) < 3:
        return []
    sums = places.sums
    patterns, covariance = regions_among(places), law.covariance(sums)
    variances = np.sum((patterns @ covariance) * patterns, axis=1)
    free = variances > FREE * (patterns @ np.diag(covariance))
    patterns, sizes = patterns[free], np.sqrt(variances[free])
    if not len(patterns):
        return []
    leans = patterns @ (sums.T @ (against.residuals * sd)) / sizes
    copies = np.abs((against.copies * sd) @ sums @ patterns.T / sizes).max(axis=1)
    p = np.array([exceeding(float(one), copies) for one in np.abs(leans)])
    result: list[Finding] = []
    left = p <= LEVELS[REGION]
    means = np.abs(leans) * sizes / np.sum(patterns, axis=1)
    while left.any() and len(result) < MOST_REGIONS:
        # Of patterns that are about as sure, that with the largest residuals: its place is sharper.
        sure = left & (np.abs(leans) >= AS_SURE * np.abs(leans[left]).max())
        best = int(np.argmax(np.where(sure, means, -1.0)))
        inside = patterns[best] > 0
        left &= ~(patterns[:, inside] > 0).any(axis=1)
        rows = np.flatnonzero(inside[places.of] & (places.of >= 0))
        mean = float(against.residuals[rows].mean())
        if abs(mean) >= TOLD:
            where = {"where": readers.where(rows), "which": readers.label(rows)}
            note = Note("region", count=len(rows), mean=mean, **where)
            result.append(Finding(REGION, note, (), tuple(rows.tolist()), float(p[best])))
    return result


def covariate(
    against: Against,
    law: Law,
    covariates: Mapping[str, Float[np.ndarray, " sensor"]],
    predicted: Float[np.ndarray, " sensor"],
    sd: Float[np.ndarray, " sensor"],
) -> list[Finding]:
    """Residuals that rise or fall with something, or whose size changes with what is predicted.

    That residuals themselves go with what is predicted says nothing: the prediction shrinks towards
    the prior.
    """
    given = {name: own for name, one in covariates.items() if (own := standardise(one)) is not None}
    patterns = np.stack([*given.values()]) if given else np.zeros((0, len(sd)))
    variances = np.diag(law.covariance(patterns.T))
    free = variances > FREE * (patterns**2 @ sd**2)
    names, patterns = [n for n, own in zip(given, free, strict=True) if own], patterns[free]
    sizes = np.sqrt(variances[free])
    trends, copies = (one * sd @ patterns.T / sizes for one in (against.residuals, against.copies))
    by = standardise(predicted)
    if by is not None:
        size, chance = (np.abs(one) @ by for one in (against.residuals, against.copies))
        middle, width = chance.mean(), chance.std()
        trends = np.append(trends, (size - middle) / width)
        copies = np.column_stack([copies, (chance - middle) / width])
    largest = np.abs(copies).max(axis=1, initial=0.0)
    findings = []
    for best in np.argsort(-np.abs(trends)).tolist():
        p = exceeding(abs(float(trends[best])), largest)
        if p > LEVELS[COVARIATE]:
            break
        if best == len(names):
            note = Note("residuals_grow" if trends[best] > 0 else "residuals_shrink")
            findings.append(Finding(COVARIATE, note, ("predicted",), (), p))
            continue
        correlation = float(np.corrcoef(against.residuals, patterns[best])[0, 1])
        code = "residuals_rise" if correlation > 0 else "residuals_fall"
        note = Note(code, covariate=names[best], correlation=correlation)
        findings.append(Finding(COVARIATE, note, (names[best],), (), p))
    return findings


def standardise(given: Float[np.ndarray, " sensor"]) -> Float[np.ndarray, " sensor"] | None:
    """About its mean, of size one, zero where it is not known; None where all are the same."""
    known = np.isfinite(given)
    if not known.any():
        return None
    own = np.where(known, given - given[known].mean(), 0.0)
    size = float(np.sqrt(np.mean(own**2)))
    return own / size if size > 1e-9 * float(np.abs(given[known]).max()) else None


def neighbours(
    against: Against,
    law: Law,
    places: Sites,
    readers: Readers,
    sd: Float[np.ndarray, " sensor"],
    order: Float[np.ndarray, " sensor"] | None,
) -> list[Finding]:
    """Residuals that are alike where they are near, on the map (Moran's I) or in time."""
    is_map = len(places.points) >= FEWEST_PLACES
    result = on_map(against, law, places, readers, sd) if is_map else []
    return result if order is None else result + serial_correlation(against, places, order)


def on_map(
    against: Against,
    law: Law,
    places: Sites,
    readers: Readers,
    sd: Float[np.ndarray, " sensor"],
) -> list[Finding]:
    sums = places.sums
    sizes = np.sqrt(np.maximum(np.diag(law.covariance(sums)), 1e-12))
    here = sums.T @ (against.residuals * sd) / sizes
    there = (against.copies * sd) @ sums / sizes
    result = KDTree(places.points).query(places.points, k=NUM_NEIGHBOURS + 1)
    distances, near = map(np.asarray, result)
    weights = neighbour_means(near[:, 1:])
    likeness = float(moran(here, weights))
    p = exceeding(likeness, moran(there, weights))
    if p > LEVELS[NEIGHBOURS] / 2:
        return []
    alike = (here * (weights @ here) > 0) & (np.abs(here) > 1)
    rows = np.flatnonzero(alike[places.of] & (places.of >= 0))
    reach = float(np.median(distances[:, -1]))
    note = Note("neighbours_alike", likeness=likeness, reach=reach, which=readers.label(rows))
    return [Finding(NEIGHBOURS, note, (), tuple(rows.tolist()), p)]


def neighbour_means(near: Int[np.ndarray, "place neighbour"]) -> sp.csr_array:
    count, each = near.shape
    entries = (np.full(near.size, 1 / each), (np.repeat(np.arange(count), each), near.ravel()))
    return sp.csr_array(entries, shape=(count, count))


def moran(
    values: Float[np.ndarray, "*copy place"], weights: sp.csr_array
) -> Float[np.ndarray, "*copy"]:
    around = (weights @ values.T).T
    sizes = np.maximum(np.sum(values**2, axis=-1), 1e-300)
    return np.asarray(np.sum(values * around, axis=-1) / sizes)


def serial_correlation(
    against: Against, places: Sites, order: Float[np.ndarray, " sensor"]
) -> list[Finding]:
    """Readings of one place, one after the other."""
    by = np.lexsort((order, places.of))
    follows = (places.of[by[1:]] == places.of[by[:-1]]) & (places.of[by[1:]] >= 0)
    first, second = by[:-1][follows], by[1:][follows]
    if len(first) < FEWEST_PLACES:
        return []

    def likeness(values: Float[np.ndarray, "*copy sensor"]) -> Float[np.ndarray, "*copy"]:
        products = np.mean(values[..., first] * values[..., second], axis=-1)
        return np.asarray(products / np.mean(values**2, axis=-1))

    result = float(likeness(against.residuals))
    p = exceeding(result, likeness(against.copies))
    if p > LEVELS[NEIGHBOURS] / 2:
        return []
    note = Note("readings_alike", correlation=result)
    return [Finding(NEIGHBOURS, note, ("time",), (), p)]
