"""Problem files: an inverse problem written down in TOML, read, checked and built.

Everything in the file is validated before any work begins. Paths in it are relative to its folder.
"""

import math
import tomllib
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool
from pydantic import ValidationError

from riesz.errors import FileFormatError, RieszError
from riesz.geometry.outline import outline_from
from riesz.infer.fit import AUTO, Choice, check_suits, choose_engine
from riesz.infer.problem import InverseProblem, inverse_problem
from riesz.io.domain_file import (
    OUTLINE_SUFFIXES,
    check_outline_crs,
    read_domain,
    read_outline,
)
from riesz.io.observations_file import Columns, check_inside, read_columns
from riesz.io.problem_tables import DomainTable, ProblemTables, RectangleTable
from riesz.io.raster import check_crs, crs_note
from riesz.io.table import error_text
from riesz.io.whole_file import read_bytes
from riesz.mesh.mesh import Mesh
from riesz.mesh.refine import hierarchy
from riesz.mesh.shapes import rectangle
from riesz.mesher.polygon import mesh_from_polygon
from riesz.observe.observations import observations

FEWEST_LEVELS, MOST_LEVELS = 2, 4
COARSE_EDGES = 6
"""Without `levels`, the coarsest mesh has at least so many edges along the domain."""

MOST_CELLS = 2e7
"""Of the finest mesh: beyond, memory runs out long before there is a result."""


@dataclass(frozen=True, eq=False)
class Case:
    """A problem file that was understood: what it says, and the problem that it describes."""

    path: Path
    content: bytes  # the file as it was read
    tables: ProblemTables
    coarse: Mesh  # the mesh that is refined to the one that the problem lives on
    columns: Columns
    problem: InverseProblem
    notes: tuple[str, ...]  # what was warned of

    @property
    def unit(self) -> str | None:
        """Of the observed values, as the file writes it."""
        return self.tables.observations.unit

    @property
    def transform(self) -> str | None:
        """ "log" where the state is the natural logarithm of what was measured."""
        return self.tables.observations.transform

    @property
    def censored(self) -> Bool[np.ndarray, " sensor"]:
        """Which observations are only known to lie below their value."""
        return np.zeros(self.problem.observations.num_sensors, dtype=bool)

    def choice(self, engine: str | None = None) -> Choice:
        """The engine that will be taken, and why; `engine` overrules the file."""
        name = self.tables.engine.name if engine is None else engine
        if name == AUTO:
            return choose_engine(self.problem)
        asked = "the problem file names it" if engine is None else "it was asked for"
        check_suits(name, self.problem)
        return Choice(name, asked)


def read_problem(path: Path, *, coarse: Mesh | None = None, table: Path | None = None) -> Case:
    """Read a problem file and all that it names, and build the problem.

    A run folder passes its own mesh and table in place of those that the file names.
    """
    content = read_bytes(path)
    tables = tables_in(path, content)
    folder = path.parent
    names = tables.observations
    columns = read_columns(
        folder / names.file if table is None else table, (names.x, names.y, names.value)
    )
    if coarse is None:
        coarse = coarse_mesh(path, tables.domain, tables.crs)
    levels = levels_of(tables.domain, coarse)
    check_size(path, coarse.num_cells, levels)
    domain = hierarchy(coarse, levels) if levels > 1 else coarse
    check_inside(columns, coarse)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            problem = inverse_problem(
                domain,
                tables.equation.form(),
                latents={name: prior.distribution() for name, prior in tables.unknowns.items()},
                observations=observations(columns.points, columns.numbers[:, 2]),
                likelihood=tables.noise.likelihood(),
                dirichlet={tag: one.value for tag, one in tables.boundary.items()},
            )
        except RieszError as error:
            raise type(error)(f"{path}: {error}") from None
    about_crs = None if tables.crs is None else crs_note(tables.crs)
    told = [] if about_crs is None else [about_crs]
    told += [str(warning.message) for warning in caught]
    return Case(path, content, tables, coarse, columns, problem, tuple(dict.fromkeys(told)))


def tables_in(path: Path, content: bytes) -> ProblemTables:
    """What a problem file holds, validated."""
    try:
        found: dict[str, Any] = tomllib.loads(content.decode())
    # Not only TOMLDecodeError: a whole number of thousands of digits is a plain ValueError.
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{path} is not TOML: {error}.") from None
    try:
        tables = ProblemTables.model_validate(found)
    except ValidationError as error:
        raise FileFormatError(f"{path}: {error_text(error, found)}") from None
    if tables.crs is not None:
        try:
            check_crs(tables.crs)
        except RieszError as error:
            raise FileFormatError(f"{path}: {error}") from None
    return tables


def coarse_mesh(path: Path, domain: DomainTable, crs: str | None) -> Mesh:
    """The mesh that is refined until its edges are short enough."""
    if domain.mesh is not None:
        mesh_path = path.parent / domain.mesh
        if mesh_path.suffix.lower() in OUTLINE_SUFFIXES:
            raise FileFormatError(
                f"{path}: domain.mesh is {domain.mesh!r}, an outline: name it domain.outline."
            )
        return read_domain(mesh_path)
    assert domain.max_edge is not None  # the table was validated
    if domain.rectangle is not None:
        return coarse_rectangle(path, domain.rectangle, domain.max_edge, domain.levels)
    outline_path = path.parent / str(domain.outline)
    if outline_path.suffix.lower() not in OUTLINE_SUFFIXES:
        raise FileFormatError(
            f"{path}: domain.outline is {domain.outline!r}: give a file that ends in "
            f"{' or '.join(OUTLINE_SUFFIXES)}, or name a mesh file by domain.mesh."
        )
    content = read_outline(outline_path)
    if crs is not None:
        check_outline_crs(outline_path, content, crs)
    try:
        outline = outline_from(content)
    except RieszError as error:
        raise type(error)(f"{outline_path}: {error}") from None
    levels = num_levels(domain.max_edge, outline.extent, domain.levels)
    check_size(path, 1, levels)
    edge = coarse_edge(domain.max_edge, levels)
    # No triangle is larger than the equilateral one; divided twice, as the square may be zero.
    check_size(path, 4 / math.sqrt(3) * float(outline.area) / edge / edge, levels)
    try:
        return mesh_from_polygon(outline, max_edge=edge)
    except RieszError as error:
        raise type(error)(f"{outline_path}: {error}") from None


def coarse_rectangle(path: Path, table: RectangleTable, max_edge: float, asked: int | None) -> Mesh:
    sides = [upper - lower for lower, upper in zip(table.lower, table.upper, strict=True)]
    if not min(sides) > 0:
        raise FileFormatError(
            f"{path}: domain.rectangle goes from {table.lower} to {table.upper}: upper must be "
            "above lower in both coordinates."
        )
    levels = num_levels(max_edge, max(sides), asked)
    check_size(path, 1, levels)
    edge = coarse_edge(max_edge, levels)
    # The diagonals are the longest edges.
    along_x, along_y = (max(math.sqrt(2) * side / edge * (1 - 1e-12), 1.0) for side in sides)
    check_size(path, 2 * along_x * along_y, levels)
    return rectangle((math.ceil(along_x), math.ceil(along_y)), table.lower, table.upper)


def check_size(path: Path, num_coarse: float | int, levels: int) -> None:
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


def levels_of(domain: DomainTable, coarse: Mesh) -> int:
    if domain.max_edge is None:
        return 1 if domain.levels is None else domain.levels
    extent = float(np.ptp(coarse.nodes, axis=0).max())
    return num_levels(domain.max_edge, extent, domain.levels)
