"""What a problem file may hold: its tables and their keys."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from pydantic import Field, PositiveFloat, PositiveInt, field_validator, model_validator

from riesz.errors import RieszError
from riesz.fem.weakform import WeakForm, advection, diffusion, reaction, source
from riesz.infer.fit import AUTO, ENGINES, check_engine, check_settings
from riesz.infer.unknown import check_free_names
from riesz.io.prior_table import PriorTable
from riesz.io.table import Coefficient, Table
from riesz.observe.likelihood import AbstractLikelihood, Gaussian, StudentT
from riesz.spelling import listed, nearest

TERMS = {"diffusion": diffusion, "advection": advection, "reaction": reaction, "source": source}


class RectangleTable(Table):
    """A rectangle by two corners; its sides are called left, right, bottom and top."""

    lower: list[float] = Field(min_length=2, max_length=2, description="the corner [x, y]")
    upper: list[float] = Field(min_length=2, max_length=2, description="the corner [x, y]")


class DomainTable(Table):
    """Where the equation holds, and how finely it is resolved."""

    outline: str | None = None
    mesh: str | None = None
    rectangle: RectangleTable | None = None
    max_edge: PositiveFloat | None = None
    levels: PositiveInt | None = None

    @model_validator(mode="after")
    def check(self):
        kinds = ("outline", "mesh", "rectangle")
        given = [kind for kind in kinds if getattr(self, kind) is not None]
        if len(given) != 1:
            found = " and ".join(given) or "none of them"
            raise ValueError(f"needs one of {listed(kinds)}, but holds {found}")
        if self.mesh is None and self.max_edge is None:
            raise ValueError("lacks the key 'max_edge': the longest edge of the mesh, a length")
        if self.mesh is not None and self.max_edge is not None:
            raise ValueError(
                "has a mesh and max_edge: a mesh has its edges; refine it by levels instead"
            )
        return self


class ObservationsTable(Table):
    """A CSV file, and its columns."""

    file: str = Field(description="the CSV file, relative to the problem file")
    x: str = "x"
    y: str = "y"
    value: str = "value"
    unit: str | None = None
    transform: Literal["log"] | None = None


class NoiseTable(Table):
    """How observed values scatter about the state."""

    sd: Coefficient = Field(description="a number in the unit of the values, or an unknown's name")
    kind: Literal["normal", "student-t"] = "normal"
    degrees_of_freedom: PositiveFloat = 4.0

    @field_validator("sd")
    @classmethod
    def check_sd(cls, sd: Any) -> Any:
        if not isinstance(sd, str | float) or (isinstance(sd, float) and sd <= 0):
            raise ValueError(f"is {sd!r}: give a positive number, or the name of an unknown")
        return sd

    def likelihood(self) -> AbstractLikelihood:
        if self.kind == "normal":
            return Gaussian(self.sd)
        return StudentT(self.sd, self.degrees_of_freedom)


class EquationTable(Table):
    """-div(diffusion grad u) + advection . grad u + reaction u = source."""

    diffusion: Coefficient = None
    advection: Coefficient = None
    reaction: Coefficient = None
    source: Coefficient = None

    @model_validator(mode="after")
    def check(self):
        if not self.given():
            raise ValueError(f"holds no term: give at least one of {listed(TERMS)}")
        return self

    def given(self) -> dict[str, Any]:
        """The terms that are there."""
        values = {name: getattr(self, name) for name in TERMS}
        return {name: value for name, value in values.items() if value is not None}

    def form(self) -> WeakForm:
        total = WeakForm()
        for name, value in self.given().items():
            term = TERMS[name](value)
            total = total - term if name == "source" else total + term
        return total


class BoundaryTable(Table):
    """A stretch of the boundary on which u is prescribed; elsewhere no flux passes."""

    value: Coefficient = Field(description="a number, or the name of an unknown")


@contextmanager
def told_of_table() -> Iterator[None]:
    """What the library refuses, as a fault of the table."""
    try:
        yield
    except RieszError as error:
        raise ValueError(f"is wrong: {str(error).rstrip('.')}") from None


class EngineTable(Table):
    """Which engine, and the settings of each by its name."""

    name: str = AUTO
    emulate: dict[str, Any] = Field(default_factory=dict)
    relax: dict[str, Any] = Field(default_factory=dict)
    laplace: dict[str, Any] = Field(default_factory=dict)
    conditional: dict[str, Any] = Field(default_factory=dict)
    nuts: dict[str, Any] = Field(default_factory=dict)

    @field_validator("name")
    @classmethod
    def check_name(cls, name: str) -> str:
        with told_of_table():
            check_engine(name)
        return name

    @model_validator(mode="after")
    def check(self):
        for engine in ENGINES:
            with told_of_table():
                check_settings(engine, self.settings(engine))
        return self

    def settings(self, engine: str) -> dict[str, Any]:
        return getattr(self, engine)


class ProblemTables(Table):
    """A whole problem file."""

    crs: str | None = None
    domain: DomainTable = Field(description="where the equation holds, as [domain]")
    observations: ObservationsTable = Field(description="what was measured, as [observations]")
    noise: NoiseTable = Field(description="how well it was measured, as [noise]")
    equation: EquationTable = Field(description="the terms of the physics, as [equation]")
    boundary: dict[str, BoundaryTable] = Field(default_factory=dict)
    unknowns: dict[str, PriorTable] = Field(
        description="what is to be found, each with a prior, as [unknowns.NAME]"
    )
    engine: EngineTable = EngineTable()

    @field_validator("crs")
    @classmethod
    def check_crs(cls, crs: str | None) -> str | None:
        if crs is not None and not re.fullmatch(r"EPSG:\d{4,6}", crs):
            raise ValueError(f"is {crs!r}: give an EPSG code, such as 'EPSG:32612'")
        return crs

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
        with told_of_table():
            check_free_names(unknowns)
        return unknowns

    @model_validator(mode="after")
    def check_names(self):
        for key, value in self.coefficients().items():
            if isinstance(value, str) and value not in self.unknowns:
                known = list(self.unknowns)
                advice = f"It has {', '.join(known)}"
                if key.startswith("boundary."):
                    advice += (
                        ". Values on a boundary that are not known need a prior there, such as "
                        'prior = "boundary-gp"'
                    )
                raise ValueError(
                    f"says {key} = {value!r}, but there is no [unknowns.{value}]: "
                    f"{nearest(value, known)}{advice}"
                )
        return self

    def coefficients(self) -> dict[str, Any]:
        """All that may be the name of an unknown, by key."""
        prescribed = {f"boundary.{tag}.value": one.value for tag, one in self.boundary.items()}
        terms = {f"equation.{name}": value for name, value in self.equation.given().items()}
        return terms | prescribed | {"noise.sd": self.noise.sd}
