"""The tables [boundary.NAME] of a problem file: what holds on stretches of the boundary."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import PositiveFloat, model_validator

from riesz.case.table import Coefficient, NumberOrName, Table
from riesz.errors import told_of
from riesz.fem.terms.weakform import WeakForm, neumann, robin
from riesz.io.maps.outlines import read_lines
from riesz.mesh.mesh import Mesh
from riesz.mesh.tags import tag_boundary_near, tagged_facets

KINDS = ("value", "inflow", "conductance")


class BoundaryTable(Table):
    """A stretch of the boundary: u is prescribed, or what enters; elsewhere nothing passes.

    By length, `inflow` enters, or `conductance` times (`stage` - u).
    """

    value: Coefficient = None
    inflow: NumberOrName = None
    conductance: NumberOrName = None
    stage: NumberOrName = None
    along: str | None = None
    layer: str | None = None
    tolerance: PositiveFloat | None = None

    @model_validator(mode="after")
    def check(self):
        given = [key for key in KINDS if getattr(self, key) is not None]
        if self.conductance is None and self.stage is not None:
            raise ValueError("has the key 'stage', which needs 'conductance': u itself is 'value'")
        if not given:
            raise ValueError(
                "lacks the key 'value': a number, or the name of an unknown; or give 'inflow', or "
                "'conductance' and 'stage'"
            )
        if len(given) > 1:
            raise ValueError(f"has {' and '.join(given)}: keep one of them")
        if self.conductance is not None:
            if self.stage is None:
                raise ValueError(
                    "has the key 'conductance', which needs 'stage': the level of u beyond the "
                    "boundary"
                )
            if isinstance(self.conductance, float) and not self.conductance > 0:
                raise ValueError(
                    f"has conductance = {self.conductance:g}: give a positive number, or the name "
                    "of an unknown"
                )
        self.check_map()
        return self

    def check_map(self) -> None:
        if self.along is not None and self.tolerance is None:
            raise ValueError(
                "has the key 'along', which needs 'tolerance': how far from its lines the boundary "
                "may be, a length"
            )
        if self.along is None and (self.tolerance is not None or self.layer is not None):
            raise ValueError("has the key 'tolerance' or 'layer', which needs 'along': a map layer")

    def given(self) -> dict[str, Any]:
        """What holds, each a number or the name of an unknown."""
        found = {key: getattr(self, key) for key in (*KINDS, "stage")}
        return {key: value for key, value in found.items() if value is not None}


Boundary = Mapping[str, BoundaryTable]


def prescribed_values(boundary: Boundary) -> dict[str, Any]:
    """Where u is known, or is itself an unknown."""
    return {tag: one.value for tag, one in boundary.items() if one.value is not None}


def boundary_exchange(boundary: Boundary) -> WeakForm:
    """What leaves through the boundary where u is not prescribed."""
    form = WeakForm()
    for tag, one in boundary.items():
        if one.inflow is not None:
            form = form - neumann(one.inflow, on=tag)
        if one.conductance is not None:
            form = form + robin(one.conductance, one.stage, on=tag)
    return form


def idle_notes(mesh: Mesh, boundary: Boundary) -> list[str]:
    """That nothing can enter where u is prescribed at every node of a stretch."""
    nodes = {tag: np.unique(tagged_facets(mesh, tag).nodes) for tag in boundary}
    fixed = [nodes[tag] for tag in prescribed_values(boundary)]
    held = np.unique(np.concatenate(fixed)) if fixed else np.zeros(0, int)
    return [
        f"what enters at boundary.{tag} has no effect: u is prescribed on all of it"
        for tag, one in boundary.items()
        if one.value is None and np.isin(nodes[tag], held).all()
    ]


def with_stretches(path: Path, mesh: Mesh, boundary: Boundary, crs: str | None) -> Mesh:
    """The mesh with names for the stretches of its boundary that lie along lines of map layers."""
    for name, table in boundary.items():
        if table.along is None or table.tolerance is None:
            continue
        lines = read_lines(path.parent / table.along, table.layer, crs=crs)
        with told_of(f"{path}: boundary.{name}.along"):
            mesh = tag_boundary_near(mesh, name, lines, table.tolerance)
    return mesh
