"""Predictions as files: tables, rasters and maps, by the ending of the file's name."""

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from riesz.case.data.covariates import design_of, encodings_of
from riesz.case.data.prepared import Columns, check_inside, covariate_in, read_columns
from riesz.case.run.folder import Run, read_run
from riesz.case.run.measured import (
    LOG,
    VALUE,
    Measured,
    measured_as,
    measurements_layer,
    measurements_of,
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
from riesz.diagnose.summary import at_sensors
from riesz.errors import FileFormatError, RieszError
from riesz.fem.places import Places
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
from riesz.io.tables.layers import read_table
from riesz.posterior.posterior import is_field
from riesz.prediction.predict import (
    NUM_DRAWS,
    Plain,
    Sampler,
    located,
    predict,
    quantity_draws,
    statistics,
)
from riesz.prediction.quantity import Grid, StateAt, arrow_grid, quantity_named
from riesz.prediction.quantity import grid as cells_over
from riesz.problem.problem import FLUX, STATE, InverseProblem
from riesz.spelling import nearest

MOST_CELLS = 2e7
"""Of a grid, which is held in memory."""

MOST_ARROWS = 40
"""Of flow, along the longer side of the domain."""

Where = Grid | Float[np.ndarray, "point 2"] | None
"""A grid, points, or the mesh itself."""


class ValueAt(eqx.Module):
    """What was measured, from the state: with all that shifts it, and the exponential where the
    state is a logarithm. Without covariates, at average numbers and the most frequent words."""

    where: Places | None
    points: Float[Array, "point 2"]
    design: Float[Array, "point effect"] | None
    transform: str | None = eqx.field(static=True)

    def __call__(
        self, key: PRNGKeyArray, problem: InverseProblem, state: Float[Array, " node"], z: PyTree
    ) -> Float[Array, " point"]:
        states = StateAt(self.where)(problem, state, z)
        values = problem.likelihood.elsewhere(key, states, z, self.points, self.design)
        return jnp.exp(values) if self.transform == LOG else values


def write_prediction(
    run: Run | Path | str,
    out: Path | str,
    *,
    quantity: str = STATE,
    stat: str = "mean",
    points: Any = None,
    grid: str | tuple[int, int] | None = None,
    cell: float | None = None,
    num_draws: int = NUM_DRAWS,
    seed: int = 0,
) -> dict[str, Any]:
    """Predict from a run and write a file, its kind by its ending: .csv, .tif, .gpkg, .nc, .vtu.

    The quantity is u, value (what was measured), flux or an unknown; the statistic mean, sd, a
    quantile such as q05, exceed:VALUE, several by commas, all, or ensemble. Where is said by one of
    `points`, a file of places or an array, `grid`, cells along x and y, and `cell`, their size; a
    .vtu file holds the nodes of the mesh. Returns in short what was written.
    """
    folder = run.folder if isinstance(run, Run) else Path(run)
    places = Path(points) if isinstance(points, str) else points
    if places is not None and not isinstance(places, Path):
        places = as_points(places, "array of points")
    request = PredictionRequest(
        folder, Path(out), quantity, stat, places, grid, cell, num_draws, seed
    )
    check_request(request)
    run = run if isinstance(run, Run) else read_run(folder)
    measured = measured_as(run.case)
    check_quantity(run.case.problem, request)
    at = wanted_places(request, run)
    bands = predicted(request, run, measured, at)
    written = write_bands(request, run, measured, at, bands)
    inside = bands[0].values[at.inside] if isinstance(at, Grid) else bands[0].values
    return {
        "out": str(request.out),
        "places": len(inside),
        "ranges": {band.name: list(finite_range(band)) for band in bands},
        "notes": [*run.posterior.notes, *run.notes, *notes_on(request, run)],
        "files": [str(path) for path in written],
    }


def check_quantity(problem: InverseProblem, request: PredictionRequest) -> None:
    """Raise, before any draw, where a quantity is not known, or has no place in such a file."""
    name = request.quantity
    known = (STATE, VALUE, FLUX, *problem.latents.names)
    if name not in known:
        raise RieszError(
            f"there is no quantity {name!r}: {nearest(name, known)}It may be u, the state; value, "
            "what was measured; flux; or one of the unknowns "
            f"{', '.join(problem.latents.names)}."
        )
    is_number = name in problem.latents.names and not is_field(problem, name)
    if request.suffix == VTU and is_number:
        raise RieszError(
            f"{request.out}: {name} is a number, not a function of place: write it to a .csv."
        )


def predicted(request: PredictionRequest, run: Run, measured: Measured, at: Where) -> list[Band]:
    """Each statistic of each component of the quantity, or each draw."""
    posterior, name = run.posterior, request.quantity
    sampler = sampler_of(request, run, measured, at)
    num_axes = 2 if isinstance(at, Grid) else 1
    unit = measured.unit_of(name)
    if request.stat == ENSEMBLE:
        draws = quantity_draws(posterior, sampler, num_draws=request.num_draws, seed=request.seed)
        return [
            band
            for i, draw in enumerate(draws)
            for band in bands_of(f"{name}_draw{i:04d}", filled(draw, at), num_axes, unit=unit)
        ]
    wanted = statistics_in(request.stat)
    found = statistics(
        posterior,
        sampler,
        at,
        request.num_draws,
        request.seed,
        [level for one in wanted for level in one.quantiles],
        [value for one in wanted for value in one.exceed],
    )
    return [
        band
        for one in wanted
        for band in bands_of(
            f"{name}_{one.name}",
            one.of(found),
            num_axes,
            about=f"{one.about} of {measured.name if name == VALUE else name}",
            unit=one.unit(unit),
        )
    ]


def sampler_of(request: PredictionRequest, run: Run, measured: Measured, at: Where) -> Sampler:
    problem, name = run.case.problem, request.quantity
    where = located(problem, at, None)
    if name != VALUE or name in problem.latents.names:
        return Plain(quantity_named(problem, name, where))
    points = at.points if isinstance(at, Grid) else at
    points = problem.forward.space.mesh.nodes if points is None else points
    return ValueAt(where, jnp.asarray(points), design_at(request, run), measured.transform)


def design_at(request: PredictionRequest, run: Run) -> Float[Array, "point effect"] | None:
    """Covariates in the table of places; a grid has none."""
    names, prepared = run.case.tables.observations, run.case.prepared
    if request.points is None or not names.covariates:
        return None
    if not isinstance(request.points, Path):
        raise RieszError(
            "the quantity value needs the covariates at its places: give points as a file that has "
            "them, or ask for u, which is without their effects."
        )
    table = read_table(request.points, value=names.y)
    missing = [name for name in names.covariates if name not in table.header]
    if missing:
        raise FileFormatError(
            f"{request.points} has no column {', '.join(missing)}: --quantity value needs the "
            "covariates at its places; add them, or ask for u, which is without their effects."
        )
    cells = {name: covariate_in(table, name) for name in names.covariates}
    encodings = encodings_of(prepared, names.log_covariates)
    return jnp.asarray(design_of(request.points, encodings, cells))


def notes_on(request: PredictionRequest, run: Run) -> list[str]:
    """What is not seen in the numbers: which covariates they are for."""
    names = run.case.tables.observations.covariates
    if request.quantity != VALUE or not names or request.points is not None:
        return []
    return [
        f"values are for average numbers and the most frequent words of {', '.join(names)}: "
        "a table of places, by --points, may hold these columns"
    ]


def filled(values: Float[np.ndarray, "..."], at: Where) -> Float[np.ndarray, "..."]:
    return at.filled(values) if isinstance(at, Grid) else values


def write_bands(
    request: PredictionRequest, run: Run, measured: Measured, at: Where, bands: Sequence[Band]
) -> list[Path]:
    """Write the file, and what goes with it; returns their names."""
    path, crs = request.out, run.case.tables.crs
    tags = {"quantity": request.quantity, "statistic": request.stat}
    match request.suffix:
        case suffix if suffix == TIF and isinstance(at, Grid):
            write_raster(path, at, bands, crs=crs, tags=tags)
            write_style(style_of(path), *colour_range(bands))
            return [path, style_of(path)]
        case suffix if suffix == NC and isinstance(at, Grid):
            write_netcdf(path, at, bands, crs=crs, attributes=tags)
        case suffix if suffix == GPKG and isinstance(at, Grid):
            layers = {"contours": contours(at, bands), **flow_layer(request, run)}
            drawn = quantity_draws(
                run.posterior, at_sensors, num_draws=request.num_draws, seed=request.seed
            )
            measurements = measurements_of(run.posterior.problem, measured, drawn)
            layers["measurements"] = measurements_layer(measurements, measured.unit)
            write_geopackage(path, layers, crs=crs)
        case suffix if suffix == VTU:
            mesh = run.case.problem.forward.space.mesh
            # Values at nodes; those of fluxes are constant on cells.
            place = "cell_data" if request.quantity == FLUX else "point_data"
            write_mesh(path, mesh, **{place: {band.name: band.values for band in bands}})
        case _:
            names = run.case.tables.observations
            inside = [b.values[at.inside] if isinstance(at, Grid) else b.values for b in bands]
            points = at.points if isinstance(at, Grid) else at
            assert points is not None  # only a mesh has no points, and goes to another file
            columns = dict(zip((band.name for band in bands), inside, strict=True))
            if names.crs is not None and crs is not None:
                points = projected(points, crs, names.crs)  # as the columns of these names are
            write_columns(path, (names.x, names.y), points, columns)
    return [path]


def flow_layer(request: PredictionRequest, run: Run) -> dict[str, Any]:
    """Where the quantity is the state, or what was measured, the mean flux that it drives."""
    if request.quantity not in (STATE, VALUE, FLUX):
        return {}
    spread = arrow_grid(run.case.problem, MOST_ARROWS)
    if spread is None:
        return {}
    found = predict(
        run.posterior,
        FLUX,
        spread.points,
        num_draws=request.num_draws,
        seed=request.seed,
        quantiles=(),
    )
    return {"flow": arrows(spread.points, found.mean)}


def wanted_places(request: PredictionRequest, run: Run) -> Where:
    if request.suffix == VTU:
        return None
    mesh = run.case.problem.forward.space.mesh
    if request.points is not None:
        names = run.case.tables.observations
        axes, places = (names.x, names.y), request.points
        if isinstance(places, Path):
            columns = read_columns(places, axes, own=names.crs, crs=run.case.tables.crs)
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
