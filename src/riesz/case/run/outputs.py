"""Predictions as files: tables, rasters, maps and hydrographs, by the ending of the file's name."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from riesz.case.run.folder import Run
from riesz.case.run.measurand import Measurand, measurements_layer, measurements_of
from riesz.case.run.request import GPKG, NC, PNG, TIF, VTU, PredictionRequest, Scene, format_times
from riesz.geometry.crs import project
from riesz.io.maps import raster
from riesz.io.maps.geopackage import arrows, contours, write_geopackage
from riesz.io.meshes.files import write_mesh
from riesz.io.store.files import csv_content, write_bytes
from riesz.mesh.grids import Grid, arrow_grid
from riesz.mesh.location import locate
from riesz.prediction.draws import PosteriorDraws
from riesz.problem.unknowns import FLUX, MEASUREMENT, STATE

PLOT = "riesz.plot"
"""Imported where a figure is drawn, since most files need none."""

MOST_PANELS, COLUMNS = 40, 3
"""More places are left out: name others by --points."""

MOST_ARROWS = 40
"""Of flow, along the longer side of the domain."""


def write_bands(scene: Scene, measured: Measurand, bands: Sequence[raster.Band]) -> list[Path]:
    """Write the file, and what goes with it; returns their names."""
    request, at, draws = scene.request, scene.at, scene.draws
    path, run, crs = request.out, request.run, request.run.crs
    tags = {"quantity": request.quantity, "statistic": request.stat}
    match request.suffix:
        case suffix if suffix == TIF and isinstance(at, Grid):
            return raster.write_raster_and_style(path, at, bands, crs, tags)
        case suffix if suffix == NC and isinstance(at, Grid):
            raster.write_netcdf(path, at, bands, crs=crs, attributes=tags, times=scene.times)
        case suffix if suffix == GPKG and isinstance(at, Grid):
            layers = {"contours": contours(at, bands), **flow_layer(request, draws)}
            measurements = measurements_of(measured, draws.observed, run.prepared.num_rows)
            layers["measurements"] = measurements_layer(measurements, measured.unit)
            write_geopackage(path, layers, crs=crs)
        case suffix if suffix == VTU:
            # Values at nodes; those of fluxes are constant on cells.
            place = "cell_data" if request.quantity == FLUX else "point_data"
            write_mesh(path, draws.mesh, **{place: {band.label: band.values for band in bands}})
        case suffix if suffix == PNG:
            write_hydrographs(scene, measured, bands)
        case _:
            write_predictions_csv(scene, bands)
    return [path]


def flow_layer(request: PredictionRequest, draws: PosteriorDraws) -> dict[str, Any]:
    """Where the quantity is the state, or what was measured, the mean flux that it drives."""
    if request.quantity in draws.names or draws.flux is None:
        return {}
    points = arrow_grid(draws.mesh, MOST_ARROWS).points
    return {"flow": arrows(points, draws.flux_at(locate(draws.mesh, points)))}


def map_points(run: Run, points: Float[np.ndarray, "place 2"]) -> Float[np.ndarray, "place 2"]:
    """In the coordinates of the columns that they are named by."""
    own = run.observations.crs
    return points if own is None or run.crs is None else project(points, run.crs, own)


def write_predictions_csv(scene: Scene, bands: Sequence[raster.Band]) -> None:
    """A CSV file: sites, coordinates and dates, then the values, with all their digits.

    Rows of one place follow each other, date by date. A table of places keeps all its columns and
    rows; there are no values where a row lies outside the domain.
    """
    run, rows = scene.request.run, scene.request.rows
    names, at, points = run.observations, scene.at, map_points(run, scene.points)
    columns: dict[str, list[Float[np.ndarray, " place"]]] = {}
    for band in bands:
        inside = band.values[at.inside] if isinstance(at, Grid) else band.values
        columns.setdefault(band.name, []).append(inside)
    values = {name: np.stack(each, axis=1).ravel().tolist() for name, each in columns.items()}
    times = None if scene.paired else scene.times
    when = [[]] if times is None else [[word] for word in format_times(times)]
    added = [*([] if times is None else [names.date or "date"]), *values]
    if rows is None:
        header = [*([names.site or "site"] if scene.sites else []), names.x, names.y]
        called = [[site] for site in scene.sites] if scene.sites else [[]] * len(points)
        cells = [[*own, *point] for own, point in zip(called, points.tolist(), strict=True)]
        inside = [True] * len(points)
    else:
        table, inside = rows.table, rows.inside.tolist()
        kept = [i for i, name in enumerate(table.header) if name not in added]
        header = [table.header[i] for i in kept]
        cells = [[row[i] if i < len(row) else "" for i in kept] for row in table.rows]
    result, nothing = zip(*values.values(), strict=True), [""] * len(values)
    lines = (
        [*own, *date, *(next(result) if is_inside else nothing)]
        for own, is_inside in zip(cells, inside, strict=True)
        for date in when
    )
    write_bytes(scene.request.out, csv_content([*header, *added], lines, "\r\n"))


def write_hydrographs(scene: Scene, measured: Measurand, bands: Sequence[raster.Band]) -> None:
    """Mean and 95 % interval of the quantity in time, at each place."""
    plot, request = import_module(PLOT), scene.request
    count = min(len(scene.points), MOST_PANELS)
    columns = min(COLUMNS, count)
    figure, panels = plot.new_figure(columns, -(-count // columns), width=3.6, height=2.3)
    mean, low, high = (
        np.stack([band.values for band in own])
        for own in (bands[i::3] for i in range(3))  # as a request has them for a figure
    )
    data, label = request.run.prepared, measured.label
    is_logarithm = request.quantity == STATE and measured.transform is not None
    for place, panel in enumerate(panels[:count]):
        point, read = scene.points[place], None
        here: Bool[np.ndarray, " row"] = (data.points == point).all(axis=1)
        # Values of another unit than the readings have stand alone.
        if data.times is not None and not is_logarithm:
            read = data.times.rows(here).values(), np.asarray(measured.of(data.values[here]))
        ends = (low[:, place], high[:, place])
        plot.draw_hydrograph(panel, scene.times, mean[:, place], ends, read=read)
        site = scene.sites[place] if scene.sites else f"{point[0]:.7g}, {point[1]:.7g}"
        panel.set_title(site, fontsize=9)
        panel.tick_params(labelsize=7)
    for panel in panels[count:]:
        panel.set_visible(False)
    figure.supylabel(measured.state if is_logarithm else label, fontsize=9)
    what = "a new measurement" if request.quantity == MEASUREMENT else "without noise"
    figure.suptitle(f"mean and 95 % interval, {what}; dots were measured", fontsize=9)
    plot.save_figure(request.out, figure)
