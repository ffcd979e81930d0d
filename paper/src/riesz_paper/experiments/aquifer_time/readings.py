"""Dated heads of the plain: those that are learned from, and those that are forecast.

A year of a well is the median of its readings. Of every two years the later one that was read is
learned from: readings a few weeks apart say little more than one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from jaxtyping import Bool, Float, Int

from riesz.errors import FileFormatError, any_of
from riesz_paper.data.esrp import Aquifer, Split, splits_of
from riesz_paper.experiments.aquifer.later import READINGS, kept_heads
from riesz_paper.experiments.aquifer.model import KM

FIRST_YEAR, FORECAST_FROM, END = 1950, 1980, 2000
BOTH = (1960, 1980)
"""The years, the last one excluded, whose medians those of the forecast are held against."""

EVERY = 2
"""Years, of which one is learned from."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Heads of wells in years, in feet."""

    well: Int[np.ndarray, " row"]  # by number
    year: Int[np.ndarray, " row"]
    head: Float[np.ndarray, " row"]

    def __len__(self) -> int:
        return len(self.well)

    def kept(self, which: Bool[np.ndarray, " row"]) -> "Rows":
        return Rows(self.well[which], self.year[which], self.head[which])

    def between(self, first: int, end: int) -> "Rows":
        return self.kept((self.year >= first) & (self.year < end))

    def of(self, wells: Int[np.ndarray, " some"]) -> "Rows":
        return self.kept(np.isin(self.well, wells))

    def medians(self) -> dict[int, float]:
        """Of wells."""
        wells = np.unique(self.well).tolist()
        return {one: float(np.median(self.head[self.well == one])) for one in wells}


@dataclass(frozen=True, eq=False)
class Record:
    """All wells of split A, and all of their readings that cleaning has left."""

    numbers: tuple[str, ...]
    places: Float[np.ndarray, "well 2"]  # km
    readings: Rows

    @cached_property
    def index(self) -> dict[str, int]:
        return {number: place for place, number in enumerate(self.numbers)}

    def wells(self, numbers: Sequence[str]) -> Int[np.ndarray, " some"]:
        return np.array([self.index[number] for number in numbers])


@lru_cache(maxsize=2)
def record_of(aquifer: Aquifer) -> Record:
    places = {
        number: point / KM
        for part in splits_of(aquifer, "A")
        for wells in (part.training, part.test)
        for number, point in zip(wells.site_numbers, wells.points, strict=True)
    }
    heads = kept_heads(aquifer.folder / READINGS, frozenset(places))
    numbers = tuple(places)
    rows = [
        (place, int(year), head)
        for place, number in enumerate(numbers)
        for year, head in heads.get(number, [])
    ]
    if not rows:
        raise FileFormatError(
            f"{aquifer.folder / READINGS} has no readings of the wells of split A: get the data "
            "anew by: riesz data fetch esrp."
        )
    well, year, head = map(np.array, zip(*rows, strict=True))
    return Record(numbers, np.array(list(places.values())), Rows(well, year, head))


def yearly(rows: Rows) -> Rows:
    """The median of each year of each well."""
    key = rows.well * 10_000 + rows.year
    keys, which = np.unique(key, return_inverse=True)
    head = np.array([np.median(rows.head[which == one]) for one in range(len(keys))])
    return Rows(keys // 10_000, keys % 10_000, head)


def thinned(rows: Rows) -> Rows:
    """Of every two years of a well, the later one that was read."""
    key = rows.well * 10_000 + (rows.year - FIRST_YEAR) // EVERY
    last = np.array([np.flatnonzero(key == one)[-1] for one in np.unique(key)])
    return Rows(rows.well[last], rows.year[last], rows.head[last])


def within_year_sd(rows: Rows) -> float:
    """Of readings about the median of their year, in feet."""
    key = rows.well * 10_000 + rows.year
    squares = [
        np.mean((own - np.median(own)) ** 2)
        for own in (rows.head[key == one] for one in np.unique(key))
        if len(own) > 1
    ]
    return float(np.sqrt(np.mean(squares))) if squares else 0.0


@dataclass(frozen=True, eq=False)
class Case:
    """What is learned from, and what is asked for, of a split or a block of one."""

    training: Rows  # years
    history: Rows  # of the same wells and years: all readings
    asked: Rows  # readings from 1980 on
    centre: float  # of the training wells, feet
    spread: float
    medians: Float[np.ndarray, " well"]  # of 1980-99 as the split has them, of wells that are asked
    wells: Int[np.ndarray, " well"]  # those

    @cached_property
    def targets(self) -> Rows:
        """Years of the wells that are asked for, each once."""
        return yearly(self.asked)

    @cached_property
    def target_of(self) -> Int[np.ndarray, " reading"]:
        """Which year each reading belongs to."""
        keys = self.targets.well * 10_000 + self.targets.year
        return np.searchsorted(keys, self.asked.well * 10_000 + self.asked.year)


def case_of(record: Record, part: Split) -> Case:
    trained, tested = (record.wells(one.site_numbers) for one in (part.training, part.test))
    history = record.readings.of(trained).between(FIRST_YEAR, FORECAST_FROM)
    asked = record.readings.of(tested).between(FORECAST_FROM, END)
    unread = [record.numbers[well] for well in tested if well not in asked.well]
    if unread or not len(tested) or not len(history):
        what = f"of {any_of(unread)}" if unread else "to learn from, or to ask for"
        raise FileFormatError(
            f"there are no readings {what}: learned from are those of {FIRST_YEAR} to "
            f"{FORECAST_FROM - 1}, asked for those of {FORECAST_FROM} to {END - 1}."
        )
    return Case(
        training=thinned(yearly(history)),
        history=history,
        asked=asked,
        centre=float(part.training.head.mean()),
        spread=float(part.training.head.std()),
        medians=part.test.head,
        wells=tested,
    )
