"""What was understood of a problem file, in plain words and as numbers."""

from typing import Any

import numpy as np

from riesz.infer.describe import WIDTH
from riesz.io.problem_file import Case
from riesz.mesh.mesh import Mesh, cell_volumes


def case_text(case: Case) -> str:
    """The problem, what it was made from, the engine that will be taken, and what to know."""
    choice = case.choice()
    lines = [
        ("domain", domain_text(case)),
        ("", f"area {area_of(case.coarse):.6g} in squared units of the coordinates"),
        ("", mesh_text(case)),
        ("observations", observations_text(case)),
        ("engine", f"{choice.engine}, because {choice.why}"),
    ]
    told = [f"  {heading:{WIDTH}}{line}" for heading, line in lines]
    notes = [f"note: {note}" for note in case.notes] or ["Nothing to warn of."]
    return "\n".join([f"{case.path} is understood.", *told, case.problem.summary(), *notes])


def case_numbers(case: Case) -> dict[str, Any]:
    """The same for programs."""
    choice = case.choice()
    problem = case.problem
    values = problem.observations.values
    priors = {name: latent.describe() for name, latent in problem.latents.latents.items()}
    return {
        "problem": str(case.path),
        "area": area_of(case.coarse),
        "nodes": [mesh.num_nodes for mesh in meshes_of(case)],
        "longest_edge": longest_edge(problem.forward.space.mesh),
        "observations": len(values),
        "values": [float(values.min()), float(values.max())],
        "unknowns": {name: priors[name] for name in problem.latents.names},
        "unknown_numbers": problem.num_coordinates,
        "engine": choice.engine,
        "why": choice.why,
        "notes": list(case.notes),
    }


def domain_text(case: Case) -> str:
    domain = case.tables.domain
    if domain.rectangle is not None:
        where = f"the rectangle from {domain.rectangle.lower} to {domain.rectangle.upper}"
    else:
        where = str(domain.outline or domain.mesh)
    return where if case.tables.crs is None else f"{where}, in {case.tables.crs}"


def mesh_text(case: Case) -> str:
    counts = [f"{mesh.num_nodes}" for mesh in meshes_of(case)]
    longest = longest_edge(case.problem.forward.space.mesh)
    nested = f"{len(counts)} nested meshes" if len(counts) > 1 else "one mesh"
    return f"{nested} of {', '.join(counts)} nodes, edges up to {longest:.6g}"


def observations_text(case: Case) -> str:
    names = case.tables.observations
    return (
        f"{case.prepared.num_rows} rows of {names.file}, all inside the domain; value in the "
        f"column {names.value}"
    )


def meshes_of(case: Case) -> tuple[Mesh, ...]:
    hierarchy = case.problem.hierarchy
    return (case.problem.forward.space.mesh,) if hierarchy is None else hierarchy.meshes


def area_of(mesh: Mesh) -> float:
    return float(cell_volumes(mesh.nodes, mesh.cells).sum())


def longest_edge(mesh: Mesh) -> float:
    corners = mesh.nodes[mesh.cells]
    return float(np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2).max())
