"""A first problem file for a table of measurements, with every line explained."""

import math
import shlex
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np
from jaxtyping import Float

from riesz.case.data.rows import rows_by_site
from riesz.case.options import InitOptions, takes
from riesz.case.start.coordinates import Systems
from riesz.case.start.lines import crs_quoted, quote, relative, toml_number
from riesz.case.start.rows import MeasuredRows, read_measured_rows
from riesz.case.start.stresses import Stresses, read_stresses, share_lines
from riesz.errors import FileFormatError, RieszError
from riesz.geometry.crs import is_crs_text
from riesz.geometry.hull import hull_outline
from riesz.geometry.outline import Outline, simplify_outline
from riesz.io.maps.outlines import OUTLINES, OutlineFile, read_outline_file
from riesz.io.store.files import write_bytes
from riesz.notes import Note

NUM_NODES, NODES_IN_TIME = 2000, 300
NODES_PER_SQUARE = 2.8
"""Nodes of a mesh in a square of the longest edge, as our mesher makes them."""

MARGIN_SHARE, LENGTH_SHARE = 0.08, 0.15
"""Of the extent: around the observations, and of the length over which sources change."""

SOURCE_FACTOR = 4.0
"""A source that changes over a length l bends the state by about its size times l squared, less
what the boundary holds back."""

MARGINAL = (
    'name = "laplace"             # name = "auto" chooses itself\n'
    'density = "marginal"         # exact, as the state is linear in source and rim'
)
NUTS = (
    'name = "mcmc"                # the density marginal takes no values below a limit; laplace is '
    "faster, but needs numbers for noise and scales\n"
    'mcmc.kernel = "nuts"'
)

LOCAL = (
    'local = "auto"               # neighbours may share more than the equation tells: leaving '
    "out observations decides"
)
NOT_LOCAL = (
    "# local = true               # neighbours share more than the equation tells; slow with mcmc"
)
SKEWED = 1.0
"""Of positive values whose logarithms are less skewed; an exponential distribution has 2."""


@dataclass(frozen=True)
class Starter:
    """The text of a problem file, and what was guessed for it."""

    text: str
    guesses: tuple[Note, ...]


@takes(InitOptions)
def write_first_problem(table: Path | str, options: InitOptions) -> tuple[str, ...]:
    """Write a first problem file for a table of measurements; returns what was guessed, in words.

    Every line of the file is explained. The keywords are the options of `riesz init`: what is not
    given is guessed.
    """
    out = Path(options.out)
    if out.exists():
        raise RieszError(f"{out} is there already: choose another --out, or remove it.")
    if not out.absolute().parent.is_dir():
        raise RieszError(f"{out} cannot be written: there is no folder {out.parent}.")
    made = starter(Path(table), out.absolute().parent, options)
    write_bytes(out, made.text.encode())
    return tuple(map(str, made.guesses))


def starter(table_path: Path, folder: Path, asked: InitOptions) -> Starter:
    """A problem file that will lie in `folder`."""
    polygon = None if asked.polygon is None else Path(asked.polygon)
    if polygon is not None and is_outline(table_path) and not is_outline(polygon):
        raise RieszError(
            f"the table comes first and the outline second: riesz init {shlex.quote(str(polygon))} "
            f"{shlex.quote(str(table_path))}"
        )
    file = None if polygon is None else read_outline_file(polygon, own=asked.polygon_crs)
    measured = read_measured_rows(table_path, file, folder, asked)
    file, rows = measured.file, measured.rows
    points, values, num_limits = rows.points, rows.values, int(rows.censored.sum())
    extent = float(np.ptp(np.concatenate(file.outline.rings) if file else points, axis=0).max())
    outline = file.outline if file else hull_outline(points, MARGIN_SHARE * extent)
    num_nodes = NODES_IN_TIME if asked.in_time else NUM_NODES
    edge = round_significant(math.sqrt(NODES_PER_SQUARE * outline.area / num_nodes))
    spread = float(values.std())
    length = round_significant(LENGTH_SHARE * extent)
    stresses = read_stresses(asked, folder) if asked.in_time else None
    own = {} if stresses is None else gaps_in_time(measured, stresses)
    # The words of the file, each line explained, with gaps for the numbers.
    name = "starter.txt" if stresses is None else "in_time.txt"
    text = (
        files("riesz.case.start")
        .joinpath(name)
        .read_text(encoding="utf-8")
        .format(
            **own,
            crs=crs_lines(file, measured.systems, told=asked.polygon_crs is not None),
            domain=domain_lines(file, polygon, folder, edge, extent, points, measured.systems),
            edge=toml_number(edge),
            nodes=num_nodes,
            observations=measured.lines,
            local=NOT_LOCAL if num_limits else LOCAL,
            mean=toml_number(round_significant(float(values.mean()), 3)),
            spread=toml_number(round_significant(spread)),
            trend=toml_number(round_significant(spread * extent_beyond(outline, points))),
            bends=toml_number(round_significant(SOURCE_FACTOR * spread / length**2)),
            length=toml_number(length),
            engine=NUTS if num_limits else MARGINAL,
        )
    )
    notes = [*measured.notes, Note("mesh_edges", edge=toml_number(edge))]
    notes += [] if stresses is None else [one.note for one in stresses.each]
    if not asked.log and is_skewed(values):
        notes.append(Note("values_skewed"))
    if num_limits:
        notes.append(Note("limits_need_nuts", count=num_limits))
    if measured.systems.in_degrees:
        notes.append(Note("crs_kept_degrees"))
    return Starter(text, tuple(notes))


def is_outline(path: Path) -> bool:
    return path.suffix.lower() in OUTLINES


def gaps_in_time(measured: MeasuredRows, stresses: Stresses) -> dict[str, str]:
    """What the words of a model in time have beside those of a steady one."""
    dates, values, sites = measured.dates, measured.rows.values, measured.rows.sites
    assert dates is not None  # or there are no rows in time
    assert sites is not None
    groups = rows_by_site(sites)
    within = np.concatenate([values[rows] - values[rows].mean() for rows in groups]).std()
    start = stresses.start(dates.first)
    if start > dates.first:
        late = max(stresses.each, key=lambda one: one.dates.first)
        raise FileFormatError(
            f"{late.path} begins on {late.dates.first}, and readings on {dates.first}: give what "
            "drives the model from there on, or leave earlier readings out of their table."
        )
    return {
        "source": stresses.source,
        "stresses": stresses.lines(),
        "start": start.isoformat(),
        "end": stresses.end(dates.last).isoformat(),
        "step": dates.step,
        "shares": share_lines(stresses.shares),
        "within": toml_number(round_significant(float(within) or float(values.std()))),
    }


def is_skewed(values: Float[np.ndarray, " row"]) -> bool:
    """Whether values ask for logarithms."""
    if not (values > 0).all():
        return False
    plain, logged = (skewness(one) for one in (values, np.log(values)))
    return plain > SKEWED and abs(logged) < plain


def skewness(values: Float[np.ndarray, " row"]) -> float:
    centred = values - values.mean()
    return float(np.mean(centred**3) / np.mean(centred**2) ** 1.5)


def extent_beyond(outline: Outline, points: Float[np.ndarray, "row 2"]) -> float:
    """How much wider the domain is than where the observations lie: trends go on beyond them."""
    corners = np.concatenate(outline.rings)
    across = np.ptp(corners, axis=0) / np.sqrt(12)  # the sd of places all over it
    return max(1.0, float(np.linalg.norm(across) / np.linalg.norm(points.std(axis=0))))


def round_significant(value: float, digits: int = 2) -> float:
    return float(f"{value:.{digits - 1}e}")


def crs_lines(file: OutlineFile | None, systems: Systems, *, told: bool) -> str:
    """Which coordinates the problem lives in, and why."""
    crs = systems.problem
    if crs is not None and is_crs_text(crs):
        why = "of all coordinates here"
        if systems.in_degrees:
            why = "longitude and latitude"
        elif systems.moves_table or systems.moves_outline:
            why = "all coordinates are projected into these"
        if file is not None and file.crs == crs and not told:
            why = f"as {file.path.name} says"
        return f"crs = {crs_quoted(crs)}   # {why}"
    return '# crs = "EPSG:32612"         # which coordinates these are: an EPSG code, PROJ or WKT'


def domain_lines(
    file: OutlineFile | None,
    polygon: Path | None,
    folder: Path,
    edge: float,
    extent: float,
    points: Float[np.ndarray, "row 2"],
    systems: Systems,
) -> str:
    if file is None or polygon is None:
        margin = toml_number(round_significant(MARGIN_SHARE * extent))
        return (
            "around_observations = true   # the hull of the observations, or outline = "
            f'"area.geojson"\nmargin = {margin}   # so far around them'
        )
    named = f"outline = {quote(relative(polygon, folder))}   # where the equation holds"
    if systems.moves_outline:
        named += f"\ncrs = {crs_quoted(str(systems.outline))}   # of the outline"
    simple = round_significant(edge / 4)
    try:
        simplify_outline(file.outline, simple, points)
    except RieszError:
        return named
    return f"{named}\nsimplify = {toml_number(simple)}   # bends that matter less are left out"
