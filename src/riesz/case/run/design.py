"""Covariates at the places of a prediction: as they are given, from a table, or from rasters.

No prediction of what was measured goes without them. Places in a table must have them, and maps say
for which values they hold.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from riesz.case.data.covariates import Category, Single, effect_design, encodings_of, every_encoding
from riesz.case.data.rows import Covariate, covariate_in
from riesz.case.run.request import PredictionRequest
from riesz.errors import FileFormatError, RieszError, any_of, nearest
from riesz.io.maps.raster import raster_values
from riesz.io.tables.numbers import number_in
from riesz.notes import Note

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
