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
from pydantic import ValidationError

from riesz.errors import FileFormatError, RieszError
from riesz.geometry.outline import outline_from
from riesz.infer.fit import AUTO, Choice, choose_engine
from riesz.infer.problem import InverseProblem, inverse_problem
from riesz.io.domain_file import OUTLINE_SUFFIXES, read_domain, read_outline
from riesz.io.observations_file import Columns, check_inside, read_columns
from riesz.io.problem_tables import DomainTable, ProblemTables, RectangleTable
from riesz.io.raster import check_crs
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


@dataclass(frozen=True, eq=False)
class Case:
    """A problem file that was understood: what it says, and the problem that it describes."""

    path: Path
    tables: ProblemTables
    coarse: Mesh  # the mesh that is refined to the one that the problem lives on
    columns: Columns
    problem: InverseProblem
    notes: tuple[str, ...]  # what was warned of

    def choice(self, engine: str | None = None) -> Choice:
        """The engine that will be taken, and why; `engine` overrules the file."""
        name = self.tables.engine.name if engine is None else engine
        if name == AUTO:
            return choose_engine(self.problem)
        asked = "the problem file names it" if engine is None else "it was asked for"
        return Choice(name, asked)


def read_problem(path: Path, *, coarse: Mesh | None = None, table: Path | None = None) -> Case:
    """Read a problem file and all that it names, and build the problem.

    A run folder passes its own mesh and table in place of those that the file names.
    """
    tables = read_tables(path)
    folder = path.parent
    names = tables.observations
    columns = read_columns(
        folder / names.file if table is None else table, (names.x, names.y, names.value)
    )
    if coarse is None:
        coarse = coarse_mesh(path, tables.domain)
    num_levels = levels_of(tables.domain, coarse)
    domain = hierarchy(coarse, num_levels) if num_levels > 1 else coarse
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
    notes = tuple(dict.fromkeys(str(warning.message) for warning in caught))
    return Case(path, tables, coarse, columns, problem, notes)


def read_tables(path: Path) -> ProblemTables:
    """The content of a problem file, validated."""
    try:
        content: dict[str, Any] = tomllib.loads(read_bytes(path).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FileFormatError(f"{path} is not TOML: {error}.") from None
    try:
        tables = ProblemTables.model_validate(content)
    except ValidationError as error:
        raise FileFormatError(f"{path}: {error_text(error, content)}") from None
    if tables.crs is not None:
        try:
            check_crs(tables.crs)
        except RieszError as error:
            raise FileFormatError(f"{path}: {error}") from None
    return tables


def coarse_mesh(path: Path, domain: DomainTable) -> Mesh:
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
    try:
        extent = outline_from(content).extent
        edge = coarse_edge(domain.max_edge, extent, domain.levels)
        return mesh_from_polygon(content, max_edge=edge)
    except RieszError as error:
        raise type(error)(f"{outline_path}: {error}") from None


def coarse_rectangle(
    path: Path, table: RectangleTable, max_edge: float, levels: int | None
) -> Mesh:
    sides = np.subtract(table.upper, table.lower)
    if not (sides > 0).all():
        raise FileFormatError(
            f"{path}: domain.rectangle goes from {table.lower} to {table.upper}: upper must be "
            "above lower in both coordinates."
        )
    edge = coarse_edge(max_edge, float(sides.max()), levels)
    # The diagonals are the longest edges.
    counts = np.ceil(math.sqrt(2) * sides / edge * (1 - 1e-12)).astype(int)
    return rectangle((int(counts[0]), int(counts[1])), table.lower, table.upper)


def coarse_edge(max_edge: float, extent: float, levels: int | None) -> float:
    """The longest edge of the coarsest mesh."""
    return max_edge * 2 ** (num_levels(max_edge, extent, levels) - 1)


def num_levels(max_edge: float, extent: float, levels: int | None) -> int:
    """As asked for, or as many as leave the coarsest mesh some edges along the domain."""
    if levels is not None:
        return levels
    halvings = math.log2(max(extent / (COARSE_EDGES * max_edge), 1.0))
    return min(max(1 + math.floor(halvings), FEWEST_LEVELS), MOST_LEVELS)


def levels_of(domain: DomainTable, coarse: Mesh) -> int:
    if domain.max_edge is None:
        return 1 if domain.levels is None else domain.levels
    extent = float(np.ptp(coarse.nodes, axis=0).max())
    return num_levels(domain.max_edge, extent, domain.levels)
