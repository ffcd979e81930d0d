"""Places and numbers from tables, every bad number told with its line."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float, Int

from riesz.errors import MeshError
from riesz.geometry.crs import unit_clash
from riesz.io.tables.layers import read_table
from riesz.mesh.locate import locate
from riesz.mesh.mesh import Mesh


@dataclass(frozen=True, eq=False)
class Columns:
    """Some columns of a table as numbers, and the line that each row came from."""

    path: Path
    names: tuple[str, ...]
    numbers: Float[np.ndarray, "row column"]
    lines: Int[np.ndarray, " row"]
    place: str = "line"  # what `lines` counts

    @property
    def points(self) -> Float[np.ndarray, "row 2"]:
        """The first two columns, x and y."""
        return self.numbers[:, :2]


def read_columns(path: Path, names: tuple[str, ...]) -> Columns:
    """The named columns of a table, all of them finite numbers."""
    table = read_table(path, value=names[-1])
    numbers = np.column_stack([table.numbers(name) for name in names])
    return Columns(path, names, numbers, table.lines, table.place)


def inside_of(mesh: Mesh, points: Float[np.ndarray, "row 2"]) -> Bool[np.ndarray, " row"]:
    return np.asarray(locate(mesh, points).inside)


def check_inside(columns: Columns, mesh: Mesh, advice: str = "drop them") -> None:
    """Raise where places lie outside the domain, with the line of the first."""
    (outside,) = np.nonzero(~inside_of(mesh, columns.points))
    if outside.size:
        x, y = columns.points[outside[0]]
        low, high = mesh.nodes.min(axis=0), mesh.nodes.max(axis=0)
        clash = unit_clash(columns.points, mesh.nodes)
        raise MeshError(
            f"{columns.path}: {outside.size} of {len(columns.points)} points lie outside the "
            f"domain, first {columns.place} {columns.lines[outside[0]]} at ({x:.10g}, {y:.10g}); "
            f"the domain spans ({low[0]:.6g}, {low[1]:.6g}) to ({high[0]:.6g}, {high[1]:.6g}): "
            f"{clash or f'{advice}, or see that both are in the same coordinates'}."
        )
