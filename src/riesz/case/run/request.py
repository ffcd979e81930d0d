"""What a prediction is asked for, what can be said against it before any work, and its places.

Covariates there are as they are given, from a table, or from rasters: no prediction of what was
measured goes without them. Places in a table must have them, and maps say for which values they
hold.
"""

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from riesz.case.data.covariates import Category, Single, effect_design, encodings_of, every_encoding
from riesz.case.data.oddities import format_rows
from riesz.case.data.rows import MEASUREMENTS, RIVERS, SERIES, WELLS, Covariate, covariate_in
from riesz.case.options import PredictOptions
from riesz.case.run.folder import DRAWS, REQUIRED_FILES, Run
from riesz.errors import FileFormatError, RieszError, any_of, nearest
from riesz.geometry.lines import as_points
from riesz.io.maps.geopackage import geopackage_modules
from riesz.io.maps.raster import netcdf_modules, raster_values, rasterio_modules
from riesz.io.tables.dates import format_dates
from riesz.io.tables.layers import TextTable
from riesz.io.tables.numbers import number_in
from riesz.mesh.grids import Grid
from riesz.notes import Note
from riesz.prediction.draws import AtPlaces, PosteriorDraws
from riesz.prediction.statistics import Prediction

CSV, TIF, GPKG, NC, VTU, PNG = SUFFIXES = (".csv", ".tif", ".gpkg", ".nc", ".vtu", ".png")
MODULES = {TIF: rasterio_modules, GPKG: geopackage_modules, NC: netcdf_modules}
"""What imports the packages that files of a kind need, or says which are missing."""

NEEDS_GRID = {TIF: "a raster", GPKG: "a map of contours", NC: "a NetCDF map"}

ALL, ENSEMBLE, MEAN, MEDIAN = "all", "ensemble", "mean", "median"
STANDS_FOR_ALL = "mean,sd,q05,q50,q95"
IN_FIGURE = "mean,q:0.025,q:0.975"
"""What a hydrograph shows."""

PROBABILITY = "1"
"""The unit of what has none, as files have it."""


@dataclass(frozen=True, eq=False)
class PlaceRows:
    """A table of places, which of its rows lie in the domain, and where those are."""

    table: TextTable
    inside: Bool[np.ndarray, " row"]
    points: Float[np.ndarray, "place 2"]  # in the coordinates of the problem

    @property
    def within(self) -> TextTable:
        """The rows that there are predictions for."""
        return self.table.select(self.inside)

    @property
    def notes(self) -> tuple[Note, ...]:
        outside = np.flatnonzero(~self.inside).tolist()
        if not outside:
            return ()
        which, total = format_rows(outside, self.table.lines), self.table.num_rows
        words = {"file": self.table.path.name, "which": which}
        return (Note("places_outside", count=len(outside), total=total, **words),)


@dataclass(frozen=True, kw_only=True)
class PredictionRequest(PredictOptions):
    """What is to be predicted, from which run, and into which file."""

    run: Run
    out: Path
    rows: PlaceRows | None = None  # of a file of points, once it is read

    @property
    def known(self) -> PosteriorDraws:
        """Draws of the run, those that are kept where there are any."""
        run = self.run
        return run.stored.draws if run.stored else run.draws(self.num_draws, self.seed)

    @property
    def suffix(self) -> str:
        return self.out.suffix.lower()

    @property
    def statistics(self) -> "tuple[Statistic, ...]":
        """Those that are computed; none where draws are wanted themselves."""
        return statistics_in(IN_FIGURE if self.suffix == PNG else self.stat)

    @property
    def given(self) -> list[str]:
        """What says where."""
        return [w for w in ("points", "grid", "cell") if getattr(self, w) is not None]

    @property
    def is_at_observed(self) -> bool:
        """Whether the observed places are meant: of dates, where no others are named."""
        dated = self.suffix == PNG or (self.suffix == CSV and self.at is not None)
        return dated and not self.given

    @property
    def column_of_dates(self) -> str | None:
        """Of a table of places, where no dates are named."""
        date, rows = self.run.observations.date, self.rows
        is_used = self.at is None and rows is not None and date in rows.table.header
        return date if is_used else None

    @property
    def has_dates(self) -> bool:
        """Whether others are wanted than the last: by name, for hydrographs, or by a table."""
        asked = self.at is not None or self.suffix == PNG or self.column_of_dates is not None
        return asked and self.run.time is not None


def request_of(run: Run, options: PredictOptions, out: Path, what: str) -> PredictionRequest:
    """With places as a file or as an array of numbers."""
    places = Path(options.points) if isinstance(options.points, str) else options.points
    if places is not None and not isinstance(places, Path):
        places = as_points(places, what)
    given = {"points": places, "covariates": options.covariates or {}}
    return PredictionRequest(**vars(options) | given, run=run, out=out)


def check_request(request: PredictionRequest) -> None:
    """Raise, before any work, where words make no sense or the file could not be written."""
    statistics_in(request.stat)
    check_suffix(request)
    check_request_places(request)
    check_output_path(request)


def check_suffix(request: PredictionRequest) -> None:
    path, suffix = request.out, request.suffix
    if suffix not in SUFFIXES:
        raise FileFormatError(
            f"{path}: predictions are written to files that end in {any_of(SUFFIXES)}, not in "
            f"{path.suffix!r}: {nearest(suffix, SUFFIXES)}".rstrip(": ")
        )
    if request.stat == ENSEMBLE and suffix != CSV:
        raise FileFormatError(f"{path}: {ENSEMBLE} is for .csv files, one column a draw.")
    if suffix == PNG and (request.stat != MEAN or {"grid", "cell"} & set(request.given)):
        raise FileFormatError(
            f"{path}: hydrographs show the mean and the 95 % interval, at the observed places or "
            "at points: leave stat, grid and cell out."
        )
    if suffix in NEEDS_GRID and request.points is not None:
        raise FileFormatError(
            f"{path}: {NEEDS_GRID[suffix]} needs a grid: give grid or cell, or write points to a "
            ".csv."
        )
    if suffix in MODULES:
        MODULES[suffix]()


def check_request_places(request: PredictionRequest) -> None:
    given = request.given
    result = " and ".join(given) or "none of them"
    if request.suffix == VTU:
        if given:
            raise RieszError(
                f"{request.out}: a .vtu file holds values at the nodes of the mesh: leave {result} "
                "out."
            )
    elif len(given) != 1 and not request.is_at_observed:
        raise RieszError(f"say where by one of points, grid or cell, not by {result}.")


def check_output_path(request: PredictionRequest) -> None:
    path = request.out
    folder = path.absolute().parent
    if not folder.is_dir():
        raise FileFormatError(f"{path} cannot be written: there is no folder {path.parent}.")
    if path.is_dir():
        raise FileFormatError(f"{path} is a folder: give the name of a file.")
    if not os.access(folder, os.W_OK):
        raise FileFormatError(f"{path} cannot be written: you may not write to {path.parent}.")
    stored = (*REQUIRED_FILES, DRAWS, WELLS, RIVERS, MEASUREMENTS, SERIES)
    inputs = [request.run.folder / name for name in stored]
    inputs += [request.points] if isinstance(request.points, Path) else []
    if path.exists() and any(one.exists() and path.samefile(one) for one in inputs):
        raise FileFormatError(f"{path} is what is read here: write to another file.")


@dataclass(frozen=True)
class Statistic:
    """One number of a distribution; a quantity's unit is its own, a probability has none."""

    name: str
    about: str  # in words, before "of the quantity"
    quantiles: tuple[float, ...]
    exceed: tuple[float, ...]
    of: Callable[[Prediction], Float[np.ndarray, "*shape"]]

    def unit(self, of_quantity: str | None) -> str | None:
        return PROBABILITY if self.exceed else of_quantity


def statistic(text: str) -> Statistic:
    """`mean`, `sd`, `median`, a quantile in percent such as `q05` or `q97.5` or by its probability
    such as `q:0.025`, or `exceed:VALUE`, the probability of more."""
    if text == MEAN:
        return Statistic(text, "mean", (), (), lambda found: found.mean)
    if text == "sd":
        return Statistic(text, "standard deviation", (), (), lambda found: found.sd)
    level = quantile_level(text)
    if 0 < level < 1:
        percent = f"{100 * level:g}"
        name = f"q{percent}" if text.startswith("q:") else text
        about = "median" if text == MEDIAN else f"{percent} % quantile"
        return Statistic(name, about, (level,), (), lambda found: found.quantiles[level])
    number = re.fullmatch(r"exceed:([-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?)", text)
    value = float(number[1]) if number else math.inf
    if number and math.isfinite(value):
        name, about = f"exceed_{number[1]}", f"probability of more than {number[1]}"
        return Statistic(name, about, (), (value,), lambda found: found.exceedance[value])
    raise RieszError(
        f"the statistic is {text!r}: give mean, sd, median, a quantile in percent between 0 and "
        "100, such as q05 or q97.5, or by its probability, such as q:0.025, or exceed:VALUE with a "
        "finite number, such as exceed:1500; several by commas, such as mean,sd; all; or ensemble, "
        "every draw by itself."
    )


def quantile_level(text: str) -> float:
    """The probability that a text names; zero where it names none."""
    if text == MEDIAN:
        return 0.5
    percent = re.fullmatch(r"q([0-9]{1,2}(\.[0-9]+)?)", text)
    share = re.fullmatch(r"q:(0?\.[0-9]+)", text)
    if percent:
        return float(percent[1]) / 100
    return float(share[1]) if share else 0.0


def statistics_in(text: str) -> tuple[Statistic, ...]:
    """One or several by commas; none for `ensemble`, which keeps the draws themselves."""
    if text == ENSEMBLE:
        return ()
    words = [word.strip() for word in (STANDS_FOR_ALL if text == ALL else text).split(",")]
    result = tuple(map(statistic, words))
    names = [one.name for one in result]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise RieszError(
            f"the statistic is {text!r}, which has {twice[0]} more than once: leave one out."
        )
    return result


Times = Shaped[np.ndarray, " time"]
"""Dates, or numbers where the axis has none."""

Where = Grid | Float[np.ndarray, "point 2"] | None
"""A grid, points, or the mesh itself."""


def format_times(times: Times) -> list[str]:
    """As files write them."""
    return format_dates(times) if times.dtype.kind == "M" else [f"{time:.12g}" for time in times]


class Then(NamedTuple):
    """Draws as they were at a date; `states` at the places, where those at the nodes are not."""

    draws: PosteriorDraws
    states: AtPlaces | None = None
    when: str = ""
    times: Float[np.ndarray, " #place"] | None = None  # on the axis, where there is one


@dataclass(frozen=True, eq=False)
class Scene:
    """Places, and what draws say of them, date by date; of a steady state there is one.

    Where `paired`, each place has a time of its own.
    """

    request: PredictionRequest
    at: Where
    thens: tuple[Then, ...]
    sites: Sequence[str] = ()  # of observed places, where they have names
    times: Times | None = None
    paired: bool = False
    numbers: Int[np.ndarray, " place"] | None = None  # of sites whose readings share errors

    @property
    def draws(self) -> PosteriorDraws:
        """At the last of the dates; but for the state they are the same at all."""
        return self.thens[-1].draws

    @property
    def points(self) -> Float[np.ndarray, "place 2"]:
        points = self.at.points if isinstance(self.at, Grid) else self.at
        return self.draws.mesh.nodes if points is None else points


RASTERS = (".tif", ".tiff")


def check_given_covariates(request: PredictionRequest) -> None:
    """Raise where one is given that the fit does not know."""
    names = request.run.observations.covariates
    for name in covariates_of(request):
        if name not in names:
            known = f"the fit has {any_of(names)}" if names else "the fit has no covariates"
            raise RieszError(
                f"there is no covariate {name!r} to be given: {nearest(name, names)}{known}."
            )


def design_at(
    request: PredictionRequest,
    points: Float[np.ndarray, "point 2"],
    needed_by: str | None = None,
) -> Float[np.ndarray, "point effect"] | None:
    """What multiplies each effect at the places; raises where a covariate is not known there."""
    run, given = request.run, covariates_of(request)
    names = run.observations
    if not names.covariates:
        return None
    rasters = run.numbers.get("rasters", {})
    table = None if request.rows is None else request.rows.within
    cells: dict[str, Covariate] = {}
    for one in encodings_of(run.prepared, names.log_covariates):
        if one.name in given:
            cells[one.name] = as_given(one, given[one.name], points, run.crs)
        elif table is not None and one.name in table.header:
            cells[one.name] = covariate_in(table, one.name)
        elif one.name in rasters:
            cells[one.name] = as_given(one, Path(rasters[one.name]), points, run.crs)
        elif request.points is None:
            cells[one.name] = repeat_covariate(one, usual(one), len(points))
    missing = [name for name in names.covariates if name not in cells]
    if missing:
        asker = f"--quantity {request.quantity}"
        what = request.points if isinstance(request.points, Path) else "the array of points"
        raise FileFormatError(
            f"{what} has no column {', '.join(missing)}: {needed_by or asker} needs the covariates "
            "at its places; add them, give them by --covariate NAME=VALUE or NAME=RASTER.tif"
            f"{'' if needed_by else ', or ask for u, which is without their effects'}."
        )
    source = request.points if isinstance(request.points, Path) else Path("--covariate")
    encodings = every_encoding(run.prepared, names.log_covariates, curved=names.curved)
    return effect_design(source, encodings, cells)


def as_given(
    encoding: Single, told: Any, points: Float[np.ndarray, "point 2"], crs: str | None
) -> Covariate:
    """One value for all places, a raster of them or, in Python, one for each."""
    if isinstance(told, Path) or (isinstance(told, str) and told.lower().endswith(RASTERS)):
        result = raster_values(Path(told), points, crs)
        is_category = isinstance(encoding, Category)
        return [f"{value:g}" for value in result] if is_category else result
    if isinstance(told, str | float | int):
        return repeat_covariate(encoding, told, len(points))
    every = list(told)
    if len(every) != len(points):
        raise RieszError(
            f"the covariate {encoding.name} has {len(every)} values for {len(points)} places."
        )
    return [str(one) for one in every] if isinstance(encoding, Category) else np.array(every, float)


def repeat_covariate(encoding: Single, value: str | float, count: int) -> Covariate:
    if isinstance(encoding, Category):
        return [str(value)] * count
    number = number_in(value) if isinstance(value, str) else float(value)
    if not np.isfinite(number):
        raise RieszError(
            f"the covariate {encoding.name} is given as {value!r}, but was fitted as a number: "
            "give one, with a decimal point, or a raster that ends in .tif."
        )
    return np.full(count, number)


def usual(encoding: Single) -> str | float:
    """The value for which effects are zero: the average, or the most frequent word."""
    if isinstance(encoding, Category):
        return encoding.first
    return float(np.exp(encoding.mean)) if encoding.log else encoding.mean


def usual_covariates(request: PredictionRequest) -> Note | None:
    """For which covariates a map holds that nobody named."""
    run, names = request.run, request.run.observations
    if request.points is not None or not names.covariates:
        return None
    left = [
        f"{one.name} = {typical if isinstance(typical := usual(one), str) else f'{typical:.4g}'}"
        for one in encodings_of(run.prepared, names.log_covariates)
        if one.name not in {*covariates_of(request), *run.numbers.get("rasters", {})}
    ]
    return Note("usual_covariates", values=", ".join(left), points="--points") if left else None


def covariates_of(request: PredictionRequest) -> Mapping[str, Any]:
    return request.covariates or {}
