"""One observation a site from its readings."""

import datetime
from collections import Counter

import numpy as np
from jaxtyping import Float, Int

from riesz.case.data.prepared import Covariate, Prepared
from riesz.errors import FileFormatError

TO_SD = 1.4826
"""From the median distance to the median to a standard deviation, for normal readings."""

ENOUGH = 3
"""Readings from which a scatter can be told."""

Groups = list[Int[np.ndarray, " _"]]
"""The rows of each site."""


def aggregated(
    readings: Prepared, how: str, dates: list[datetime.date | None] | None, floor: float | None
) -> Prepared:
    """The median, the mean or the last reading of each site.

    With `floor`, a standard deviation that is not exceeded from below, each site's noise is the
    scatter of its readings.
    """
    assert readings.sites is not None  # the table was validated
    groups = groups_of(readings.sites)
    if how == "mean" and readings.censored.any():
        row = int(np.argmax(readings.censored))
        raise FileFormatError(
            f"{readings.path}, line {readings.lines[row]}: a mean of readings below a detection "
            "limit is not known: use aggregate = 'median'."
        )
    one = readings.rows(np.array([rows[0] for rows in groups]))
    last = [latest(readings, rows, dates) for rows in groups] if how == "last" else None
    middle = np.mean if how == "mean" else np.median
    values = [float(middle(readings.values[rows])) for rows in groups]
    # The median lies among the readings below the limit where these are half of all or more.
    censored = [bool(np.mean(readings.censored[rows]) >= 0.5) for rows in groups]
    if last is not None:
        values = readings.values[last].tolist()
        censored = readings.censored[last].tolist()
    counts = np.array([len(rows) for rows in groups])
    sd = None if readings.sd is None else [np.median(readings.sd[rows]) for rows in groups]
    if floor is not None:
        sd = scatter(readings.values, groups, floor)
    points = [np.median(readings.points[rows], axis=0) for rows in groups]
    told = f"{how} of {counts.min()} to {counts.max()} readings at {len(groups)} sites"
    return one.rows(
        np.arange(len(groups)),
        values=np.array(values),
        censored=np.array(censored),
        points=np.array(points),
        sd=None if sd is None else np.array(sd),
        readings=counts,
        covariates={name: per_site(cells, groups) for name, cells in readings.covariates.items()},
        told=(*readings.told, told),
        notes=(*readings.notes, *moved(readings, groups)),
    )


def groups_of(sites: list[str]) -> Groups:
    """In the order in which sites appear first."""
    rows: dict[str, list[int]] = {}
    for row, site in enumerate(sites):
        rows.setdefault(site, []).append(row)
    return [np.array(own) for own in rows.values()]


def latest(
    readings: Prepared, rows: Int[np.ndarray, " reading"], dates: list[datetime.date | None] | None
) -> int:
    assert dates is not None  # the table was validated
    return int(max(rows, key=lambda row: (dates[row] or datetime.date.min, row)))


def scatter(
    values: Float[np.ndarray, " row"], groups: Groups, floor: float
) -> Float[np.ndarray, " site"]:
    """A robust standard deviation of each site; that of a typical one where readings are few."""
    own = np.array(
        [
            TO_SD * np.median(np.abs(values[rows] - np.median(values[rows])))
            if len(rows) >= ENOUGH
            else np.nan
            for rows in groups
        ]
    )
    typical = np.nanmedian(own) if np.isfinite(own).any() else floor
    return np.maximum(np.where(np.isnan(own), typical, own), floor)


def per_site(cells: Covariate, groups: Groups) -> Covariate:
    """The median of numbers, the most frequent word."""
    if isinstance(cells, list):
        return [Counter(cells[i] for i in rows).most_common(1)[0][0] for rows in groups]
    return np.array([np.median(cells[rows]) for rows in groups])


def moved(readings: Prepared, groups: Groups) -> list[str]:
    """Sites whose readings are at several places."""
    spans = [np.ptp(readings.points[rows], axis=0).max() for rows in groups]
    several = sum(span > 0 for span in spans)
    if not several:
        return []
    return [
        f"the readings of {several} sites are up to {max(spans):.6g} apart: each site is taken to "
        "be at the median of its coordinates"
    ]
