"""Predictions as files: tables, rasters, maps and hydrographs, by the ending of the file's name."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from riesz.case.run.folder import Run
from riesz.case.run.hydrographs import write_hydrographs
from riesz.case.run.measured import Measured, measurements_layer, measurements_of
from riesz.case.run.request import FLUX, GPKG, NC, PNG, TIF, VTU, PredictionRequest
from riesz.case.run.scene import Scene
from riesz.geometry.crs import projected
from riesz.io.maps.geopackage import arrows, contours, write_geopackage
from riesz.io.maps.raster import (
    Band,
    colour_range,
    style_of,
    write_netcdf,
    write_raster,
    write_style,
)
from riesz.io.meshes.files import write_mesh
from riesz.io.store.files import write_bytes
from riesz.mesh.grid import Grid, arrow_grid
from riesz.mesh.locate import locate
from riesz.prediction.draws import PosteriorDraws

MOST_ARROWS = 40
"""Of flow, along the longer side of the domain."""


def write_bands(
    request: PredictionRequest, run: Run, scene: Scene, measured: Measured, bands: Sequence[Band]
) -> list[Path]:
    """Write the file, and what goes with it; returns their names."""
    path, crs, at, draws = request.out, run.crs, scene.at, scene.draws
    tags = {"quantity": request.quantity, "statistic": request.stat}
    match request.suffix:
        case suffix if suffix == TIF and isinstance(at, Grid):
            write_raster(path, at, bands, crs=crs, tags=tags)
            write_style(style_of(path), *colour_range(bands))
            return [path, style_of(path)]
        case suffix if suffix == NC and isinstance(at, Grid):
            write_netcdf(path, at, bands, crs=crs, attributes=tags, times=scene.times)
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
            write_hydrographs(request, run, scene, measured, bands)
        case _:
            write_table(path, run, scene, bands)
    return [path]


def flow_layer(request: PredictionRequest, draws: PosteriorDraws) -> dict[str, Any]:
    """Where the quantity is the state, or what was measured, the mean flux that it drives."""
    if request.quantity in draws.names or draws.flux is None:
        return {}
    points = arrow_grid(draws.mesh, MOST_ARROWS).points
    return {"flow": arrows(points, draws.flux_at(locate(draws.mesh, points)))}


def write_table(path: Path, run: Run, scene: Scene, bands: Sequence[Band]) -> None:
    """A CSV file: sites, coordinates and dates, then the values, with all their digits.

    Rows of one place follow each other, date by date.
    """
    names, at, points = run.observations, scene.at, scene.points
    if names.crs is not None and run.crs is not None:
        points = projected(points, run.crs, names.crs)  # as the columns of these names are
    columns: dict[str, list[Float[np.ndarray, " place"]]] = {}
    for band in bands:
        inside = band.values[at.inside] if isinstance(at, Grid) else band.values
        columns.setdefault(band.name, []).append(inside)
    count = len(scene.thens)
    leading: dict[str, Sequence[Any]] = {}
    if scene.sites:
        leading[names.site or "site"] = np.repeat(scene.sites, count).tolist()
    leading |= {
        name: np.repeat(points[:, i], count).tolist() for i, name in enumerate((names.x, names.y))
    }
    if scene.times is not None:
        leading[names.date or "date"] = scene.spelt if scene.paired else scene.spelt * len(points)
    values = {name: np.stack(each, axis=1).ravel().tolist() for name, each in columns.items()}
    write_columns(path, leading | values)


def write_columns(path: Path, columns: dict[str, Sequence[Any]]) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    write_bytes(path, text.getvalue().encode())
