"""What can be measured: the state at points, averages, gradients, differences, fluxes, logarithms,
and unknowns of the equation themselves.

An observable says what; on the mesh of a problem it becomes sensors.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jaxtyping import Array, Float, Int

from riesz.errors import MeshError, RieszError, nearest
from riesz.fem.elements.domain import facet_domain
from riesz.fem.elements.space import Operator, Space, facet_dofs, functionals, point_operator
from riesz.fem.evaluate import EvaluationPoints, evaluation_points
from riesz.fem.fluxes import orient_facets
from riesz.fem.problem import BoundaryValueProblem
from riesz.mesh.integrals import WeightedPoints, along_line, in_area
from riesz.mesh.location import locate
from riesz.mesh.mesh import Mesh
from riesz.mesh.quality import barycentric_gradients
from riesz.mesh.tags import facets_of_tag
from riesz.observe import given
from riesz.observe.sensors import (
    AbstractSensors,
    CoefficientValues,
    FluxComponents,
    LinearSensors,
    Logarithms,
    Outflows,
    SeveralSensors,
)
from riesz.priors.fields import AbstractFieldLatent
from riesz.priors.latent import LatentSpace


class Placed(NamedTuple):
    """Sensors on a mesh, and where each is, for maps: the middle of what it sees."""

    sensors: AbstractSensors
    centres: given.Points


class AbstractObservable(eqx.Module):
    """What one data set measures, sensor by sensor."""

    kind: ClassVar[str] = ""
    """In a few words."""

    @property
    @abstractmethod
    def num_sensors(self) -> int: ...

    @abstractmethod
    def discretise(
        self, forward: BoundaryValueProblem, latents: LatentSpace, tolerance: float | None
    ) -> Placed:
        """The sensors on the mesh of a problem."""

    def describe(self) -> str:
        return self.kind


class AbstractAtPoints(AbstractObservable):
    """One sensor a point."""

    points: eqx.AbstractVar[given.Points]

    @property
    def num_sensors(self) -> int:
        return len(self.points)


def check_dimensions(points: given.Points, space: Space) -> None:
    if points.shape[1] != space.mesh.dim:
        raise RieszError(
            f"the observations have {points.shape[1]} coordinates, but the mesh has "
            f"{space.mesh.dim} dimensions."
        )


def rows_at(
    forward: BoundaryValueProblem, points: given.Points, tolerance: float | None
) -> Operator:
    """The state at points, which must lie in the domain."""
    check_dimensions(points, forward.space)
    try:
        return point_operator(forward.space, points, dtype=forward.dtype, tolerance=tolerance)
    except MeshError as error:
        raise MeshError(f"of the observations, {error}") from None


def sensor_points(
    forward: BoundaryValueProblem, points: given.Points, tolerance: float | None
) -> EvaluationPoints:
    check_dimensions(points, forward.space)
    try:
        return evaluation_points(forward, points, tolerance=tolerance)
    except MeshError as error:
        raise MeshError(f"of the observations, {error}") from None


class AtPoints(AbstractAtPoints):
    """The state at points, one row of coordinates each."""

    kind = "values at points"
    points: given.Points = eqx.field(converter=given.as_point_rows)

    def discretise(
        self, forward: BoundaryValueProblem, latents: LatentSpace, tolerance: float | None
    ) -> Placed:
        return Placed(LinearSensors(rows_at(forward, self.points, tolerance)), self.points)


def averaging_rows(
    forward: BoundaryValueProblem, points: Sequence[WeightedPoints]
) -> tuple[LinearSensors, given.Points]:
    """Averages by points and weights, one a row, and their middles."""
    space, rows = forward.space, []
    for one in points:
        shapes = np.stack(space.element.values(list(one.barycentric.T)), axis=1)
        shares = one.weights / one.weights.sum()
        row = np.zeros(space.num_dofs)
        np.add.at(row, space.cell_dofs[one.cell], shapes * shares[:, None])
        rows.append(sp.coo_array(row[None]))
    centres = np.stack([one.centre(space.mesh) for one in points])
    return LinearSensors(functionals(sp.vstack(rows), forward.dtype)), centres


def about_axis(points: WeightedPoints, mesh: Mesh) -> WeightedPoints:
    """The volume that each part of an area sweeps, in the place of its area."""
    radius = np.einsum("pc,pc->p", points.barycentric, mesh.nodes[mesh.cells[points.cell], 0])
    return points._replace(weights=points.weights * radius)


class AverageOver(AbstractObservable):
    """The average of the state over areas: polygons, or regions of the mesh by their names.

    A polygon is an array of its corners, a list of rings, GeoJSON or a shapely geometry; on an
    interval, two numbers. On an axisymmetric space it is the average over what the area sweeps.
    """

    kind = "averages over areas"
    areas: tuple[Any, ...] = eqx.field(converter=given.as_areas)

    @property
    def num_sensors(self) -> int:
        return len(self.areas)

    def discretise(
        self, forward: BoundaryValueProblem, latents: LatentSpace, tolerance: float | None
    ) -> Placed:
        mesh = forward.space.mesh
        result = [in_area(mesh, one) for one in self.areas]
        if forward.space.axisymmetric:
            result = [about_axis(one, mesh) for one in result]
        return Placed(*averaging_rows(forward, result))


class AverageAlong(AbstractObservable):
    """The average of the state along lines, each an array of its points: a screen, a transect."""

    kind = "averages along lines"
    lines: tuple[Any, ...] = eqx.field(converter=given.as_lines)

    @property
    def num_sensors(self) -> int:
        return len(self.lines)

    def discretise(
        self, forward: BoundaryValueProblem, latents: LatentSpace, tolerance: float | None
    ) -> Placed:
        mesh = forward.space.mesh
        return Placed(*averaging_rows(forward, [along_line(mesh, one) for one in self.lines]))


class GradientAt(AbstractAtPoints):
    """The slope of the state at points, along directions: one for all, or one each.

    It is that of the cell which holds the point, accurate to the first order of the cells' size
    (the second with quadratic elements).
    """

    kind = "slopes at points"
    points: given.Points = eqx.field(converter=given.as_point_rows)
    directions: Float[np.ndarray, "*sensor dim"] = eqx.field(converter=given.as_vectors)

    def discretise(
        self, forward: BoundaryValueProblem, latents: LatentSpace, tolerance: float | None
    ) -> Placed:
        rows_at(forward, self.points, tolerance)  # raises where they are outside
        space = forward.space
        along = given.unit_vectors(self.directions, len(self.points), space.mesh.dim)
        where = locate(space.mesh, self.points, tolerance=tolerance)
        cell = where.cell
        along_edges = np.einsum("pcd,pd->pc", barycentric_gradients(space.mesh)[cell], along)
        each = space.element.barycentric_derivatives
        shapes = np.array([each(list(one)) for one in where.barycentric])
        slopes = np.einsum("pic,pc->pi", shapes, along_edges)
        number = np.repeat(np.arange(len(cell)), slopes.shape[1])
        entries = (slopes.ravel(), (number, space.cell_dofs[cell].ravel()))
        rows = sp.coo_array(entries, shape=(len(cell), space.num_dofs))
        return Placed(LinearSensors(functionals(rows, forward.dtype)), self.points)


class DifferenceBetween(AbstractAtPoints):
    """The state at points less that at others, as a differential gauge reads it."""

    kind = "differences between points"
    points: given.Points = eqx.field(converter=given.as_point_rows)
    others: given.Points = eqx.field(converter=given.as_point_rows)

    def __check_init__(self):
        if self.points.shape != self.others.shape:
            raise RieszError(
                f"the points have shape {self.points.shape}, those they are compared with "
                f"{self.others.shape}: give pairs."
            )

    def discretise(
        self, forward: BoundaryValueProblem, latents: LatentSpace, tolerance: float | None
    ) -> Placed:
        here, there = (rows_at(forward, one, tolerance) for one in (self.points, self.others))
        rows = functionals(here.to_scipy() - there.to_scipy(), forward.dtype)
        return Placed(LinearSensors(rows), (self.points + self.others) / 2)


class FluxAlong(AbstractAtPoints):
    r"""The flux at points along directions, such as Darcy's $-a\nabla u\cdot d$."""

    kind = "fluxes at points"
    points: given.Points = eqx.field(converter=given.as_point_rows)
    directions: Float[np.ndarray, "*sensor dim"] = eqx.field(converter=given.as_vectors)

    def discretise(
        self, forward: BoundaryValueProblem, latents: LatentSpace, tolerance: float | None
    ) -> Placed:
        where = sensor_points(forward, self.points, tolerance)
        along = given.unit_vectors(self.directions, len(self.points), forward.space.mesh.dim)
        return Placed(FluxComponents(where, jnp.asarray(along, forward.dtype)), self.points)


def prescribed_alone(forward: BoundaryValueProblem) -> dict[str, Int[Array, " _"]]:
    """Unknowns on stretches where the state is prescribed, but for stretches that meet others.

    What is unbalanced at a common node belongs to both.
    """
    space = forward.space
    nodes = {
        tag: facet_dofs(space, facets_of_tag(space.mesh, tag).nodes)
        for tag in forward.dirichlet_tags
    }
    return {
        tag: jnp.asarray(own, jnp.int32)
        for tag, own in nodes.items()
        if not any(np.isin(own, others).any() for name, others in nodes.items() if name != tag)
    }


class FluxThrough(AbstractObservable):
    """What leaves through tagged facets, all of each tag together.

    On a stretch where the state is prescribed, apart from others, it is what the equation needs
    there to balance, accurate as the state is; elsewhere it is read off the gradient beside the
    facets, to the first order of the cells' size. A line inside the domain needs the region of
    cells that the flux comes `out_of`.
    """

    tags: tuple[str, ...] = eqx.field(static=True, converter=given.as_names)
    out_of: str | None = eqx.field(static=True, default=None)

    @property
    def num_sensors(self) -> int:
        return len(self.tags)

    def discretise(
        self, forward: BoundaryValueProblem, latents: LatentSpace, tolerance: float | None
    ) -> Placed:
        space, stretches, centres = forward.space, [], []
        held = prescribed_alone(forward) if self.out_of is None else {}
        degree = max(term.degree(space.element.degree) for term in forward.cells.terms)
        for tag in self.tags:
            facets = orient_facets(space.mesh, tag, self.out_of)
            centres.append(space.mesh.nodes[facets.nodes].mean(axis=(0, 1)))
            beside = facet_domain(space, facets, degree, forward.dtype)
            stretches.append(held.get(tag, beside))
        return Placed(Outflows(tuple(stretches)), np.stack(centres))

    def describe(self) -> str:
        return "fluxes through " + ", ".join(self.tags)


class CoefficientAt(AbstractAtPoints):
    """An unknown itself at points, such as a conductivity from a pumping test."""

    name: str = eqx.field(static=True)
    points: given.Points = eqx.field(converter=given.as_point_rows)

    def discretise(
        self, forward: BoundaryValueProblem, latents: LatentSpace, tolerance: float | None
    ) -> Placed:
        if self.name not in latents.names:
            raise RieszError(
                f"{self.name!r} was measured, but is no unknown of the problem: "
                f"{nearest(self.name, latents.names)}It has {', '.join(latents.names)}."
            )
        latent = latents.latents[self.name]
        if not isinstance(latent, AbstractFieldLatent) and latent.num_coordinates != 1:
            raise RieszError(
                f"{self.name!r} was measured, but is {latent.num_coordinates} numbers: a "
                "measurement is of one number, or of a field at a point."
            )
        where = sensor_points(forward, self.points, tolerance)
        return Placed(CoefficientValues(latent.coefficient(self.name), where), self.points)

    def describe(self) -> str:
        return f"values of {self.name!r} at points"


class LogOf(AbstractObservable):
    """The natural logarithm of another observable, which must be positive."""

    of: AbstractObservable

    @property
    def num_sensors(self) -> int:
        return self.of.num_sensors

    def discretise(
        self, forward: BoundaryValueProblem, latents: LatentSpace, tolerance: float | None
    ) -> Placed:
        inner = self.of.discretise(forward, latents, tolerance)
        return Placed(Logarithms(inner.sensors), inner.centres)

    def describe(self) -> str:
        return f"logarithms of {self.of.describe()}"


class Several(AbstractObservable):
    """Observables one after the other."""

    each: tuple[AbstractObservable, ...]

    @property
    def num_sensors(self) -> int:
        return sum(one.num_sensors for one in self.each)

    def discretise(
        self, forward: BoundaryValueProblem, latents: LatentSpace, tolerance: float | None
    ) -> Placed:
        result = [one.discretise(forward, latents, tolerance) for one in self.each]
        sensors = SeveralSensors(tuple(one.sensors for one in result))
        return Placed(sensors, np.concatenate([one.centres for one in result]))

    def describe(self) -> str:
        return ", ".join(
            one.describe() if isinstance(one, Several) else f"{one.num_sensors} {one.describe()}"
            for one in self.each
        )
