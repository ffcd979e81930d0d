"""The table [equation] of a problem file: terms whose coefficients may differ by region."""

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Annotated, Any

import numpy as np
from pydantic import Field, PlainValidator

from riesz.case.file.stresses import CoefficientsTable
from riesz.case.table import as_coefficient_value, brief, is_finite
from riesz.errors import any_of, error_context
from riesz.fem.terms.coefficient import AbstractCoefficient
from riesz.fem.terms.regional import by_region, scale
from riesz.fem.terms.weakform import (
    WeakForm,
    advection,
    diffusion,
    leakage,
    reaction,
    source,
    storage,
)
from riesz.mesh.mesh import Mesh
from riesz.mesh.tags import REST

TERMS = ("storage", "diffusion", "advection", "reaction", "leakage", "level", "source")
PRINCIPAL = ("along", "across", "angle")
DIM, ROUNDING = 2, 1e-12


def as_regional(value: Any) -> Any:
    """A coefficient, or a table of one for each region."""
    if not isinstance(value, dict):
        return as_coefficient_value(value)
    if not value:
        raise ValueError("is an empty table: give a value for each region, or one for all")
    result = {}
    for name, one in value.items():
        try:
            result[name] = as_coefficient_value(one)
        except ValueError as error:
            raise ValueError(f"has {name}, which {error}") from None
    return result


def as_anisotropy(value: Any) -> Any:
    """Two rows of a tensor, or a table of one for each region."""
    if isinstance(value, dict) and value and not set(value) & set(PRINCIPAL):
        return {name: as_tensor(one, f"has {name} = ") for name, one in value.items()}
    return as_tensor(value, "is ")


def as_tensor(value: Any, place: str) -> list[list[float]]:
    """From its rows, or from its principal values and the angle of the first to the x axis."""
    rows = value
    if isinstance(value, dict) and {"angle", *value} == set(PRINCIPAL):
        along, across, angle = (value.get(key, 0.0) for key in PRINCIPAL)
        if all(map(is_finite, (along, across, angle))):
            turn = math.radians(angle)
            axes = np.array([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]])
            rows = (axes @ np.diag([along, across]) @ axes.T).tolist()
    if is_square(rows):
        tensor = np.array(rows, dtype=float)
        is_symmetric = abs(tensor[0, 1] - tensor[1, 0]) <= ROUNDING * np.abs(tensor).max()
        if is_symmetric and np.linalg.eigvalsh(tensor)[0] > 0:
            return tensor.tolist()
    raise ValueError(
        f"{place}{brief(value)}: give two rows of a symmetric tensor, or "
        "{ along = 10, across = 1, angle = 30 }, with positive principal values"
    )


def is_square(rows: Any) -> bool:
    return (
        isinstance(rows, list)
        and len(rows) == DIM
        and all(isinstance(row, list) and len(row) == DIM for row in rows)
        and all(is_finite(one) for row in rows for one in row)
    )


Regional = Annotated[Any, PlainValidator(as_regional)]
Anisotropy = Annotated[Any, PlainValidator(as_anisotropy)]


def values_by_region(value: Any) -> dict[str, Any]:
    """The values of a term; one for all has no name."""
    return value if isinstance(value, dict) else {"": value}


class EquationTable(CoefficientsTable):
    """storage du/dt - div(diffusion anisotropy grad u) + advection . grad u + reaction u = source.

    Leakage (level - u) may be added to the right: exchange with drains, or with a layer below.
    Storage goes with the table [time].
    """

    NEEDS = (
        ("upwind", "advection", "what is upwinded"),
        ("crosswind", "upwind", "write upwind = true"),
        ("anisotropy", "diffusion", "its size"),
    )

    storage: Regional = None
    diffusion: Regional = None
    advection: Regional = None
    reaction: Regional = None
    leakage: Regional = None
    level: Regional = None
    source: Regional = None
    anisotropy: Anisotropy = None
    upwind: bool = False
    crosswind: float | None = Field(default=None, gt=0, allow_inf_nan=False)

    def faults(self) -> Iterator[str]:
        if not self.entries():
            yield f"holds no term: give at least one of {any_of(TERMS)}"
        if self.has("leakage") != self.has("level"):
            yield (
                "needs leakage and level together, or neither of them: by area, leakage times "
                "(level - u) enters"
            )
        sizes = values_by_region(self.diffusion).values()
        if self.has("anisotropy") and any(isinstance(one, list) for one in sizes):
            yield "has a tensor as diffusion, and anisotropy: keep one of them"
        for name, one in values_by_region(self.advection).items():
            if name and isinstance(one, str):
                yield f"has advection.{name} = {one!r}: by region, velocities are lists of numbers"

    def entries(self) -> dict[str, Any]:
        """The terms that are there."""
        return {name: getattr(self, name) for name in TERMS if self.has(name)}

    def coefficients(self) -> dict[str, Any]:
        """All that may be the name of an unknown, by key."""
        return {
            f"equation.{name}.{region}".rstrip("."): one
            for name, value in self.entries().items()
            for region, one in values_by_region(value).items()
        }

    def regional(self) -> list[str]:
        """Keys whose values differ by region."""
        every = (*TERMS, "anisotropy")
        return [f"equation.{name}" for name in every if isinstance(getattr(self, name), dict)]

    def form(self, mesh: Mesh) -> WeakForm:
        values = {name: on_cells(mesh, name, value) for name, value in self.entries().items()}
        if self.anisotropy is not None:
            tensor = on_cells(mesh, "anisotropy", self.anisotropy)
            values["diffusion"] = scale(values["diffusion"], tensor)
        level = values.pop("level", None)
        terms: dict[str, Callable[[Any], WeakForm]] = {
            "storage": storage,
            "diffusion": diffusion,
            "advection": partial(advection, supg=self.upwind, crosswind=self.crosswind),
            "reaction": reaction,
            "leakage": lambda conductance: leakage(conductance, 1.0, level),
            "source": lambda strength: -source(strength),
        }
        return sum((terms[name](value) for name, value in values.items()), start=WeakForm())


def on_cells(mesh: Mesh, name: str, value: Any) -> Any | AbstractCoefficient:
    """What stands in a term: as the file has it or, by region, one value a cell."""
    if not isinstance(value, Mapping):
        return value
    values = {own: one for own, one in value.items() if own != REST}
    with error_context(f"equation.{name}"):
        return by_region(mesh, values, rest=value.get(REST))
