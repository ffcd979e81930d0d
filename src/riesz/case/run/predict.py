"""Predictions from a run: statistics of a quantity at places, or its draws, as files hold them.

They are made from the draws that a run keeps, by interpolation: nothing is solved or compiled,
except for fluxes, for other dates than those that are kept, and for draws that are not.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from riesz.case.data.rows import check_inside_mesh, inside_of, plain_rows, rows_at_places
from riesz.case.options import PredictOptions
from riesz.case.run.design import check_given_covariates, design_at, usual_covariates
from riesz.case.run.folder import PROBLEM_OF_RUN, Run
from riesz.case.run.measurand import Measurand, measurand_of, noise_note
from riesz.case.run.outputs import write_bands
from riesz.case.run.request import (
    PNG,
    VTU,
    PlaceRows,
    PredictionRequest,
    Scene,
    Then,
    Where,
    check_request,
    check_request_places,
    request_of,
    statistics_in,
)
from riesz.errors import FileFormatError, RieszError, nearest
from riesz.io.maps.raster import Band, bands_of, finite_range
from riesz.io.tables.layers import TextTable, read_table
from riesz.mesh.grids import Grid
from riesz.mesh.grids import grid as cells_over
from riesz.mesh.location import locate
from riesz.mesh.mesh import Mesh
from riesz.notes import Note
from riesz.observe.sites import UNREAD, SiteErrors
from riesz.prediction.draws import PosteriorDraws
from riesz.prediction.new_points import new_points
from riesz.prediction.statistics import Prediction, over_places
from riesz.problem.unknowns import FLUX, MEASUREMENT, STATE, VALUE

DATED = "riesz.case.run.in_time"
"""What knows of dates: imported where they are asked for, since it takes as long as a map."""

MOST_CELLS = 2e7
"""Of a grid, which is held in memory."""


class PredictedBands(NamedTuple):
    """What a file of a prediction is made of."""

    scene: Scene
    measured: Measurand
    bands: list[Band]
    notes: tuple[Note, ...]


@dataclass(frozen=True, eq=False)
class RunPrediction:
    """A quantity under the posterior of a run, computed when it is looked at or saved."""

    run: Run
    options: PredictOptions

    @cached_property
    def values(self) -> dict[str, Float[np.ndarray, "..."]]:
        """Each statistic, or each draw, by the name that files have: at the places, on the grid or,
        where nothing says where, at the nodes of the mesh; of several dates, one after the other.
        """
        request = self.request(Path("places.csv"))
        if not (request.given or request.is_at_observed):
            request = replace(request, out=Path("nodes.vtu"))
        statistics_in(request.stat)
        check_request_places(request)
        dates: dict[str, list[Float[np.ndarray, "*shape"]]] = {}
        for band in self.compute(request).bands:
            dates.setdefault(band.name, []).append(band.values)
        return {name: each[0] if len(each) == 1 else np.stack(each) for name, each in dates.items()}

    def save(self, out: Path | str) -> dict[str, Any]:
        """Write a file, its kind by its ending: .csv, .tif, .gpkg, .nc, .vtu or .png.

        A .vtu file holds the nodes of the mesh, and a .png file shows hydrographs. Returns in short
        what was written.
        """
        request = self.request(Path(out))
        check_request(request)
        scene, measured, bands, notes = self.compute(request)
        written = write_bands(scene, measured, bands)
        is_measured = request.quantity in (VALUE, MEASUREMENT)
        usual = usual_covariates(scene.request) if is_measured else None
        first = bands[0].values
        return {
            "out": str(request.out),
            "places": len(first[scene.at.inside] if isinstance(scene.at, Grid) else first),
            "dates": [then.when for then in scene.thens if then.when],
            "ranges": ranges_of(bands),
            "holds_for": usual and str(usual),
            "notes": list(map(str, notes)),
            "files": [str(path) for path in written],
        }

    def request(self, out: Path) -> PredictionRequest:
        return request_of(self.run, self.options, out, "array of points")

    def compute(self, request: PredictionRequest) -> PredictedBands:
        known = request.known
        check_quantity(known, request)
        request = with_rows(request, known.mesh)
        at, sites = places_for(request, known.mesh)
        if request.changes is not None:
            request = replace(request, run=self.run.scenario(request.changes))
        scene = scene_of(request, at, sites)
        measured = measurand_of(self.run.observations).with_link(known.shifts.scatter)
        bands = [band for then in scene.thens for band in bands_then(scene, then, measured)]
        of_noise = noise_note(self.run.observations, known.shifts, request.quantity)
        of_places = () if request.rows is None else request.rows.notes
        notes = (*of_places, *request.run.notes, of_noise, unread_note(scene))
        return PredictedBands(scene, measured, bands, tuple(one for one in notes if one))


def ranges_of(bands: Sequence[Band]) -> dict[str, list[float]]:
    """The smallest and the largest value of each name, at all dates."""
    result: dict[str, list[float]] = {}
    for band in bands:
        low, high = finite_range(band)
        ends = result.setdefault(band.name, [low, high])
        result[band.name] = [min(ends[0], low), max(ends[1], high)]
    return result


def check_dates(request: PredictionRequest) -> None:
    if request.run.time is None and (request.at is not None or request.suffix == PNG):
        asked = "a hydrograph" if request.at is None else "dates"
        raise RieszError(
            f"{request.run.folder} is of a steady state, and {asked} were asked for: only a run of "
            "a problem file with [time] has them."
        )
    if request.quantity not in (MEASUREMENT, VALUE, STATE) and request.has_dates:
        raise RieszError(
            f"{request.quantity} does not change in time: leave dates out, and ask for a file that "
            "is no hydrograph."
        )


def scene_of(request: PredictionRequest, at: Where, sites: Sequence[str]) -> Scene:
    run = request.run
    if request.has_dates:
        scene = import_module(DATED).scene_in_time(request, at, sites)
    else:
        last = None if run.time is None else import_module(DATED).axis_of(run).times[-1:]
        draws = run.draws(request.num_draws, request.seed)
        scene = Scene(request, at, (Then(draws, times=last),), sites)
    errors = scene.draws.shifts.sites
    if errors is None or not isinstance(at, np.ndarray):
        return scene
    # Once for all dates that have the same.
    draws = {id(then.draws): then.draws for then in scene.thens}
    draws = {key: run.with_residuals(one) for key, one in draws.items()}
    thens = tuple(then._replace(draws=draws[id(then.draws)]) for then in scene.thens)
    return replace(scene, thens=thens, numbers=site_numbers(run, errors, at, sites))


def site_numbers(
    run: Run, errors: SiteErrors, points: Float[np.ndarray, "place 2"], names: Sequence[str]
) -> Int[np.ndarray, " place"]:
    """Which of the observed sites places are: by their names, or else by where they are."""
    if not names or run.prepared.sites is None:
        return errors.numbers_at(points)
    known = {name: number for number, name in enumerate(sorted(set(run.prepared.sites)))}
    return np.array([known.get(name, UNREAD) for name in names], int)


def unread_note(scene: Scene) -> Note | None:
    """That predictions at places without readings do not know the level of the site."""
    numbers, total = scene.numbers, len(scene.points)
    if scene.draws.shifts.sites is None or scene.request.quantity != MEASUREMENT:
        return None
    unread = total if numbers is None else int((numbers == UNREAD).sum())
    which = "all" if unread == total else f"{unread} of {total}"
    return Note("places_unread", which=which) if unread else None


def check_quantity(draws: PosteriorDraws, request: PredictionRequest) -> None:
    """Raise where there is no such quantity, or it cannot go into the file."""
    name = request.quantity
    known = (MEASUREMENT, VALUE, STATE, FLUX, *draws.names)
    if name not in known:
        raise RieszError(
            f"there is no quantity {name!r}: {nearest(name, known)}It may be measurement, what a "
            "new one would read; value, the same without noise; u, the state; flux; or one of the "
            f"unknowns {', '.join(draws.names)}."
        )
    if name == FLUX and draws.flux is None:
        raise RieszError(
            "there is no flux to map: the equation is one in time, or no term of it moves anything."
        )
    if request.suffix == VTU and draws.is_number(name):
        raise RieszError(
            f"{request.out}: {name} is a number, not a function of place: write it to a .csv, "
            "at points or on a grid."
        )


def bands_then(scene: Scene, then: Then, measured: Measurand) -> list[Band]:
    """Each statistic of each component of the quantity, or each draw, at one of the dates."""
    request, at = scene.request, scene.at
    name, result = request.quantity, predict_then(scene, then, measured)
    unit, what = measured.unit_of(name), measured.describe(name)
    columns = [
        (one.name, one.of(result), f"{one.about} of {what}", one.unit(unit))
        for one in request.statistics
    ]
    draws = () if result.draws is None else result.draws
    columns += [(f"draw{i:04d}", draw, "", unit) for i, draw in enumerate(draws)]
    return [
        band
        for label, values, about, own in columns
        for band in bands_of(
            f"{name}_{label}",
            at.fill(values) if isinstance(at, Grid) else values,
            2 if isinstance(at, Grid) else 1,
            about=about,
            unit=own,
            when=then.when,
        )
    ]


def predict_then(scene: Scene, then: Then, measured: Measurand) -> Prediction:
    """The statistics that are asked for; where none are, every draw by itself, for which what is
    not shared between places is drawn for each."""
    request, draws = scene.request, then.draws
    name, points, wanted = request.quantity, scene.points, request.statistics
    quantiles = [level for one in wanted for level in one.quantiles]
    exceed = [value for one in wanted for value in one.exceed]
    if name == FLUX:  # of nodes, in the middle of each cell; of the first experiment
        return import_module(PROBLEM_OF_RUN).predict(
            *(request.run.posterior, name, None if scene.at is None else points),
            experiment=0,
            num_draws=draws.num_draws,
            seed=request.seed,
            quantiles=quantiles,
            exceed=exceed,
            keep_draws=not wanted,
        )
    is_measured = name in (VALUE, MEASUREMENT)
    there = new_points(
        draws,
        points,
        None if scene.at is None else locate(draws.mesh, points),
        design_at(request, points) if is_measured else None,
        given=then.states,
        seed=request.seed,
        together=bool(wanted),
        site=scene.numbers,
        when=then.times,
    )

    def values(part: slice) -> Float[np.ndarray, "draw place *components"]:
        drawn = there.values(name, part)
        return np.asarray(measured.of(drawn)) if is_measured else drawn

    sizes = len(points), draws.num_draws
    return over_places(values, *sizes, quantiles, exceed, keep_draws=not wanted)


def places_for(request: PredictionRequest, mesh: Mesh) -> tuple[Where, Sequence[str]]:
    """And the sites there, where they are the observed ones and have names."""
    run = request.run
    if request.suffix == VTU:
        return None, ()
    if request.is_at_observed:  # each place once, with the first site there
        points, first = np.unique(run.prepared.points, axis=0, return_index=True)
        sites = run.prepared.sites
        return points, () if sites is None else [sites[row] for row in first]
    rows, site = request.rows, run.observations.site
    is_named = rows is not None and run.prepared.sites is not None and site in rows.table.header
    sites = rows.within.words(str(site)) if rows is not None and is_named else ()
    return places_at(request, mesh), sites


def with_rows(request: PredictionRequest, mesh: Mesh) -> PredictionRequest:
    """With the file of points read, once for all; raises where none lies in the domain, or what is
    given beside has no bearing on it."""
    if isinstance(request.points, Path):
        request = replace(request, rows=place_rows(request.points, request.run, mesh))
    check_dates(request)
    check_given_covariates(request)
    return request


def place_rows(path: Path, run: Run, mesh: Mesh) -> PlaceRows:
    names = run.observations
    table = read_table(path, value=names.y)
    axes, sites = (names.x, names.y), run.prepared.sites
    if sites is not None and names.site in table.header and not set(axes) <= set(table.header):
        numbers = places_of_sites(table, str(names.site), sites, run.prepared.points)
        rows = plain_rows(table.path, numbers, lines=table.lines, place=table.place, axes=axes)
    else:
        rows = rows_at_places(table, axes, crs=table.crs or names.crs).within(run.crs)
    inside = inside_of(mesh, rows.points)
    if not inside.any():
        check_inside_mesh(rows, mesh)
    return PlaceRows(table, inside, rows.points[inside])


def places_of_sites(
    table: TextTable, name: str, sites: Sequence[str], points: Float[np.ndarray, "row 2"]
) -> Float[np.ndarray, "place 2"]:
    """Where the sites of a table without coordinates are, as the readings tell."""
    first = dict(zip(reversed(sites), points[::-1], strict=True))
    for row, site in enumerate(table.words(name)):
        if site not in first:
            raise FileFormatError(
                f"{table.at(row)}: {name} is {site!r}, of which there are no readings, and the "
                f"table has no coordinates: {nearest(site, list(first))}Give those of each row."
            )
    return np.array([first[site] for site in table.words(name)])


def places_at(request: PredictionRequest, mesh: Mesh) -> Where:
    if request.rows is not None:
        return request.rows.points
    if isinstance(request.points, np.ndarray):
        names, places = request.run.observations, request.points
        rows = plain_rows(Path("points"), places, place="row", axes=(names.x, names.y))
        check_inside_mesh(rows, mesh)
        return rows.points
    if request.grid is None:
        if request.cell is not None and request.cell > 0:
            # A cell that is far too small is told before there is an array of all of them.
            check_num_places(float(np.prod(np.ptp(mesh.nodes, axis=0) / request.cell)))
        return cells_over(mesh, cell=request.cell)
    written = "x".join(map(str, request.grid)) if isinstance(request.grid, tuple) else request.grid
    shape = re.fullmatch(r"(\d{1,6})x(\d{1,6})", written)
    if shape is None:
        raise RieszError(f"the grid is {written!r}: give cells along x and y, such as 80x60.")
    columns, rows = int(shape[1]), int(shape[2])
    check_num_places(columns * rows)
    return cells_over(mesh, (columns, rows))


def check_num_places(count: float | int) -> None:
    if count > MOST_CELLS:
        raise RieszError(
            f"the grid would have {count:.3g} cells: take larger ones, at most {MOST_CELLS:.0e}."
        )
