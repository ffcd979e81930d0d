"""An inverse problem in words, for people to check before they wait for it."""

from typing import Any

import numpy as np

from riesz.fem.elements.space import Space
from riesz.fem.problem import BoundaryValueProblem
from riesz.fem.terms.coefficient import (
    AbstractCoefficient,
    Constant,
    Function,
    Latent,
    Nodal,
    PerCell,
    Product,
    WeightedSum,
)
from riesz.fem.terms.series import TIME, Series
from riesz.fem.terms.weakform import PointSource, Term
from riesz.fem.time.axis import TimeAxis
from riesz.observe.likelihood import AbstractLikelihood
from riesz.observe.observables import AtPoints
from riesz.observe.observations import Observations
from riesz.priors.fields import FieldCoefficient
from riesz.priors.latent import LatentSpace

WIDTH = 14

STEPPED = {"storage": ("rate", "past")}
"""Coefficients that steps in time put in, by term: there is nothing to tell of them."""


def problem_text(
    forwards: tuple[BoundaryValueProblem, ...],
    latents: LatentSpace,
    observations: Observations,
    likelihood: AbstractLikelihood,
    axis: TimeAxis | None = None,
) -> str:
    """All parts of a problem, one below the other."""
    several = len(forwards) > 1
    equations = [
        block
        for number, forward in enumerate(forwards, start=1)
        for block in experiment_blocks(forward, f" {number}" if several else "")
    ]
    unknowns = [f"{name}: {latents.latents[name].describe()}" for name in latents.names]
    parts = [
        ("mesh", [describe_mesh(forwards[0].space)]),
        *([] if axis is None else [("time", [time_text(axis)])]),
        *equations,
        ("unknowns", unknowns),
        ("coordinates", [f"{latents.num_coordinates}, standard normal before the data are seen"]),
        ("observations", [observations_text(observations)]),
        ("noise", [likelihood.describe()]),
    ]
    return "\n".join(["Inverse problem", *with_headings(parts)])


def experiment_blocks(forward: BoundaryValueProblem, number: str) -> list[tuple[str, list[str]]]:
    """The equation of an experiment, and what is prescribed in it."""
    prescribed = [f"{piece.tag}: {coefficient_text(piece.value)}" for piece in forward.dirichlet]
    return [
        (f"equation{number}", equation_lines(forward)),
        (f"Dirichlet{number}", prescribed[::-1] or ["nowhere"]),
    ]


def observations_text(observations: Observations) -> str:
    count, what = observations.num_sensors, observations.what
    kinds = "" if isinstance(what, AtPoints) else f" ({what.describe()})"
    return f"{count}{kinds}, values {range_of(observations.values)}"


def with_headings(blocks: list[tuple[str, list[str]]]) -> list[str]:
    """Lines of blocks, the first of each behind its heading."""
    return [
        f"  {'' if number else heading:{WIDTH}}{line}"
        for heading, block in blocks
        for number, line in enumerate(block)
    ]


def describe_mesh(space: Space) -> str:
    mesh = space.mesh
    kind = {1: "intervals", 2: "triangles", 3: "tetrahedra"}[mesh.dim]
    low, high = mesh.nodes.min(axis=0), mesh.nodes.max(axis=0)
    quadratic = "quadratic " if space.element.degree == 2 else ""
    cells = f"{mesh.num_cells} {quadratic}{kind}"
    about = ", about the axis r = 0" if space.axisymmetric else ""
    return f"{mesh.num_nodes} nodes, {cells}, from {place(low)} to {place(high)}{about}"


def time_text(axis: TimeAxis) -> str:
    first, last = axis.dates(axis.times[[0, -1]])
    unit = "" if axis.origin is None else " days"
    lengths = f"{axis.steps.min():.4g} .. {axis.steps.max():.4g}{unit}"
    return f"{axis.num_steps} steps of {lengths}, from {first} to {last}"


def place(x: np.ndarray) -> str:
    return f"({', '.join(f'{value:.6g}' for value in x)})"


def equation_lines(forward: BoundaryValueProblem) -> list[str]:
    """The terms one below the other, with what stands in them."""
    form = forward.form
    lines = [f"{sign(term)} {term_text(term)}" for term in form.terms]
    lines += [f"{sign(source)} {point_source_text(source)}" for source in form.point_sources]
    lines[-1] += " = 0"
    return lines


def sign(part: Term | PointSource) -> str:
    return "+" if part.sign > 0 else "-"


def term_text(term: Term) -> str:
    coefficients = {
        key: c for key, c in term.coefficients.items() if key not in STEPPED.get(term.name, ())
    }
    inside = ", ".join(f"{key}: {coefficient_text(c)}" for key, c in coefficients.items())
    return f"{term.name}({inside})" + ("" if term.on is None else f" on {term.on}")


def point_source_text(source: PointSource) -> str:
    rates = "known"
    if isinstance(source.rates, AbstractCoefficient):
        rates = coefficient_text(source.rates)
    points = source.points
    is_unknown = isinstance(points, Latent)
    where = f"at the {coefficient_text(points)}" if is_unknown else f"{len(points)} points"
    return f"point_source({where}, rates: {rates})"


def coefficient_text(coefficient: AbstractCoefficient) -> str:
    match coefficient:
        case Latent(name=name) | FieldCoefficient(name=name):
            kind = "unknown" if isinstance(coefficient, Latent) else "unknown field"
            return f"{kind} {name!r}"
        case Constant(value=value):
            return number_text(np.asarray(value))
        case Nodal(values=values) | PerCell(values=values):
            return f"{range_of(values)} over the mesh"
        case Function(num_arguments=count):
            return "function of " + ("x", "x and z", "", "x, z, u and grad u")[count - 1]
        case WeightedSum(told=told):
            return told
        case _:
            return series_text(coefficient)


def series_text(coefficient: AbstractCoefficient) -> str:
    if isinstance(coefficient, Product):
        return " times ".join(map(coefficient_text, coefficient.parts))
    if not isinstance(coefficient, Series):
        return type(coefficient).__name__
    unknown = [f", with the unknown {name!r}" for name in coefficient.names if name != TIME]
    return f"{len(coefficient.times)} values in time{''.join(unknown)}"


def number_text(value: np.ndarray | np.generic) -> str:
    if value.ndim == 0:
        return f"{float(value):.6g}"
    return f"({', '.join(map(number_text, value))})"


def range_of(values: Any) -> str:
    array = np.asarray(values)
    return f"{array.min():.4g} .. {array.max():.4g}"
