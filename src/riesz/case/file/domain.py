"""The domain of a problem file: an outline, the surroundings of the observations, or a mesh."""

import math
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from riesz.case.file.schema import DomainTable, RectangleTable
from riesz.errors import FileFormatError, any_of, error_context
from riesz.geometry.hull import hull_outline
from riesz.geometry.outline import Outline, contains
from riesz.io.maps.outlines import OUTLINES, OutlineFile, read_domain, read_outline_file
from riesz.mesh.mesh import Mesh
from riesz.mesh.shapes import rectangle
from riesz.mesher.polygon import mesh_from_polygon

FEWEST_LEVELS, MOST_LEVELS = 2, 4
COARSE_EDGES = 6
"""Without `levels`, the coarsest mesh has at least so many edges along the domain."""

MOST_CELLS = 2e7
"""Of the finest mesh: beyond, memory runs out long before there is a result."""

Points = Float[np.ndarray, "row 2"]


def outline_of(path: Path, domain: DomainTable, into: str | None = None) -> OutlineFile | None:
    """The outline that a problem file names, if it does; in the coordinates `into`."""
    if domain.outline is None:
        return None
    outline_path = path.parent / domain.outline
    if outline_path.suffix.lower() not in OUTLINES:
        raise FileFormatError(
            f"{path}: domain.outline is {domain.outline!r}: give a file that ends in "
            f"{any_of(OUTLINES)}, or name a mesh file by domain.mesh."
        )
    return read_outline_file(outline_path, domain.layer, own=domain.crs, into=into)


def coarse_mesh(path: Path, domain: DomainTable, file: OutlineFile | None, points: Points) -> Mesh:
    """The mesh that is refined until its edges are short enough."""
    if domain.mesh is not None:
        mesh_path = path.parent / domain.mesh
        if mesh_path.suffix.lower() in OUTLINES:
            raise FileFormatError(
                f"{path}: domain.mesh is {domain.mesh!r}, an outline: name it domain.outline."
            )
        return read_domain(mesh_path)
    assert domain.max_edge is not None  # the table was validated
    if domain.rectangle is not None:
        return coarse_rectangle(path, domain.rectangle, domain.max_edge, domain.levels)
    if file is not None:
        return coarse_polygon(path, file.path, file.outline, domain, points)
    with error_context(f"{path}: domain.around_observations"):
        outline = hull_outline(points, domain.margin or domain.max_edge)
    return coarse_polygon(path, path, outline, domain, points)


def coarse_polygon(
    path: Path, named: Path, outline: Outline, domain: DomainTable, points: Points
) -> Mesh:
    max_edge: Any = domain.max_edge
    levels = num_levels(max_edge, outline.extent, domain.levels)
    check_num_cells(path, 1, levels)
    edge = coarse_edge(max_edge, levels)
    # No triangle is larger than the equilateral one; divided twice, as the square may be zero.
    check_num_cells(path, 4 / math.sqrt(3) * float(outline.area) / edge / edge, levels)
    fixed_points = points[contains(outline, points)] if domain.simplify is not None else None
    with error_context(named):
        return mesh_from_polygon(
            outline, max_edge=edge, simplify=domain.simplify, keep_inside=fixed_points
        )


def coarse_rectangle(path: Path, table: RectangleTable, max_edge: float, asked: int | None) -> Mesh:
    sides = [upper - lower for lower, upper in zip(table.lower, table.upper, strict=True)]
    if not min(sides) > 0:
        raise FileFormatError(
            f"{path}: domain.rectangle goes from {table.lower} to {table.upper}: upper must be "
            "above lower in both coordinates."
        )
    levels = num_levels(max_edge, max(sides), asked)
    check_num_cells(path, 1, levels)
    edge = coarse_edge(max_edge, levels)
    # The diagonals are the longest edges.
    along_x, along_y = (max(math.sqrt(2) * side / edge * (1 - 1e-12), 1.0) for side in sides)
    check_num_cells(path, 2 * along_x * along_y, levels)
    return rectangle((math.ceil(along_x), math.ceil(along_y)), table.lower, table.upper)


def check_num_cells(path: Path, num_coarse: float | int, levels: int) -> None:
    """Raise, before there is a mesh, where the finest would have far too many cells."""
    count = num_coarse * 4.0 ** min(levels - 1, 100)
    if not count <= MOST_CELLS:
        raise FileFormatError(
            f"{path}: the finest mesh would have {count:.2g} cells or more, and may have "
            f"{MOST_CELLS:.0e}: raise domain.max_edge, a length in the unit of the coordinates, or "
            f"lower domain.levels, here {levels if levels < 1000 else 'very many'}."
        )


def coarse_edge(max_edge: float, levels: int) -> float:
    """The longest edge of the coarsest mesh."""
    return max_edge * 2.0 ** (levels - 1)


def num_levels(max_edge: float, extent: float, asked: int | None) -> int:
    """As asked for, or as many as leave the coarsest mesh some edges along the domain."""
    if asked is not None:
        return asked
    along = extent / COARSE_EDGES / max_edge
    halvings = math.log2(min(max(along, 1.0), 2.0**MOST_LEVELS))
    return min(max(1 + math.floor(halvings), FEWEST_LEVELS), MOST_LEVELS)


def num_levels_of(domain: DomainTable, coarse: Mesh) -> int:
    if domain.max_edge is None:
        return 1 if domain.levels is None else domain.levels
    extent = float(np.ptp(coarse.nodes, axis=0).max())
    return num_levels(domain.max_edge, extent, domain.levels)
