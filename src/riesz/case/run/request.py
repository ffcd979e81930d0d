"""What a prediction is asked for, what can be said against it before any work, and its places."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from riesz.case.data.oddities import format_rows
from riesz.case.data.rows import MEASUREMENTS, RIVERS, SERIES, WELLS
from riesz.case.options import PredictOptions
from riesz.case.run.folder import DRAWS, REQUIRED_FILES, Run
from riesz.errors import FileFormatError, RieszError
from riesz.geometry.lines import as_points
from riesz.io.maps.geopackage import geopackage_modules
from riesz.io.maps.raster import netcdf_modules, rasterio_modules
from riesz.io.store.files import check_target
from riesz.io.tables.dates import format_dates
from riesz.io.tables.layers import TextTable
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


def check_suffix(request: PredictionRequest) -> None:
    path, suffix = request.out, request.suffix
    check_output_path(request, "predictions are", SUFFIXES)
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


def check_output_path(
    request: PredictionRequest, what: str = "", endings: Sequence[str] = ()
) -> None:
    path = request.out
    check_target(path, what, endings)
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
