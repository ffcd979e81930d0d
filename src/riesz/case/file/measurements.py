"""Further measurements beside the observations, and further experiments in the same medium: the
tables [[measurements]] and [[experiments]].

A measurement has a kind, what there is of it in the file or in a table of its own, and its own
noise. An experiment has its own readings, and other wells, sources or values on the boundary than
the first; what is not said of it is as in the file.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from pydantic import Field

from riesz.case.data.read import as_logarithms
from riesz.case.data.rows import AXES, MEASUREMENTS, DataRows, plain_rows, rows_at_places
from riesz.case.data.schema import CRS, ObservationsTable
from riesz.case.file.boundary import BoundaryTable
from riesz.case.file.equation import EquationTable
from riesz.case.file.noise import NoiseTable, likelihood_of, likelihood_values
from riesz.case.file.wells import WellPoints, WellTable, read_wells
from riesz.case.table import Coefficient, FileTable, NumberOrName, faults_of_kind, under
from riesz.errors import FileFormatError, any_of
from riesz.io.maps.outlines import read_features
from riesz.io.store.files import read_bytes
from riesz.io.tables.layers import read_table
from riesz.observe import observables
from riesz.observe.likelihood import AbstractLikelihood
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
Numbers = Float[np.ndarray, "..."]


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

    def faults(self) -> Iterator[str]:
        yield from faults_of_kind(self, self.kind, ("value", "noise", "log", *KEYS[self.kind]))
        if self.noise.has_sd and self.noise.sd is None:
            yield "lacks noise.sd: give a number, or the name of an unknown"
        if self.kind == AVERAGE:
            yield from self.faults_of_shape()
        elif self.through is None:
            yield from self.faults_of_points()
        from_file = self.file is not None or self.map_file is not None
        if from_file and isinstance(self.value, float):
            yield f"has a file and value = {self.value:g}: give the name of its column"
        if not from_file and not isinstance(self.value, float):
            yield "lacks the key 'value': what was measured, a number"

    def faults_of_shape(self) -> Iterator[str]:
        given = [key for key in SHAPES if getattr(self, key) is not None]
        if len(given) != 1:
            yield (
                f"is an average and needs one of {any_of(SHAPES)}, but holds "
                f"{' and '.join(given) or 'none of them'}"
            )
        if self.layer is not None and self.map_file is None:
            yield "has the key 'layer', which goes with polygons or lines: leave it out"
        for key, least in (("over", 3), ("along", 2)):
            corners = getattr(self, key)
            if corners is not None and (
                len(corners) < least or any(len(one) != 2 for one in corners)
            ):
                yield f"has {key} = {corners}: give {least} points [x, y] at least"

    def faults_of_points(self) -> Iterator[str]:
        if self.kind == COEFFICIENT and self.of is None:
            yield "lacks the key 'of': the name of the unknown that was measured"
        if self.kind in (GRADIENT, FLUX) and self.angle is None:
            yield (
                "lacks the key 'angle': the direction, in degrees from the x axis towards the y "
                "axis" + (", or 'through': a stretch of the boundary" if self.kind == FLUX else "")
            )
        for key in self.columns():
            if self.file is None and not isinstance(getattr(self, key), float):
                yield f"lacks the key {key!r}: a number; or name a file of them, 'file'"

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


def read_measurements(
    path: Path,
    tables: Sequence[MeasurementTable],
    crs: str | None = None,
    kept: Path | None = None,
) -> tuple[DataRows, ...]:
    """The rows of each table; where there is one, from the folder of a run that `kept` them."""
    if kept is None or not tables:
        return tuple(read_measurement(path, table, crs) for table in tables)
    own = kept / MEASUREMENTS
    result = json.loads(read_bytes(own))
    if not isinstance(result, list) or len(result) != len(tables):
        raise FileFormatError(f"{own} does not go with the problem of its run: fit again.")
    return tuple(
        sensor_rows(own, one["values"], np.array(one["numbers"], float), shapes=one["shapes"])
        for one in result
    )


def sensor_rows(path: Path, values: Any, numbers: Numbers, **more: Any) -> DataRows:
    """Places are the first two columns of the numbers, of averages none."""
    values = np.array(values, float)
    numbers = numbers.reshape(len(values), -1)
    return plain_rows(path, numbers[:, :2], values, beside=numbers[:, 2:], **more)


def read_measurement(path: Path, table: MeasurementTable, crs: str | None) -> DataRows:
    if table.map_file is not None:
        return read_averages(path.parent, table, crs)
    keys = () if table.kind == AVERAGE or table.through is not None else table.columns()
    if table.file is None:
        given = [[getattr(table, key) for key in keys]]
        rows = sensor_rows(path, [table.value], np.array(given, float), crs=table.crs)
        return in_crs(rows, table.kind, crs) if keys else rows
    name = str(table.value or VALUE)
    own = read_table(path.parent / table.file, layer=table.layer, value=name)
    columns = {key: getattr(table, key) or key for key in keys}
    for key, column in columns.items():
        if isinstance(column, float) and key != ANGLE:
            raise FileFormatError(
                f"{path}: a measurement names the file {table.file} and {key} = {column:g}: give "
                "the name of its column."
            )
    x, y, *others = columns.values()
    more = [
        np.full(own.num_rows, one) if isinstance(one, float) else own.numbers(one) for one in others
    ]
    rows = rows_at_places(own, (x, y), name, crs=table.crs)
    rows = replace(rows, beside=np.column_stack(more)) if more else rows
    return in_crs(rows, table.kind, crs)


def in_crs(rows: DataRows, kind: str, crs: str | None) -> DataRows:
    """With places and, of differences, those of the other points in the problem's crs."""
    moved = rows.within(crs)
    if kind != DIFFERENCE or rows.beside is None:
        return moved
    return replace(moved, beside=replace(rows, points=rows.beside).within(crs).points)


def read_averages(folder: Path, table: MeasurementTable, crs: str | None) -> DataRows:
    """Averages over the polygons or lines of a layer."""
    kind = "polygon" if table.polygons is not None else "line"
    result = read_features(folder / str(table.map_file), table.layer, kind, into=crs)
    own, values = result.table, result.table.numbers(str(table.value or VALUE))
    nowhere = np.zeros((len(values), 0))
    return sensor_rows(own.path, values, nowhere, shapes=result.shapes, crs=crs or own.crs)


def directions(degrees: Float[np.ndarray, " row"]) -> Points:
    return np.stack([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))], axis=1)


def observable_of(table: MeasurementTable, rows: DataRows) -> observables.AbstractObservable:
    """What was measured."""
    match table.kind:
        case "average":
            result = average_of(table, rows)
        case "flux" if table.through is not None:
            result = observables.FluxThrough([table.through], table.out_of)
        case "flux":
            result = observables.FluxAlong(rows.points, directions(rows.numbers[:, 2]))
        case "gradient":
            result = observables.GradientAt(rows.points, directions(rows.numbers[:, 2]))
        case "difference":
            result = observables.DifferenceBetween(rows.points, rows.numbers[:, 2:])
        case "coefficient":
            result = observables.CoefficientAt(name=str(table.of), points=rows.points)
        case _:
            result = observables.AtPoints(rows.points)
    return observables.LogOf(result) if table.log else result


def average_of(table: MeasurementTable, rows: DataRows) -> observables.AbstractObservable:
    if table.region is not None:
        return observables.AverageOver([table.region])
    if table.along is not None:
        return observables.AverageAlong([table.along])
    if table.over is not None:
        return observables.AverageOver([np.array(table.over)])
    if table.polygons is not None:
        return observables.AverageOver(rows.shapes)
    return observables.AverageAlong(
        [vertices_of(rows, number) for number in range(len(rows.shapes))]
    )


def vertices_of(rows: DataRows, number: int) -> Any:
    shape = rows.shapes[number]
    lines = shape["coordinates"] if shape["type"] == "MultiLineString" else [shape["coordinates"]]
    if len(lines) != 1:
        raise FileFormatError(
            f"{rows.path}, row {number + 1}: an average is along one line, and there are "
            f"{len(lines)}: join them, or give each a row."
        )
    return np.array(lines[0], float)[:, :2]


def data_of(
    tables: Sequence[MeasurementTable], measured: Sequence[DataRows]
) -> tuple[list[Observations], list[AbstractLikelihood]]:
    """All further data sets of a problem, and how each scatters."""
    data, noise = [], []
    for table, rows in zip(tables, measured, strict=True):
        data.append(observations(observable_of(table, rows), likelihood_values(table.noise, rows)))
        noise.append(likelihood_of(table.noise, rows))
    return data, noise


def measurements_content(measured: Sequence[DataRows]) -> bytes:
    """As a run folder keeps them: files may change."""
    rows = []
    for one in measured:
        own = {"values": one.values.tolist(), "numbers": one.numbers.tolist()}
        rows.append(own | {"shapes": list(one.shapes)})
    return json.dumps(rows).encode() if rows else b""


class ExperimentTable(FileTable):
    """What differs from the first experiment, and a file of values of the state at points."""

    file: str = Field(description="its measurements, with the columns that [observations] names")
    layer: str | None = None
    noise: NoiseTable | None = None
    source: Coefficient = None
    wells: list[WellTable] | None = None
    boundary: dict[str, BoundaryTable] = Field(default_factory=dict)

    def faults(self) -> Iterator[str]:
        if any(one.file is not None for one in self.wells or []):
            yield "has wells by a file: give those of an experiment by x, y and rate"
        for name, one in self.boundary.items():
            if one.along is not None:
                yield (
                    f"has boundary.{name}.along: name the stretch in [boundary.{name}], and give "
                    "here what holds on it"
                )

    def unknowns(self) -> dict[str, Any]:
        """What may be the name of an unknown, by key."""
        noise = {} if self.noise is None else self.noise.unknowns()
        result = under("noise", noise) | {"source": self.source}
        for tag, one in self.boundary.items():
            result |= under(f"boundary.{tag}", one.entries())
        for number, one in enumerate(self.wells or [], 1):
            result[f"wells.{number}.rate"] = one.unknown()
        return result

    def measurements(self, names: ObservationsTable, noise: NoiseTable) -> MeasurementTable:
        """Its file as a table of further measurements."""
        return MeasurementTable(
            kind=VALUE,
            file=self.file,
            layer=self.layer,
            crs=names.crs,
            x=names.x,
            y=names.y,
            value=names.value,
            noise=noise if self.noise is None else self.noise,
        )


@dataclass(frozen=True, eq=False)
class Posed:
    """One experiment: what differs in its equation, and its data."""

    equation: EquationTable
    boundary: Mapping[str, BoundaryTable]
    wells: tuple[WellPoints, ...]
    data: list[Observations]
    noise: list[AbstractLikelihood]


def pose_experiments(
    path: Path,
    experiments: Sequence[ExperimentTable],
    tables: Sequence[MeasurementTable],
    rows: Sequence[DataRows],
    first: Posed,
    *,
    crs: str | None,
    logged: bool,
) -> list[Posed]:
    """Each experiment, from the first and what it says itself."""
    result = []
    for one, table, own in zip(experiments, tables, rows, strict=True):
        data, noise = data_of([table], [as_logarithms(own, str(table.value)) if logged else own])
        equation = first.equation
        if one.source is not None:
            equation = equation.model_copy(update={"source": one.source})
        wells = first.wells if one.wells is None else read_wells(path, one.wells, crs)
        result.append(Posed(equation, {**first.boundary, **one.boundary}, wells, data, noise))
    return result
