r"""Models of dated heads: all readings as one normal vector, given a few scales.

A head of well $w$ in year $t$ is $h(x_w) + l_w + v(x_w, t) + d_w(t) + e$: the steady head at its
place, the well's own level, the change that recharge makes there, the well's own drift, and an
error. Level, drift and error are those of `GroupedNormal`. By the equation $h$ has the covariance
of the steady experiment, and $v$ that of `changes`; models without it have kernels in their place.
"""

from abc import abstractmethod

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from riesz.density.marginal.linear import affine_map
from riesz.density.marginal.points import AbstractPointMap, at_points
from riesz.fem.linear.linear_solve import SparseLU
from riesz.mesh.mesh import Mesh
from riesz.priors.kernels import AbstractKernel, Matern12, Matern32, Matern52, length_scale_of
from riesz.problem.linearity import Parts, linear_parts
from riesz.problem.problem import InverseProblem
from riesz_paper.experiments.aquifer.model import TREND_SD, Structure, head_problem
from riesz_paper.experiments.aquifer_time.changes import (
    DIFFUSIVITIES,
    FIRST_RECHARGE,
    At,
    Responses,
)

Scales = dict[str, tuple[float, float]]
"""Medians, and sds of logarithms."""

NOISE: Scales = {"error": (0.007, 1.0), "drift": (0.015, 1.0), "memory": (10.0, 1.0)}
"""In sds of the training wells, some 70 ft, and in years."""

RECHARGE: Scales = {"whole": (0.01, 1.0), "field": (0.01, 1.0)}
"""What a year of it changes heads by."""

Coordinates = Float[Array, " scale"]
Tables = Float[Array, "table first second"]


class AbstractModel(eqx.Module):
    """The covariance of heads, standardised, in wells and years."""

    @property
    @abstractmethod
    def scales(self) -> Scales:
        """Those that are log-normal beforehand."""

    @property
    def num_coordinates(self) -> int:
        return len(self.scales)

    def values(self, coordinates: Coordinates) -> dict[str, Float[Array, ""]]:
        return {
            name: median * jnp.exp(spread * own)
            for (name, (median, spread)), own in zip(self.scales.items(), coordinates, strict=True)
        }

    @abstractmethod
    def covariance(
        self, coordinates: Coordinates, first: At, second: At, tables: Tables
    ) -> Float[Array, "first second"]:
        """Without errors; `tables` are what `tabulated` gives for the same rows."""

    def tabulated(self, first: At, second: At) -> Tables:
        """What no scale changes."""
        return jnp.zeros((0, len(first.well), len(second.well)))

    def error_sd(self, coordinates: Coordinates) -> Float[Array, ""]:
        """Of a year by itself."""
        return self.values(coordinates)["error"]


MISFIT: Scales = {"misfit": (0.1, 1.0), "misfit_length": (30.0, 0.7)}
"""Of steady heads that miss their equation, in sds of the training wells and km."""


class ByEquation(AbstractModel):
    """Steady heads and changes as the equations make them.

    With `misfit` a Matern field stands for what the steady equation, with one diffusivity for all
    of the plain, does not know.

    The first coordinates are those of the steady model: scales of its source and its boundary
    values, and its noise, which is the level that a well has for itself.
    """

    problem: InverseProblem
    parts: Parts
    at: AbstractPointMap
    places: Float[Array, "well 2"]
    responses: Responses = eqx.field(static=True)
    misfit: bool = eqx.field(static=True)

    @property
    def scales(self) -> Scales:
        known = {**NOISE, **RECHARGE, "diffusivity": (100.0, 1.5)}
        return known | MISFIT if self.misfit else known

    @property
    def num_steady(self) -> int:
        return len(self.parts.others)

    @property
    def num_coordinates(self) -> int:
        return self.num_steady + len(self.scales)

    def values(self, coordinates: Coordinates) -> dict[str, Float[Array, ""]]:
        return super().values(coordinates[self.num_steady :])

    def steady(self, coordinates: Coordinates) -> Float[Array, "well well"]:
        others = coordinates[: self.num_steady]
        _, found = affine_map(self.problem, self.parts, others, self.at)
        origin = jnp.zeros(len(self.parts.linear), found.dtype)
        level = self.parts.z(self.problem.latents, origin, others)["noise"]
        return found @ found.T + level**2 * jnp.eye(len(found))

    def covariance(
        self, coordinates: Coordinates, first: At, second: At, tables: Tables
    ) -> Float[Array, "first second"]:
        z = self.values(coordinates)
        steady = self.steady(coordinates)[jnp.ix_(first.well, second.well)]
        share = shares(jnp.log(z["diffusivity"]), np.log(DIFFUSIVITIES))
        weights = jnp.concatenate([z["whole"] ** 2 * share, z["field"] ** 2 * share])
        if self.misfit:
            kernel = Matern52(z["misfit_length"], z["misfit"])
            steady = steady + between(kernel, self.places[first.well], self.places[second.well])
        return steady + jnp.tensordot(weights, tables, axes=1) + own_drift(z, first, second)

    def tabulated(self, first: At, second: At) -> Tables:
        return jnp.asarray(self.responses.covariances(first, second))


def by_equation(
    mesh: Mesh, places: Float[np.ndarray, "well 2"], responses: Responses, *, misfit: bool = False
) -> ByEquation:
    problem = head_problem(mesh, places, np.zeros(len(places)), Structure())
    at = at_points(problem, problem.operator, SparseLU())
    known = jnp.asarray(places)
    return ByEquation(problem, linear_parts(problem), at, known, responses, misfit)


def shares(here: Float[Array, ""], ticks: Float[np.ndarray, " tick"]) -> Float[Array, " tick"]:
    """Of the two ticks beside a value, along a line; beyond the last ones, theirs alone."""
    units = jnp.eye(len(ticks))
    return jnp.stack([jnp.interp(here, jnp.asarray(ticks), row) for row in units])


class WithoutEquation(AbstractModel):
    """The same parts with kernels: a plane with a Matern field, and a field in space and time."""

    places: Float[Array, "well 2"]

    @property
    def scales(self) -> Scales:
        steady = {"sd": (1.0, 1.0), "length": (30.0, 0.7), "level": (0.05, 1.0)}
        change = {"field_length": (30.0, 0.7), "field_memory": (10.0, 1.0)}
        return {**NOISE, **RECHARGE, **steady, **change}

    def covariance(
        self, coordinates: Coordinates, first: At, second: At, tables: Tables
    ) -> Float[Array, "first second"]:
        z = self.values(coordinates)
        one, other = self.places[first.well], self.places[second.well]
        steady = plane(self.places, one, other) + between(
            Matern52(z["length"], z["sd"]), one, other
        )
        level = jnp.where(same_well(first, second), z["level"] ** 2, 0.0)
        since = jnp.minimum(first.year[:, None], second.year[None, :]) - FIRST_RECHARGE + 1
        field = between(Matern52(z["field_length"], z["field"]), one, other)
        in_time = between(Matern12(z["field_memory"], 1.0), years(first), years(second))
        changes = z["whole"] ** 2 * since + field * in_time
        return steady + level + changes + own_drift(z, first, second)


class Separable(AbstractModel):
    """A plane and one Gaussian process, a Matern kernel of places times one of years."""

    places: Float[Array, "well 2"]

    @property
    def scales(self) -> Scales:
        return {
            "error": (0.02, 1.0),
            "sd": (1.0, 1.0),
            "length": (30.0, 0.7),
            "memory": (30.0, 1.5),
        }

    def covariance(
        self, coordinates: Coordinates, first: At, second: At, tables: Tables
    ) -> Float[Array, "first second"]:
        z = self.values(coordinates)
        one, other = self.places[first.well], self.places[second.well]
        in_time = between(Matern32(z["memory"], 1.0), years(first), years(second))
        process = between(Matern52(z["length"], z["sd"]), one, other) * in_time
        return plane(self.places, one, other) + process


def between(
    kernel: AbstractKernel, first: Float[Array, "first dim"], second: Float[Array, "second dim"]
) -> Float[Array, "first second"]:
    length = length_scale_of(kernel)[None, None, :]
    squares = jnp.sum(((first[:, None] - second[None]) / length) ** 2, axis=-1)
    return kernel.sd**2 * kernel.profile(squares, jnp)


def years(at: At) -> Float[Array, "row 1"]:
    return jnp.asarray(at.year, float)[:, None]


def same_well(first: At, second: At) -> Bool[Array, "first second"]:
    return first.well[:, None] == second.well[None, :]


def own_drift(
    z: dict[str, Float[Array, ""]], first: At, second: At
) -> Float[Array, "first second"]:
    gap = jnp.abs(first.year[:, None] - second.year[None, :]) / z["memory"]
    return jnp.where(same_well(first, second), z["drift"] ** 2 * jnp.exp(-gap), 0.0)


def plane(
    places: Float[Array, "well 2"], first: Float[Array, "first 2"], second: Float[Array, "second 2"]
) -> Float[Array, "first second"]:
    """Of an unknown linear function, as wide as that of the steady model."""
    centre = jnp.mean(places, axis=0, keepdims=True)
    length = jnp.max(jnp.abs(places - centre))
    one, other = (1 / length) * (first - centre), (1 / length) * (second - centre)
    return TREND_SD**2 * (1 + one @ other.T)
