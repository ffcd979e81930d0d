"""Further measurements beside the observations: the tables [[measurements]].

Each has a kind, what there is of it in the file or in a table of its own, and its own noise.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from pydantic import Field, model_validator

from riesz.case.data.rows import AXES, plain_rows
from riesz.case.data.schema import CRS
from riesz.case.file.noise import NoiseTable, likelihood_of, likelihood_values
from riesz.case.table import FileTable, NumberOrName, check_keys_of_kind, under
from riesz.errors import FileFormatError, any_of, error_context
from riesz.geometry.crs import project
from riesz.io.maps.outlines import read_features
from riesz.io.store.files import read_bytes
from riesz.io.tables.layers import read_table
from riesz.observe.likelihood import AbstractLikelihood
from riesz.observe.observables import (
    AbstractObservable,
    AtPoints,
    AverageAlong,
    AverageOver,
    CoefficientAt,
    DifferenceBetween,
    FluxAlong,
    FluxThrough,
    GradientAt,
    LogOf,
)
from riesz.observe.observations import Observations, observations

VALUE, AVERAGE, FLUX = "value", "average", "flux"
GRADIENT, DIFFERENCE, COEFFICIENT = "gradient", "difference", "coefficient"
ANGLE, OTHERS = "angle", ("to_x", "to_y")

SHAPES = ("region", "over", "along", "polygons", "lines")
"""Keys that say what an average is over: one of them."""

POINT_KEYS = ("file", "layer", "crs", "x", "y")
KEYS = {
    VALUE: POINT_KEYS,
    GRADIENT: (*POINT_KEYS, ANGLE),
    FLUX: (*POINT_KEYS, ANGLE, "through", "out_of"),
    DIFFERENCE: (*POINT_KEYS, *OTHERS),
    COEFFICIENT: (*POINT_KEYS, "of"),
    AVERAGE: (*SHAPES, "layer"),
}
"""What each kind takes beside its value, its noise and log."""

Points = Float[np.ndarray, "row 2"]


class MeasurementTable(FileTable):
    """One measurement by numbers, or a file of them by the names of its columns."""

    kind: Literal["value", "average", "flux", "gradient", "difference", "coefficient"] = Field(
        description="what was measured: value, average, flux, gradient, difference or coefficient"
    )
    value: NumberOrName = None
    noise: NoiseTable = Field(description="how well it was measured, as { sd = 0.1 }")
    log: bool = False
    file: str | None = None
    layer: str | None = None
    crs: CRS = None
    x: NumberOrName = None
    y: NumberOrName = None
    to_x: NumberOrName = None
    to_y: NumberOrName = None
    angle: NumberOrName = None
    through: str | None = None
    out_of: str | None = None
    of: str | None = None
    region: str | None = None
    over: list[list[float]] | None = None
    along: list[list[float]] | None = None
    polygons: str | None = None
    lines: str | None = None

    @model_validator(mode="after")
    def check(self):
        allowed = ("kind", "value", "noise", "log", *KEYS[self.kind])
        check_keys_of_kind(self, self.kind, allowed)
        if self.noise.has_sd and self.noise.sd is None:
            raise ValueError("lacks noise.sd: give a number, or the name of an unknown")
        if self.kind == AVERAGE:
            self.check_shape()
        elif self.through is None:
            self.check_points()
        self.check_value()
        return self

    def check_shape(self) -> None:
        given = [key for key in SHAPES if getattr(self, key) is not None]
        if len(given) != 1:
            raise ValueError(
                f"is an average and needs one of {any_of(SHAPES)}, but holds "
                f"{' and '.join(given) or 'none of them'}"
            )
        if self.layer is not None and self.map_file is None:
            raise ValueError("has the key 'layer', which goes with polygons or lines: leave it out")
        for key, least in (("over", 3), ("along", 2)):
            corners = getattr(self, key)
            if corners is not None and (
                len(corners) < least or any(len(one) != 2 for one in corners)
            ):
                raise ValueError(f"has {key} = {corners}: give {least} points [x, y] at least")

    def check_points(self) -> None:
        if self.kind == COEFFICIENT and self.of is None:
            raise ValueError("lacks the key 'of': the name of the unknown that was measured")
        if self.kind in (GRADIENT, FLUX) and self.angle is None:
            raise ValueError(
                "lacks the key 'angle': the direction, in degrees from the x axis towards the y "
                "axis" + (", or 'through': a stretch of the boundary" if self.kind == FLUX else "")
            )
        for key in self.columns():
            value = getattr(self, key)
            if self.file is None and not isinstance(value, float):
                raise ValueError(f"lacks the key {key!r}: a number; or name a file of them, 'file'")

    def check_value(self) -> None:
        from_file = self.file is not None or self.map_file is not None
        if from_file and isinstance(self.value, float):
            raise ValueError(f"has a file and value = {self.value:g}: give the name of its column")
        if not from_file and not isinstance(self.value, float):
            raise ValueError("lacks the key 'value': what was measured, a number")

    @property
    def map_file(self) -> str | None:
        """Of polygons or lines that averages are over."""
        return self.polygons or self.lines

    def columns(self) -> tuple[str, ...]:
        """Keys of places, which are numbers or the names of columns."""
        more = {DIFFERENCE: OTHERS, GRADIENT: (ANGLE,), FLUX: (ANGLE,)}.get(self.kind, ())
        return (*AXES, *more)

    def unknowns(self) -> dict[str, Any]:
        """What may be the name of an unknown, by key."""
        return under("noise", self.noise.unknowns()) | {"of": self.of}


@dataclass(frozen=True, eq=False)
class SensorRows:
    """The rows of one table: values, and numbers or shapes for each."""

    path: Path
    values: Float[np.ndarray, " row"]
    numbers: Float[np.ndarray, "row column"]  # x, y and what else the kind has
    shapes: list[Any]  # polygons or lines, as GeoJSON
    crs: str | None = None

    @property
    def points(self) -> Float[np.ndarray, "row _"]:
        return self.numbers[:, :2]


def read_measurements(
    path: Path, tables: Sequence[MeasurementTable], crs: str | None = None
) -> tuple[SensorRows, ...]:
    return tuple(read_rows(path, table, crs) for table in tables)


def read_rows(path: Path, table: MeasurementTable, crs: str | None) -> SensorRows:
    nowhere = np.zeros((1, 0))
    if table.map_file is not None:
        return read_averages(path.parent, table, crs)
    if table.file is None:
        value = np.array([table.value], float)
        if table.kind == AVERAGE or table.through is not None:
            return SensorRows(path, value, nowhere, [])
        numbers = np.array([[getattr(table, key) for key in table.columns()]], float)
        numbers = rows_in_crs(path, table.kind, numbers, table.crs, crs)
        return SensorRows(path, value, numbers, [], crs or table.crs)
    name = str(table.value or VALUE)
    result = read_table(path.parent / table.file, layer=table.layer, value=name)
    names = [getattr(table, key) or key for key in table.columns()]
    for key, column in zip(table.columns(), names, strict=True):
        if isinstance(column, float) and key != ANGLE:
            raise FileFormatError(
                f"{path}: a measurement names the file {table.file} and {key} = {column:g}: give "
                "the name of its column."
            )
    columns = [
        np.full(result.num_rows, one) if isinstance(one, float) else result.numbers(one)
        for one in names
    ]
    own = table.crs or result.crs
    numbers = rows_in_crs(result.path, table.kind, np.column_stack(columns), own, crs)
    return SensorRows(result.path, result.numbers(name), numbers, [], crs or own)


def rows_in_crs(
    path: Path,
    kind: str,
    numbers: Float[np.ndarray, "row column"],
    own: str | None,
    crs: str | None,
) -> Float[np.ndarray, "row column"]:
    """With x and y, and of differences those of the other point too, in the problem's crs."""
    if own is None or crs is None:
        return numbers
    pairs = 2 if kind == DIFFERENCE else 1
    with error_context(path):
        points = [project(numbers[:, 2 * i : 2 * i + 2], own, crs) for i in range(pairs)]
    return np.column_stack([*points, numbers[:, 2 * pairs :]])


def read_averages(folder: Path, table: MeasurementTable, crs: str | None) -> SensorRows:
    """Averages over the polygons or lines of a layer."""
    kind = "polygon" if table.polygons is not None else "line"
    result = read_features(folder / str(table.map_file), table.layer, kind, into=crs)
    values = result.table.numbers(str(table.value or VALUE))
    numbers = np.zeros((len(values), 0))
    return SensorRows(
        result.table.path, values, numbers, list(result.shapes), crs or result.table.crs
    )


def directions(degrees: Float[np.ndarray, " row"]) -> Points:
    return np.stack([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))], axis=1)


def observable_of(table: MeasurementTable, rows: SensorRows) -> AbstractObservable:
    """What was measured."""
    match table.kind:
        case "average":
            result = average_of(table, rows)
        case "flux" if table.through is not None:
            result = FluxThrough([table.through], table.out_of)
        case "flux":
            result = FluxAlong(rows.points, directions(rows.numbers[:, 2]))
        case "gradient":
            result = GradientAt(rows.points, directions(rows.numbers[:, 2]))
        case "difference":
            result = DifferenceBetween(rows.points, rows.numbers[:, 2:])
        case "coefficient":
            result = CoefficientAt(str(table.of), rows.points)
        case _:
            result = AtPoints(rows.points)
    return LogOf(result) if table.log else result


def average_of(table: MeasurementTable, rows: SensorRows) -> AbstractObservable:
    if table.region is not None:
        return AverageOver([table.region])
    if table.along is not None:
        return AverageAlong([table.along])
    if table.over is not None:
        return AverageOver([np.array(table.over)])
    if table.polygons is not None:
        return AverageOver(rows.shapes)
    return AverageAlong([vertices_of(rows, number) for number in range(len(rows.shapes))])


def vertices_of(rows: SensorRows, number: int) -> Any:
    shape = rows.shapes[number]
    lines = shape["coordinates"] if shape["type"] == "MultiLineString" else [shape["coordinates"]]
    if len(lines) != 1:
        raise FileFormatError(
            f"{rows.path}, row {number + 1}: an average is along one line, and there are "
            f"{len(lines)}: join them, or give each a row."
        )
    return np.array(lines[0], float)[:, :2]


def data_of(
    tables: Sequence[MeasurementTable], measured: Sequence[SensorRows]
) -> tuple[list[Observations], list[AbstractLikelihood]]:
    """All further data sets of a problem, and how each scatters."""
    data, noise = [], []
    for table, rows in zip(tables, measured, strict=True):
        read = plain_rows(rows.path, rows.points, rows.values)
        data.append(observations(observable_of(table, rows), likelihood_values(table.noise, read)))
        noise.append(likelihood_of(table.noise, read))
    return data, noise


def measurements_content(measured: Sequence[SensorRows]) -> bytes:
    """As a run folder keeps them: files may change."""
    rows = [
        {"values": one.values.tolist(), "numbers": one.numbers.tolist(), "shapes": one.shapes}
        for one in measured
    ]
    return json.dumps(rows).encode()


def load_measurements(path: Path, tables: Sequence[MeasurementTable]) -> tuple[SensorRows, ...]:
    """The same again from a run folder."""
    if not tables:
        return ()
    result = json.loads(read_bytes(path))
    if not isinstance(result, list) or len(result) != len(tables):
        raise FileFormatError(f"{path} does not go with the problem of its run: fit again.")
    return tuple(
        SensorRows(
            path,
            np.array(one["values"], float),
            np.array(one["numbers"], float).reshape(len(one["values"]), -1),
            one["shapes"],
        )
        for one in result
    )
