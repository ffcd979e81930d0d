"""What was understood of a problem file, in plain words and as numbers."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from riesz.case.data.covariates import EFFECTS, LOCAL
from riesz.case.file.problem import Case
from riesz.density.engine import AbstractEngine
from riesz.geometry.crs import length_unit, place_on_earth, short_crs
from riesz.inference.fit import Choice
from riesz.inference.table import AUTO
from riesz.mesh.facets import facet_measures
from riesz.mesh.mesh import Mesh, cell_volumes
from riesz.mesh.tags import facets_of_tag
from riesz.observe.effects import WithEffects
from riesz.problem.description import with_headings
from riesz.problem.problem import InverseProblem

SQUARES = {"m": (1e6, "km2"), "km": (1.0, "km2"), "ft": (5280.0**2, "square miles")}
"""What areas are told in, by the unit of the coordinates."""

LENGTHS = {"m": (1e3, "km"), "km": (1.0, "km"), "ft": (5280.0, "miles")}
"""What lengths are told in, by the unit of the coordinates."""

SOLVE, GROWTH = 3e-7, 1.25
"""Seconds of a sparse solve by nodes, in the plane: 0.03 s at 10,000 nodes, on one core."""

BASE, COPIES = 800.0, 8.0
"""Megabytes of the program itself, and how many states each solve holds for its slope."""

MOST_NUMBERS = 500_000
"""In states that engines solve for at once."""


@dataclass(frozen=True, eq=False)
class CaseDescription:
    """The problem, what it was made from, the engine that will be taken, and what to know.

    Its text is in plain words, its `numbers` are the same for programs.
    """

    case: Case

    def __str__(self) -> str:
        case = self.case
        choice = case.choice()
        blocks = [
            (
                "domain",
                [domain_text(case), *place_lines(case), area_text(case), format_meshes(case)],
            ),
            ("observations", observations_lines(case)),
            ("effects", effect_lines(case)),
            ("regions", regions_lines(case)),
            ("boundary", boundary_lines(case)),
            ("wells", wells_lines(case)),
            ("rivers", rivers_lines(case)),
            ("engine", engine_lines(case)),
            ("cost", [str(cost_of(case.problem, choice.engine))]),
        ]
        lines = with_headings(blocks)
        notes = [f"note: {note}" for note in case.notes] or ["Nothing to warn of."]
        return "\n".join([f"{case.path} is understood.", *lines, case.problem.describe(), *notes])

    @property
    def numbers(self) -> dict[str, Any]:
        case = self.case
        choice, auto = case.choice(), automatic_choice(case)
        problem = case.problem
        values = problem.observations.values
        priors = {name: latent.describe() for name, latent in problem.latents.latents.items()}
        cost = cost_of(problem, choice.engine)
        return {
            "problem": str(case.path),
            "crs": case.tables.crs,
            "area": area_of(case.coarse),
            "nodes": [mesh.num_nodes for mesh in meshes_of(case)],
            "longest_edge": longest_edge(problem.forward.space.mesh),
            "observations": len(values),
            "prepared": list(map(str, case.prepared.told)),
            "censored": int(case.censored.sum()),
            "unit": case.unit,
            "transform": case.transform,
            "values": [float(values.min()), float(values.max())],
            "unknowns": {name: priors[name] for name in problem.latents.names},
            "unknown_numbers": problem.num_coordinates,
            "engine": choice.engine.name,
            "why": str(choice.why),
            **exchange_numbers(case),
            "auto": None if auto is None else {"engine": auto.engine.name, "why": str(auto.why)},
            "rough_seconds": round(cost.seconds),
            "rough_megabytes": round(cost.megabytes),
            "notes": list(map(str, case.notes)),
        }


def engine_lines(case: Case) -> list[str]:
    """The engine and, where the file names it, what would be taken otherwise."""
    choice = case.choice()
    lines = [f"{choice.engine.name}, because {choice.why}"]
    auto = automatic_choice(case)
    if auto is None:
        return lines
    which = "it too" if auto.engine.name == choice.engine.name else auto.engine.name
    return [*lines, f"auto would take {which}, because {auto.why}"]


def automatic_choice(case: Case) -> Choice | None:
    """What auto would take, where the file names an engine."""
    return None if case.tables.engine.name == AUTO else case.choice(AUTO)


def domain_text(case: Case) -> str:
    domain = case.tables.domain
    if domain.rectangle is not None:
        where = f"the rectangle from {domain.rectangle.lower} to {domain.rectangle.upper}"
    elif domain.around_observations:
        margin = domain.margin or domain.max_edge
        where = f"the hull of the observations and {margin:.6g} around it"
    else:
        where = str(domain.outline or domain.mesh)
    return where if case.tables.crs is None else f"{where}, in {short_crs(case.tables.crs)}"


def place_lines(case: Case) -> list[str]:
    crs = case.tables.crs
    place = None if crs is None else place_on_earth(case.coarse.nodes, crs)
    return [] if place is None else [f"on Earth: {place}"]


def area_text(case: Case) -> str:
    area = area_of(case.coarse)
    unit = length_unit(case.tables.crs)
    if unit not in SQUARES:
        return f"area {area:.6g} in squared units of the coordinates"
    size, name = SQUARES[unit]
    return f"area {area / size:,{'.4g' if area < 1e3 * size else '.0f'}} {name}"


def format_meshes(case: Case) -> str:
    counts = [f"{mesh.num_nodes}" for mesh in meshes_of(case)]
    longest = longest_edge(case.problem.forward.space.mesh)
    nested = f"{len(counts)} nested meshes" if len(counts) > 1 else "one mesh"
    return f"{nested} of {', '.join(counts)} nodes, edges up to {longest:.6g}"


def observations_lines(case: Case) -> list[str]:
    """How the rows came to be, and what their values are."""
    names = case.tables.observations
    steps = list(map(str, case.prepared.told))
    if case.prepared.told[-1].code != "rows_outside":
        steps[-1] += ", all inside the domain"
    unit = "" if case.unit is None else f" in {case.unit}"
    value = f"value in the column {names.value}{unit}"
    if case.transform is not None:
        value += "; the state is its natural logarithm"
    return [*steps, value]


def effect_lines(case: Case) -> list[str]:
    likelihood = case.problem.likelihood.main
    if not isinstance(likelihood, WithEffects):
        return []
    lines = [f"{EFFECTS}[{i}]: {label}" for i, label in enumerate(likelihood.labels)]
    return lines + ([] if likelihood.local is None else [f"{LOCAL}: {likelihood.local.describe()}"])


def meshes_of(case: Case) -> tuple[Mesh, ...]:
    hierarchy = case.problem.hierarchy
    return (case.problem.forward.space.mesh,) if hierarchy is None else hierarchy.meshes


def area_of(mesh: Mesh) -> float:
    return float(cell_volumes(mesh.nodes, mesh.cells).sum())


def longest_edge(mesh: Mesh) -> float:
    corners = mesh.nodes[mesh.cells]
    return float(np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2).max())


def wells_lines(case: Case) -> list[str]:
    """How many there are, where they were found, and what they put in together."""
    known = [one for one in case.inputs.wells if one.unknown is None]
    result: dict[str, int] = {}
    for one in known:
        result[one.rows.path.name] = result.get(one.rows.path.name, 0) + one.count
    lines = []
    if known:
        places = ", ".join(f"{count} in {name}" for name, count in result.items())
        count = sum(result.values())
        lines.append(
            f"{format_well_count(count)} ({places}) with a total rate of {total_rate(case):.6g}"
            f"{', at last' if any(one.rows.times is not None for one in known) else ''}"
        )
    names = [one.unknown for one in case.inputs.wells if one.unknown is not None]
    if names:
        lines.append(f"{format_well_count(len(names))} of unknown rate: {', '.join(names)}")
    return lines


def format_well_count(count: int) -> str:
    return f"{count} well{'' if count == 1 else 's'}"


def total_rate(case: Case) -> float:
    """Of the wells whose rates are known."""
    return float(sum(np.sum(one.rates) for one in case.inputs.wells if one.unknown is None))


def rivers_lines(case: Case) -> list[str]:
    lines = []
    for one, table in zip(case.rivers, case.tables.rivers, strict=True):
        lines.append(
            f"{table.file}: {length_text(case, one.length)} inside the domain, mean stage "
            f"{one.mean_stage:.6g}{'' if one.rise is None else f' + {one.rise}'}, conductance "
            f"{format_value(one.conductance)}"
        )
    return lines


def boundary_lines(case: Case) -> list[str]:
    """What passes the boundary; where u is prescribed the problem's own words tell."""
    lines = []
    for tag, one in case.tables.boundary.items():
        mesh = case.problem.forward.space.mesh
        length = float(facet_measures(mesh.nodes, facets_of_tag(mesh, tag).nodes).sum())
        text = f"{tag}, {length_text(case, length)}: "
        if one.inflow is not None:
            lines.append(f"{text}{format_value(one.inflow)} enters by length")
        if one.conductance is not None:
            lines.append(
                f"{text}exchange with the stage {format_value(one.stage)} by the conductance "
                f"{format_value(one.conductance)}"
            )
    return lines


def format_value(value: float | str) -> str:
    return f"unknown {value!r}" if isinstance(value, str) else f"{value:.6g}"


def regions_lines(case: Case) -> list[str]:
    """How much of the domain each region is, and where it comes from."""
    files = {one.name: f" of {one.path.name}" for one in case.inputs.regions}
    return [
        f"{name}{files.get(name, '')}: {100 * share:.3g} % of the area"
        for name, share in region_shares(case).items()
    ]


def region_shares(case: Case) -> dict[str, float]:
    mesh = case.problem.forward.space.mesh
    areas = cell_volumes(mesh.nodes, mesh.cells)
    return {name: float(areas[own].sum() / areas.sum()) for name, own in mesh.regions.items()}


def length_text(case: Case, length: float) -> str:
    unit = length_unit(case.tables.crs)
    if unit not in LENGTHS:
        return f"{length:.4g} in units of the coordinates"
    size, name = LENGTHS[unit]
    return f"{length / size:,.4g} {name}"


def exchange_numbers(case: Case) -> dict[str, Any]:
    """The same for programs."""
    return {
        "boundary": {tag: one.entries() for tag, one in case.tables.boundary.items()},
        "regions": region_shares(case),
        "wells": {
            "known": sum(one.count for one in case.inputs.wells if one.unknown is None),
            "total_rate": total_rate(case),
            "unknown_rates": [one.unknown for one in case.inputs.wells if one.unknown is not None],
        },
        "rivers": [
            {
                "file": table.file,
                "length": one.length,
                "mean_stage": one.mean_stage,
                "conductance": one.conductance,
            }
            for one, table in zip(case.rivers, case.tables.rivers, strict=True)
        ],
    }


@dataclass(frozen=True)
class Cost:
    """Seconds on two cores, and megabytes; within a factor of about three."""

    seconds: float
    megabytes: float

    def __str__(self) -> str:
        return (
            f"roughly {cost_text(self.seconds)} on two cores and {self.megabytes / 1000:.1f} GB of "
            "memory; a guess from the sizes, right within a factor of about three"
        )


def cost_text(seconds: float) -> str:
    if seconds < 100:
        return f"{max(10 * round(seconds / 10), 10)} seconds"
    if seconds < 5400:
        return f"{round(seconds / 60)} minutes"
    return f"{seconds / 3600:.1f} hours"


def cost_of(problem: InverseProblem, engine: AbstractEngine) -> Cost:
    nodes = problem.forward.space.mesh.num_nodes
    together = min(problem.num_coordinates, len(problem.observed))
    numbers = min(nodes * together, MOST_NUMBERS) + nodes * 200
    seconds = engine.compiling + engine.cost(problem.num_solves * SOLVE * nodes**GROWTH, problem)
    return Cost(seconds, BASE + COPIES * 8e-6 * numbers)
