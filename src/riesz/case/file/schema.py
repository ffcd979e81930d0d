"""What a problem file may hold: its tables and their keys."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pydantic import (
    Field,
    PositiveFloat,
    PositiveInt,
    field_validator,
    model_serializer,
    model_validator,
)

from riesz.case.data.covariates import EFFECTS, LOCAL
from riesz.case.data.schema import CRS, ObservationsTable
from riesz.case.file.boundary import BoundaryTable, RegionTable, RiverTable, prescribed_at
from riesz.case.file.equation import EquationTable
from riesz.case.file.measurements import ExperimentTable, MeasurementTable
from riesz.case.file.noise import BINOMIAL, COUNTS, GROUPED, NoiseTable
from riesz.case.file.priors import PriorTable
from riesz.case.file.stresses import SeriesTable
from riesz.case.file.time_axis import STEADY, TimeTable
from riesz.case.file.wells import WellTable
from riesz.case.table import FileTable, under
from riesz.errors import RieszError, any_of, nearest
from riesz.fem.time.axis import TimeAxis
from riesz.inference import table
from riesz.mesh.tags import REST
from riesz.notes import Note
from riesz.priors.gaussian_process import GP
from riesz.problem.unknowns import check_free_names


class RectangleTable(FileTable):
    """A rectangle by two corners; its sides are called left, right, bottom and top."""

    lower: list[float] = Field(min_length=2, max_length=2, description="the corner [x, y]")
    upper: list[float] = Field(min_length=2, max_length=2, description="the corner [x, y]")


class DomainTable(FileTable):
    """Where the equation holds, and how finely it is resolved."""

    outline: str | None = None
    layer: str | None = None
    crs: CRS = None
    mesh: str | None = None
    rectangle: RectangleTable | None = None
    around_observations: bool = False
    margin: PositiveFloat | None = None
    simplify: PositiveFloat | None = None
    max_edge: PositiveFloat | None = None
    levels: PositiveInt | None = None

    def faults(self) -> Iterator[str]:
        kinds = ("outline", "mesh", "rectangle", "around_observations")
        given = [kind for kind in kinds if self.has(kind)]
        if len(given) != 1:
            yield f"needs one of {any_of(kinds)}, but holds {' and '.join(given) or 'none of them'}"
        if self.mesh is None and self.max_edge is None:
            yield "lacks the key 'max_edge': the longest edge of the mesh, a length"
        if self.mesh is not None and self.max_edge is not None:
            yield "has a mesh and max_edge: a mesh has its edges; refine it by levels instead"
        owners = dict.fromkeys(("layer", "crs", "simplify"), "outline")
        for key, kind in {**owners, "margin": "around_observations"}.items():
            if self.has(key) and not self.has(kind):
                yield f"has the key {key!r}, which goes with {kind}: leave it out"


@contextmanager
def table_errors() -> Iterator[None]:
    """What the library refuses, as a fault of the table."""
    try:
        yield
    except RieszError as error:
        raise ValueError(f"is wrong: {str(error).rstrip('.')}") from None


SERIES_PLACES = ("equation.source", "equation.reaction", "equation.diffusion", "equation.level")
"""Keys beside those of the boundary that may name a series."""


class EngineTable(FileTable):
    """Which method, on which density, and settings: a table [engine.NAME] for any that there is."""

    name: str = table.AUTO
    density: str | None = None
    settings: dict[str, dict[str, Any]] = Field(default_factory=dict)
    notes: tuple[Note, ...] = Field(default=(), exclude=True)

    @model_validator(mode="before")
    @classmethod
    def check_keys(cls, content: Any) -> Any:
        if not isinstance(content, Mapping):
            return content
        parts = (*table.METHODS, *table.DENSITIES)
        known = ("name", "density", *parts)
        for key in content:
            if key not in known and key not in table.RENAMED:
                owners = [name for name in parts if key in table.class_of(name).model_fields]
                hint = nearest(str(key), known)
                if owners:
                    hint = f"write it in [engine.{owners[0]}], as a setting of {any_of(owners)}. "
                raise ValueError(
                    f"has the key {str(key)!r}, which is not known: {hint}It may hold "
                    f"{any_of(known)}"
                )
        today, notes = table.rename_table(content)
        own = {key: value for key, value in today.items() if key not in ("name", "density")}
        result = {"name": today.get("name", table.AUTO), "settings": own, "notes": notes}
        if "density" in today:
            result["density"] = today["density"]
        elif isinstance(result["name"], str) and "(" in result["name"]:  # both in one word
            result["name"], _, inside = result["name"].partition("(")
            result["density"] = inside.rstrip(")")
        return result

    @model_validator(mode="after")
    def check(self):
        with table_errors():
            table.check_engine(self.name, self.density)
            for name, own in self.settings.items():
                (table.build_method if name in table.METHODS else table.build_density)(name, own)
        if self.name == table.AUTO and self.density is not None:
            raise ValueError("names a density and no method: auto chooses both")
        return self

    @model_serializer
    def as_written(self) -> dict[str, Any]:
        density = {} if self.density is None else {"density": self.density}
        return {"name": self.name, **density, **self.settings}


class ProblemTables(FileTable):
    """A whole problem file."""

    crs: CRS = None
    mesh_error: table.MeshErrorUse = "correct"
    domain: DomainTable = Field(description="where the equation holds, as [domain]")
    observations: ObservationsTable = Field(description="what was measured, as [observations]")
    noise: NoiseTable = Field(
        default=NoiseTable(), description="how well it was measured, as [noise]"
    )
    equation: EquationTable = Field(description="the terms of the physics, as [equation]")
    boundary: dict[str, BoundaryTable] = Field(default_factory=dict)
    regions: dict[str, RegionTable] = Field(default_factory=dict)
    wells: list[WellTable] = Field(default_factory=list)
    rivers: list[RiverTable] = Field(default_factory=list)
    measurements: list[MeasurementTable] = Field(default_factory=list)
    experiments: list[ExperimentTable] = Field(default_factory=list)
    unknowns: dict[str, PriorTable] = Field(
        description="what is to be found, each with a prior, as [unknowns.NAME]"
    )
    time: TimeTable | None = None
    series: dict[str, SeriesTable] = Field(default_factory=dict)
    engine: EngineTable = EngineTable()

    @field_validator("unknowns")
    @classmethod
    def check_unknowns(cls, unknowns: dict[str, Any]) -> dict[str, Any]:
        if not unknowns:
            raise ValueError("is empty: give at least one unknown with a prior")
        for name in unknowns:
            if not re.fullmatch(r"[A-Za-z]\w*", name):
                raise ValueError(
                    f"has the name {name!r}: begin with a letter from a to z, and go on with "
                    "letters, digits and _"
                )
        with table_errors():
            check_free_names(unknowns)
        return unknowns

    @field_validator("regions")
    @classmethod
    def check_regions(cls, regions: dict[str, Any]) -> dict[str, Any]:
        if REST in regions:
            raise ValueError(f"has the name {REST!r}, which stands for cells in none: rename it")
        return regions

    def faults(self) -> Iterator[str]:
        """What does not go together in tables that are right by themselves."""
        yield from self.faults_of_names()
        yield from self.faults_of_regions()
        yield from self.faults_of_noise()
        yield from self.faults_of_series()
        yield from self.faults_of_time()
        for key in ("covariates", "local", "exposure", "trials", "sd", "aggregate"):
            if self.experiments and self.observations.has(key):
                yield (
                    f"has experiments and observations.{key}: those of an experiment are plain "
                    f"values at points; leave {key} out, or pose the problem in Python"
                )

    def faults_of_names(self) -> Iterator[str]:
        known = list(self.unknowns)
        for key, name in self.names().items():
            if name in known or (name in self.series and may_be_series(key)):
                continue
            advice = f"It has {', '.join(known)}"
            if key.startswith("boundary.") and key.endswith(".value"):
                advice += (
                    ". Values on a boundary that are not known need a prior there, such as "
                    'prior = "boundary-gp"'
                )
            yield (
                f"says {key} = {name!r}, but there is no [unknowns.{name}]: "
                f"{nearest(name, known)}{advice}"
            )
        for number, rise in self.rises():
            if rise not in self.series:
                yield (
                    f"says rivers.{number}.rise = {rise!r}, but there is no [series.{rise}]: "
                    f"{nearest(rise, list(self.series))}give the table of what is added to the "
                    "stage, and [time]"
                )

    def faults_of_regions(self) -> Iterator[str]:
        """Those of a mesh file are not known yet."""
        priors = [name for name, one in self.unknowns.items() if one.prior.endswith("regions")]
        asking = self.equation.regional() + [f"unknowns.{name}" for name in priors]
        if asking and not self.regions and self.domain.mesh is None:
            yield (
                f"has values by region at {asking[0]}, but no regions: add [regions.NAME] with a "
                "map of polygons, or name a mesh that has some by domain.mesh"
            )

    def faults_of_noise(self) -> Iterator[str]:
        """The noise must come from one place, and be one that can be built on."""
        names, noise = self.observations, self.noise
        sd, kind = noise.sd, noise.kind
        if not noise.has_sd:
            yield from self.faults_of_counts()
        elif sd is None and names.sd is None:
            yield (
                "lacks noise.sd: give a number in the unit of the values, or an unknown's name "
                "(or name a column of the observations by observations.sd)"
            )
        if sd is not None and names.sd is not None:
            yield f"has noise.sd and the column observations.sd = {names.sd!r}: keep one of them"
        if names.sd_from_scatter and not isinstance(sd, float):
            yield (
                f"has noise.sd = {sd!r}: with observations.sd_from_scatter it is the least sd of a "
                "site, a number"
            )
        if kind == GROUPED and names.aggregate is not None:
            yield (
                "has noise.kind = 'grouped', for several readings of one site, and "
                f"observations.aggregate = {names.aggregate!r}, which leaves one: keep one of them"
            )
        if kind == GROUPED and names.site is None:
            yield (
                "has noise.kind = 'grouped', which needs observations.site: the column that says "
                "which readings share their error"
            )
        if noise.drift_sd is not None and names.date is None:
            yield "has noise.drift_sd, which needs observations.date: the column of the times"
        own = {EFFECTS: bool(names.covariates), LOCAL: names.local}
        for name in (name for name, given in own.items() if given and name in self.unknowns):
            yield f"has [unknowns.{name}], a name of the effects on values: rename it"
        for key, kinds in (("exposure", COUNTS), ("trials", (BINOMIAL,))):
            if names.has(key) and kind not in kinds:
                yield (
                    f"has observations.{key}, which is for noise.kind = {any_of(kinds)}, and it is "
                    f"{kind!r}"
                )

    def faults_of_counts(self) -> Iterator[str]:
        """Counts and shares come as they are, over what they were counted."""
        names, kind = self.observations, self.noise.kind
        for key in ("sd", "sd_from_scatter", "transform"):
            if names.has(key):
                yield (
                    f"has observations.{key} and noise.kind = {kind!r}, whose values scatter by "
                    f"themselves and are taken as they are: leave {key} out"
                )
        if kind == BINOMIAL and (self.noise.trials is None) == (names.trials is None):
            yield (
                "has noise.kind = 'binomial', which needs either noise.trials, a number, or "
                "observations.trials, the name of a column"
            )
        if self.noise.exposure is not None and names.exposure is not None:
            yield "has noise.exposure and observations.exposure: keep one of them"

    def faults_of_series(self) -> Iterator[str]:
        read = {*self.names().values(), *(rise for _, rise in self.rises())}
        for name in sorted(self.series):
            if self.time is None:
                yield f"has [series.{name}], but no [time] that it changes in"
            if name in self.unknowns:
                yield f"has [series.{name}] and [unknowns.{name}]: rename one"
            if name not in read:
                yield (
                    f"has [series.{name}], which nothing reads: name it in the equation, on the "
                    "boundary, or as the rise of a river, or leave it out"
                )

    def faults_of_time(self) -> Iterator[str]:
        """A time axis goes with storage, and with observations that have times."""
        names, stored = self.observations, self.equation.has("storage")
        if self.time is None:
            if stored:
                yield "has equation.storage, but no [time]: give its start, end and step"
            for number, one in enumerate(self.wells, 1):
                if one.date is not None:
                    yield f"has wells.{number}.date, rates that change, but no [time]"
            return
        if not stored:
            yield (
                "has [time], but no equation.storage, so that nothing changes by itself: give "
                "how much is stored where u rises by one"
            )
        if names.date is None:
            yield "has [time], which needs observations.date: the column of the times"
        if names.aggregate is not None:
            yield (
                f"has [time], and observations.aggregate = {names.aggregate!r}, which leaves no "
                "times: keep one of them"
            )
        for key in ("measurements", "experiments"):
            if self.has(key):
                yield f"has [time] and [[{key}]], which have no times: leave them out"

    @property
    def axis(self) -> TimeAxis | None:
        """None where the state is steady."""
        return None if self.time is None else self.time.axis()

    def priors(self, *, nested: bool) -> dict[str, Any]:
        """What is known of the unknowns.

        Densities that solve on the whole mesh get processes by their values at its nodes: by
        kernels, a gradient would keep one for each point, inducing point and unknown, which takes
        gigabytes.
        """
        name, density = self.engine.name, self.engine.density
        priors = {name: prior.distribution() for name, prior in self.unknowns.items()}
        if nested and (name in (table.AUTO, table.AMORTISE) or density == table.SURROGATE):
            return priors
        prescribed = prescribed_at(self.boundary).values()
        return {
            name: replace(prior, at_nodes=True)
            if isinstance(prior, GP) and name not in prescribed
            else prior
            for name, prior in priors.items()
        }

    def further_measurements(self) -> list[MeasurementTable]:
        """Those beside the observations, and then those of further experiments."""
        names, noise = self.observations, self.noise
        return [*self.measurements, *(one.measurements(names, noise) for one in self.experiments)]

    def rises(self) -> list[tuple[int, str]]:
        """The series that rivers rise by, each with the river's number."""
        return [(i, one.rise) for i, one in enumerate(self.rivers, 1) if one.rise is not None]

    def names(self) -> dict[str, str]:
        """All that names an unknown or, in some places, a series, by key."""
        result: dict[str, Any] = self.equation.coefficients()
        if self.time is not None and self.time.initial != STEADY:
            result["time.initial"] = self.time.initial
        for name, one in self.series.items():
            result[f"series.{name}.factor"] = one.factor
        for tag, one in self.boundary.items():
            result |= under(f"boundary.{tag}", one.entries())
        for i, one in enumerate(self.wells, 1):
            result |= under(f"wells.{i}", {"rate": one.unknown(), "share": one.share})
        for i, one in enumerate(self.rivers, 1):
            result[f"rivers.{i}.conductance"] = one.conductance
        for kind in ("measurements", "experiments"):
            for i, one in enumerate(getattr(self, kind), 1):
                result |= under(f"{kind}.{i}", one.unknowns())
        result |= under("noise", self.noise.unknowns())
        return {key: value for key, value in result.items() if isinstance(value, str)}


def may_be_series(key: str) -> bool:
    on_boundary = key.startswith("boundary.") and not key.endswith("conductance")
    return on_boundary or key in SERIES_PLACES
