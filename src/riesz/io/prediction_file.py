"""Predictions as files: tables of points, or rasters, by the ending of the file's name."""

import csv
import io
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from riesz.errors import FileFormatError, RieszError
from riesz.infer.grid import Grid, grid
from riesz.infer.posterior import Posterior
from riesz.infer.predict import NUM_DRAWS, predict
from riesz.infer.prediction import Prediction
from riesz.io.observations_file import check_inside, read_columns
from riesz.io.raster import rasterio_modules, write_raster
from riesz.io.run_folder import GOES_WITH, Run, read_run
from riesz.io.whole_file import replacing
from riesz.mesh.mesh import Mesh

SUFFIXES = (".csv", ".tif")

MOST_CELLS = 2e7
"""Of a grid, which is held in memory."""

Bands = list[tuple[str, Float[np.ndarray, "*shape"]]]
"""What a vector's components, or a single number, are called, and their values."""


@dataclass(frozen=True)
class Statistic:
    """What is told of a quantity's distribution at each place."""

    name: str
    quantiles: tuple[float, ...]
    exceed: tuple[float, ...]
    of: Callable[[Prediction], Float[np.ndarray, "*shape"]]


def statistic(text: str) -> Statistic:
    """`mean`, `sd`, a quantile in percent such as `q05` or `q97.5`, or `exceed:VALUE`, the
    probability of more; what is written is named by the text given."""
    if text == "mean":
        return Statistic(text, (), (), lambda found: found.mean)
    if text == "sd":
        return Statistic(text, (), (), lambda found: found.sd)
    percent = re.fullmatch(r"q([0-9]{2}(\.[0-9]+)?)", text)
    level = float(percent[1]) / 100 if percent else 0.0
    if 0 < level < 1:
        return Statistic(text, (level,), (), lambda found: found.quantiles[level])
    number = re.fullmatch(r"exceed:([-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?)", text)
    value = float(number[1]) if number else math.inf
    if number and math.isfinite(value):
        name = f"exceed_{number[1]}"
        return Statistic(name, (), (value,), lambda found: found.exceedance[value])
    raise RieszError(
        f"--stat is {text!r}: give mean, sd, a quantile in percent between 0 and 100, such as q05 "
        "or q97.5, or exceed:VALUE with a finite number, such as exceed:1500."
    )


@dataclass(frozen=True)
class PredictionRequest:
    """What is to be predicted from which run, where, and into which file."""

    run: Path
    out: Path
    quantity: str = "u"
    stat: str = "mean"
    points: Path | None = None
    grid: str | None = None
    cell: float | None = None
    num_draws: int = NUM_DRAWS
    seed: int = 0


def write_prediction(request: PredictionRequest) -> dict[str, Any]:
    """Predict from a run folder and write a file; returns what was written, in short."""
    check_request(request)
    return write_prediction_of(read_run(request.run), request)


def write_prediction_of(run: Run, request: PredictionRequest) -> dict[str, Any]:
    """The same from a run that was read."""
    stat = statistic(request.stat)
    names = run.case.tables.observations
    at = wanted_places(request, run, (names.x, names.y))
    bands = predicted(request, stat, run.posterior, at)
    if isinstance(at, Grid) and is_raster(request.out):
        tags = {"quantity": request.quantity, "statistic": stat.name}
        write_raster(request.out, at, bands, crs=run.case.tables.crs, tags=tags)
    inside = bands
    if isinstance(at, Grid):
        inside = [(label, values[at.inside]) for label, values in bands]
    if not is_raster(request.out):
        points = at.points if isinstance(at, Grid) else at
        write_columns(request.out, (names.x, names.y), points, inside)
    ranges = {label: [float(v.min()), float(v.max())] for label, v in inside}
    return {
        "out": str(request.out),
        "places": len(inside[0][1]),
        "ranges": ranges,
        "notes": [*run.posterior.notes, *run.notes],
    }


def predicted(
    request: PredictionRequest,
    stat: Statistic,
    posterior: Posterior,
    at: Grid | Float[np.ndarray, "point 2"],
) -> Bands:
    """The statistic of each component of the quantity."""
    found = predict(
        posterior,
        request.quantity,
        at,
        num_draws=request.num_draws,
        seed=request.seed,
        quantiles=stat.quantiles,
        exceed=stat.exceed,
    )
    name = f"{request.quantity}_{stat.name}"
    return named_bands(name, stat.of(found), 2 if isinstance(at, Grid) else 1)


def is_raster(path: Path) -> bool:
    return path.suffix.lower() == ".tif"


def check_request(request: PredictionRequest) -> None:
    """Raise, before any work, where words make no sense or the file could not be written."""
    statistic(request.stat)
    check_places(request)
    check_target(request)


def check_places(request: PredictionRequest) -> None:
    given = [w for w in ("points", "grid", "cell") if getattr(request, w) is not None]
    if len(given) != 1:
        found = " and ".join(f"--{word}" for word in given) or "none of them"
        raise RieszError(f"say where by one of --points, --grid or --cell, not by {found}.")


def check_target(request: PredictionRequest) -> None:
    path, suffix = request.out, request.out.suffix.lower()
    if suffix not in SUFFIXES:
        raise FileFormatError(
            f"{path}: predictions are written to files that end in {' or '.join(SUFFIXES)}, not in "
            f"{path.suffix!r}."
        )
    if not path.absolute().parent.is_dir():
        raise FileFormatError(f"{path} cannot be written: there is no folder {path.parent}.")
    if path.is_dir():
        raise FileFormatError(f"{path} is a folder: give the name of a file.")
    inputs = [request.run / name for name in GOES_WITH]
    inputs += [] if request.points is None else [request.points]
    if path.exists() and any(one.exists() and path.samefile(one) for one in inputs):
        raise FileFormatError(f"{path} is what is read here: write to another file.")
    if is_raster(path):
        rasterio_modules()
        if request.points is not None:
            raise FileFormatError(
                f"{path}: a raster needs a grid: give --grid or --cell, or write points to a .csv."
            )


def wanted_places(
    request: PredictionRequest, run: Run, axes: tuple[str, str]
) -> Grid | Float[np.ndarray, "point 2"]:
    mesh = run.case.problem.forward.space.mesh
    if request.points is not None:
        columns = read_columns(request.points, axes)
        check_inside(columns, mesh)
        return columns.points
    if request.grid is None:
        check_cells(mesh, request.cell)
        return grid(mesh, cell=request.cell)
    shape = re.fullmatch(r"(\d{1,6})x(\d{1,6})", request.grid)
    if shape is None:
        raise RieszError(f"--grid is {request.grid!r}: give cells along x and y, such as 80x60.")
    columns, rows = int(shape[1]), int(shape[2])
    check_size(columns * rows)
    return grid(mesh, (columns, rows))


def check_cells(mesh: Mesh, cell: float | None) -> None:
    """A cell that is far too small is told before there is an array of all of them."""
    if cell is not None and cell > 0:
        check_size(float(np.prod(np.ptp(mesh.nodes, axis=0) / cell)))


def check_size(count: float | int) -> None:
    if count > MOST_CELLS:
        raise RieszError(
            f"the grid would have {count:.3g} cells: take larger ones, at most {MOST_CELLS:.0e}."
        )


def named_bands(name: str, values: Float[np.ndarray, "..."], num_axes: int) -> Bands:
    """One entry a component, numbered where there are several."""
    components = values.reshape(*values.shape[:num_axes], -1)
    count = components.shape[-1]
    labels = [name] if count == 1 else [f"{name}_{i}" for i in range(count)]
    return [(label, components[..., i]) for i, label in enumerate(labels)]


def write_columns(
    path: Path, axes: tuple[str, str], points: Float[np.ndarray, "point 2"], bands: Bands
) -> None:
    """A CSV file: coordinates, then the values, with all their digits."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow([*axes, *(name for name, _ in bands)])
    writer.writerows(np.column_stack([points, *(values for _, values in bands)]).tolist())
    with replacing(path) as file:
        file.write(text.getvalue().encode())
