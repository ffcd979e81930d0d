"""Predictions as files: tables, rasters and maps, by the ending of the file's name.

They are made from the draws that a run keeps, by interpolation: nothing is solved or compiled,
except for fluxes and for draws that are not kept.
"""

import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from riesz.case.data.prepared import Columns, check_inside, read_columns
from riesz.case.run.beside import check_covariates, design_at, holds_for
from riesz.case.run.folder import OPENED, Run, read_run
from riesz.case.run.measured import (
    MEASUREMENT,
    VALUE,
    Measured,
    measured_as,
    measurements_layer,
    measurements_of,
    noise_note,
)
from riesz.case.run.request import (
    ENSEMBLE,
    GPKG,
    NC,
    TIF,
    VTU,
    PredictionRequest,
    check_request,
    statistics_in,
)
from riesz.errors import RieszError
from riesz.geometry.crs import projected
from riesz.geometry.lines import as_points
from riesz.io.maps.geopackage import arrows, contours, write_geopackage
from riesz.io.maps.raster import (
    Band,
    bands_of,
    colour_range,
    finite_range,
    style_of,
    write_netcdf,
    write_raster,
    write_style,
)
from riesz.io.meshes.files import write_mesh
from riesz.io.store.files import write_bytes
from riesz.mesh.grid import Grid, arrow_grid
from riesz.mesh.grid import grid as cells_over
from riesz.mesh.locate import locate
from riesz.mesh.mesh import Mesh
from riesz.prediction.draws import PosteriorDraws
from riesz.prediction.elsewhere import elsewhere
from riesz.prediction.statistics import Prediction, over_places
from riesz.spelling import nearest

STATE, FLUX = "u", "flux"

MOST_CELLS = 2e7
"""Of a grid, which is held in memory."""

MOST_ARROWS = 40
"""Of flow, along the longer side of the domain."""

Where = Grid | Float[np.ndarray, "point 2"] | None
"""A grid, points, or the mesh itself."""

Drawn = Callable[[slice], Float[np.ndarray, "draw place *components"]]
"""Draws at some of the places."""


def write_prediction(
    run: Run | Path | str,
    out: Path | str,
    *,
    quantity: str = MEASUREMENT,
    stat: str = "mean",
    points: Any = None,
    grid: str | tuple[int, int] | None = None,
    cell: float | None = None,
    num_draws: int | None = None,
    seed: int = 0,
    covariates: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Predict from a run and write a file, its kind by its ending: .csv, .tif, .gpkg, .nc, .vtu.

    The quantity is measurement, what a new one would read, noise included; value, the same without
    noise; u, the state of the equation; flux, or an unknown. The statistic is mean, sd, median, a
    quantile such as q05, exceed:VALUE, several by commas, all, or ensemble. Where is said by one of
    `points`, a file of places or an array, `grid`, cells along x and y, and `cell`, their size; a
    .vtu file holds the nodes of the mesh. All draws that the run keeps are taken, or `num_draws` of
    them; more, and those of another `seed`, are computed. `covariates` gives values, rasters or,
    for an array of points, a value each, where a table of places has no such column; a map without
    is of average ones, as its `holds_for` says. Returns in short what was written.
    """
    folder = run.folder if isinstance(run, Run) else Path(run)
    places = Path(points) if isinstance(points, str) else points
    if places is not None and not isinstance(places, Path):
        places = as_points(places, "array of points")
    request = PredictionRequest(
        folder, Path(out), quantity, stat, places, grid, cell, num_draws, seed, covariates or {}
    )
    check_request(request)
    run = run if isinstance(run, Run) else read_run(folder)
    draws = run.draws(num_draws, seed)
    measured = measured_as(run.observations).linked(draws.shifts.scatter)
    check_quantity(draws, request)
    check_covariates(request.covariates, run)
    at = wanted_places(request, run, draws.mesh)
    bands = predicted(request, run, draws, measured, at)
    written = write_bands(request, run, draws, measured, at, bands)
    inside = bands[0].values[at.inside] if isinstance(at, Grid) else bands[0].values
    told = noise_note(run.observations, draws.shifts, quantity)
    return {
        "out": str(request.out),
        "places": len(inside),
        "ranges": {band.name: list(finite_range(band)) for band in bands},
        "holds_for": holds_for(request, run) if quantity in (VALUE, MEASUREMENT) else None,
        "notes": [*run.numbers.get("notes", ()), *run.notes, *([told] if told else [])],
        "files": [str(path) for path in written],
    }


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
            f"{request.out}: {name} is a number, not a function of place: write it to a .csv."
        )


def predicted(
    request: PredictionRequest, run: Run, draws: PosteriorDraws, measured: Measured, at: Where
) -> list[Band]:
    """Each statistic of each component of the quantity, or each draw."""
    name, num_axes = request.quantity, 2 if isinstance(at, Grid) else 1
    unit = measured.unit_of(name)
    if request.stat == ENSEMBLE:
        return [
            band
            for i, draw in enumerate(ensemble(request, run, draws, measured, at))
            for band in bands_of(f"{name}_draw{i:04d}", filled(draw, at), num_axes, unit=unit)
        ]
    found = statistics(request, run, draws, measured, at)
    return [
        band
        for one in statistics_in(request.stat)
        for band in bands_of(
            f"{name}_{one.name}",
            filled(one.of(found), at),
            num_axes,
            about=f"{one.about} of {spoken(name, measured)}",
            unit=one.unit(unit),
        )
    ]


def spoken(name: str, measured: Measured) -> str:
    told = {VALUE: measured.name, MEASUREMENT: f"a new measurement of {measured.name}"}
    return told.get(name, name)


def ensemble(
    request: PredictionRequest, run: Run, draws: PosteriorDraws, measured: Measured, at: Where
) -> Float[np.ndarray, "draw place *components"]:
    """Every draw by itself: what is not shared between places is drawn for each."""
    if request.quantity == FLUX:
        return import_module(OPENED).flux_draws(run.posterior, at, draws.num_draws, request.seed)
    sampler = drawn_at(request, run, draws, measured, at, together=False)
    return sampler(slice(None))


def statistics(
    request: PredictionRequest, run: Run, draws: PosteriorDraws, measured: Measured, at: Where
) -> Prediction:
    wanted = statistics_in(request.stat)
    quantiles = [level for one in wanted for level in one.quantiles]
    exceed = [value for one in wanted for value in one.exceed]
    if request.quantity == FLUX:
        settings = (draws.num_draws, request.seed, quantiles, exceed)
        points = at.points if isinstance(at, Grid) else at
        return import_module(OPENED).flux_statistics(run.posterior, points, *settings)
    sampler = drawn_at(request, run, draws, measured, at, together=True)
    num_places = len(points_of(draws.mesh, at))
    return over_places(sampler, num_places, draws.num_draws, quantiles, exceed)


def points_of(mesh: Mesh, at: Where) -> Float[np.ndarray, "place 2"]:
    points = at.points if isinstance(at, Grid) else at
    return mesh.nodes if points is None else points


def drawn_at(
    request: PredictionRequest,
    run: Run,
    draws: PosteriorDraws,
    measured: Measured,
    at: Where,
    *,
    together: bool,
) -> Drawn:
    """Draws of the quantity at places, some of them at a time."""
    name, points = request.quantity, points_of(draws.mesh, at)
    where = None if at is None else locate(draws.mesh, points)
    design = design_at(request, run, points) if name in (VALUE, MEASUREMENT) else None
    there = elsewhere(draws, points, where, design, seed=request.seed, together=together)

    def of(part: slice) -> Float[np.ndarray, "draw place *components"]:
        if name in draws.names:
            return there.unknown(name, part)
        if name == STATE:
            return there.states(part)
        values = there.expected(part) if name == VALUE else there.measured(part)
        return np.asarray(measured.of(values))

    return of


def filled(values: Float[np.ndarray, "..."], at: Where) -> Float[np.ndarray, "..."]:
    return at.filled(values) if isinstance(at, Grid) else values


def write_bands(
    request: PredictionRequest,
    run: Run,
    draws: PosteriorDraws,
    measured: Measured,
    at: Where,
    bands: Sequence[Band],
) -> list[Path]:
    """Write the file, and what goes with it; returns their names."""
    path, crs = request.out, run.crs
    tags = {"quantity": request.quantity, "statistic": request.stat}
    match request.suffix:
        case suffix if suffix == TIF and isinstance(at, Grid):
            write_raster(path, at, bands, crs=crs, tags=tags)
            write_style(style_of(path), *colour_range(bands))
            return [path, style_of(path)]
        case suffix if suffix == NC and isinstance(at, Grid):
            write_netcdf(path, at, bands, crs=crs, attributes=tags)
        case suffix if suffix == GPKG and isinstance(at, Grid):
            layers = {"contours": contours(at, bands), **flow_layer(request, draws)}
            measurements = measurements_of(measured, draws.observed, run.prepared.num_rows)
            layers["measurements"] = measurements_layer(measurements, measured.unit)
            write_geopackage(path, layers, crs=crs)
        case suffix if suffix == VTU:
            # Values at nodes; those of fluxes are constant on cells.
            place = "cell_data" if request.quantity == FLUX else "point_data"
            write_mesh(path, draws.mesh, **{place: {band.name: band.values for band in bands}})
        case _:
            names = run.observations
            inside = [b.values[at.inside] if isinstance(at, Grid) else b.values for b in bands]
            points = at.points if isinstance(at, Grid) else at
            assert points is not None  # only a mesh has no points, and goes to another file
            columns = dict(zip((band.name for band in bands), inside, strict=True))
            if names.crs is not None and crs is not None:
                points = projected(points, crs, names.crs)  # as the columns of these names are
            write_columns(path, (names.x, names.y), points, columns)
    return [path]


def flow_layer(request: PredictionRequest, draws: PosteriorDraws) -> dict[str, Any]:
    """Where the quantity is the state, or what was measured, the mean flux that it drives."""
    if request.quantity in draws.names or draws.flux is None:
        return {}
    points = arrow_grid(draws.mesh, MOST_ARROWS).points
    return {"flow": arrows(points, draws.flux_at(locate(draws.mesh, points)))}


def wanted_places(request: PredictionRequest, run: Run, mesh: Mesh) -> Where:
    if request.suffix == VTU:
        return None
    if request.points is not None:
        names = run.observations
        axes, places = (names.x, names.y), request.points
        if isinstance(places, Path):
            columns = read_columns(places, axes, own=names.crs, crs=run.crs)
        else:
            columns = Columns(Path("points"), axes, places, np.arange(len(places)), "row")
        check_inside(columns, mesh)
        return columns.points
    if request.grid is None:
        if request.cell is not None and request.cell > 0:
            # A cell that is far too small is told before there is an array of all of them.
            check_size(float(np.prod(np.ptp(mesh.nodes, axis=0) / request.cell)))
        return cells_over(mesh, cell=request.cell)
    written = "x".join(map(str, request.grid)) if isinstance(request.grid, tuple) else request.grid
    shape = re.fullmatch(r"(\d{1,6})x(\d{1,6})", written)
    if shape is None:
        raise RieszError(f"the grid is {written!r}: give cells along x and y, such as 80x60.")
    columns, rows = int(shape[1]), int(shape[2])
    check_size(columns * rows)
    return cells_over(mesh, (columns, rows))


def check_size(count: float | int) -> None:
    if count > MOST_CELLS:
        raise RieszError(
            f"the grid would have {count:.3g} cells: take larger ones, at most {MOST_CELLS:.0e}."
        )


def write_columns(
    path: Path,
    axes: tuple[str, str],
    points: Float[np.ndarray, "point 2"],
    columns: dict[str, Float[np.ndarray, " point"]],
) -> None:
    """A CSV file: coordinates, then the values, with all their digits."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow([*axes, *columns])
    writer.writerows(np.column_stack([points, *columns.values()]).tolist())
    write_bytes(path, text.getvalue().encode())
