"""Further experiments in the same medium: the tables [[experiments]].

What is not said of one is as in the file: an experiment has its own readings, and other wells,
sources or values on the boundary than the first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from riesz.case.data.read import as_logarithms
from riesz.case.data.rows import DataRows
from riesz.case.data.schema import ObservationsTable
from riesz.case.file.boundary import BoundaryTable
from riesz.case.file.equation import EquationTable
from riesz.case.file.measurements import VALUE, MeasurementTable, data_of
from riesz.case.file.noise import NoiseTable
from riesz.case.file.wells import WellPoints, WellTable, read_wells
from riesz.case.table import Coefficient, FileTable, under
from riesz.observe.likelihood import AbstractLikelihood
from riesz.observe.observations import Observations


class ExperimentTable(FileTable):
    """What differs from the first experiment, and a file of values of the state at points."""

    file: str = Field(description="its measurements, with the columns that [observations] names")
    layer: str | None = None
    noise: NoiseTable | None = None
    source: Coefficient = None
    wells: list[WellTable] | None = None
    boundary: dict[str, BoundaryTable] = Field(default_factory=dict)

    @model_validator(mode="after")
    def check(self):
        if any(one.file is not None for one in self.wells or []):
            raise ValueError("has wells by a file: give those of an experiment by x, y and rate")
        for name, one in self.boundary.items():
            if one.along is not None:
                raise ValueError(
                    f"has boundary.{name}.along: name the stretch in [boundary.{name}], and give "
                    "here what holds on it"
                )
        return self

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


def check_plain(names: ObservationsTable) -> None:
    """Raise where observations have more than values, which experiments do not."""
    given = {"covariates": names.covariates, "local": names.local, "exposure": names.exposure}
    given |= {"trials": names.trials, "sd": names.sd, "aggregate": names.aggregate}
    for key, value in given.items():
        if value:
            raise ValueError(
                f"has experiments and observations.{key}: those of an experiment are plain values "
                f"at points; leave {key} out, or pose the problem in Python"
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
