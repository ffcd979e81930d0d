"""What can be predicted: functions of the problem, a state and the unknowns `z` that go with it.

Any such function will do; those here are the usual ones.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree

from riesz.errors import RieszError
from riesz.fem.flux import budget, flux_through
from riesz.fem.places import AtPoints, Places, centroids, coefficients_at, fluxes_at, states_at
from riesz.latent.field import FieldCoefficient
from riesz.mesh.locate import locate
from riesz.mesh.mesh import Mesh
from riesz.posterior.posterior import check_unknown
from riesz.problem.problem import FLUX, STATE, InverseProblem, NodeValues

Quantity = Callable[[InverseProblem, NodeValues, Any], Any]
"""`quantity(problem, state, z)`."""


class StateAt(eqx.Module):
    """The state at points, or at all nodes."""

    where: Places | None = None

    def __call__(self, problem: InverseProblem, state: NodeValues, z: PyTree) -> AtPoints:
        return state if self.where is None else states_at(problem.forward, self.where, state, z)


class UnknownAt(eqx.Module):
    """An unknown at points; without points a field's nodal values, or the number itself."""

    name: str = eqx.field(static=True)
    where: Places | None = None

    def __call__(
        self, problem: InverseProblem, state: NodeValues, z: PyTree
    ) -> Float[Array, "*shape"]:
        coefficient = problem.latents.latents[self.name].coefficient(self.name)
        if self.where is not None:
            return coefficients_at(problem.forward, self.where, coefficient, state, z)
        if isinstance(coefficient, FieldCoefficient):
            return coefficient.field.nodal(z[self.name])
        return jnp.asarray(z[self.name])


class FluxAt(eqx.Module):
    r"""The vector $-a\nabla u$ at points, or in the middle of every cell."""

    where: Places | None = None

    def __call__(
        self, problem: InverseProblem, state: NodeValues, z: PyTree
    ) -> Float[Array, "point dim"]:
        where = centroids(problem.forward) if self.where is None else self.where
        return fluxes_at(problem.forward, where, state, z)


def has_flux(problem: InverseProblem) -> bool:
    """Whether a term of the equation moves anything."""

    def flux(problem: InverseProblem) -> Float[Array, "cell dim"]:
        dtype = problem.forward.dtype
        state = jnp.zeros(problem.forward.space.num_dofs, dtype)
        return FluxAt()(problem, state, problem.z(jnp.zeros(problem.num_coordinates, dtype)))

    try:
        eqx.filter_eval_shape(flux, problem)
    except RieszError:
        return False
    return True


class Outflow(eqx.Module):
    """What passes through tagged facets, from the gradient beside them; see `flux_through`."""

    on: str = eqx.field(static=True)
    out_of: str | None = eqx.field(static=True, default=None)

    def __call__(self, problem: InverseProblem, state: NodeValues, z: PyTree) -> Float[Array, ""]:
        return flux_through(problem.forward, state, z, on=self.on, out_of=self.out_of)


class BudgetTerm(eqx.Module):
    """One line of the budget of the domain or a region, such as "prescribed on left".

    At exact states all lines balance to rounding, whatever the mesh; see `budget`.
    """

    name: str = eqx.field(static=True)
    region: str | None = eqx.field(static=True, default=None)

    def __call__(self, problem: InverseProblem, state: NodeValues, z: PyTree) -> Float[Array, ""]:
        found = budget(problem.forward, state, z, region=self.region)
        lines = found.gains | found.outflows
        if self.name not in lines:
            raise RieszError(
                f"the budget has no line {self.name!r}: it has {', '.join(map(repr, lines))}."
            )
        return lines[self.name]


def quantity_named(problem: InverseProblem, name: str, where: Places | None) -> Quantity:
    """The state "u", an unknown by its name, or the vector "flux"."""
    if name == STATE:
        return StateAt(where)
    if name == FLUX and name not in problem.latents.names:
        return FluxAt(where)
    try:
        check_unknown(problem, name)
    except RieszError:
        raise RieszError(
            f"there is no quantity {name!r}: ask for 'u', 'flux' or one of the unknowns "
            f"{', '.join(problem.latents.names)}, or pass a function (problem, state, z)."
        ) from None
    return UnknownAt(name, where)


@dataclass(frozen=True, eq=False)
class Grid:
    """Centres of the pixels that cover a mesh's box.

    Arrays on a grid have the last axis along x and the one before along y, both ascending; what
    lies outside the domain is NaN.
    """

    axes: tuple[Float[np.ndarray, " _"], ...]  # along x, then y, then z
    inside: Bool[np.ndarray, "*shape"]
    cell: tuple[float, ...]  # the size of a pixel along each axis

    @property
    def points(self) -> Float[np.ndarray, "point dim"]:
        """Centres inside the domain, in the order of `inside`."""
        return centres(self.axes)[self.inside]

    def filled(
        self, values: Float[np.ndarray, "point *components"]
    ) -> Float[np.ndarray, "*shape_and_components"]:
        """An array on the grid from values at `points`."""
        whole = np.full((*self.inside.shape, *values.shape[1:]), np.nan)
        whole[self.inside] = values
        return whole


def grid(mesh: Mesh, shape: tuple[int, ...] | None = None, *, cell: float | None = None) -> Grid:
    """So many pixels along x and y over the mesh's box, or square ones of a given size.

    The box of the latter starts at the mesh's lowest coordinates and may end beyond the highest.
    """
    low, high = mesh.nodes.min(axis=0), mesh.nodes.max(axis=0)
    counts, sizes = pixels(high - low, shape, cell)
    axes = tuple(
        a + size * (0.5 + np.arange(n)) for a, n, size in zip(low, counts, sizes, strict=True)
    )
    where = centres(axes)
    inside = locate(mesh, where.reshape(-1, mesh.dim)).inside.reshape(where.shape[:-1])
    if not inside.any():
        raise RieszError(
            f"none of the grid's {inside.size} centres lies in the domain: take smaller cells."
        )
    return Grid(axes, inside, tuple(sizes))


def pixels(
    extent: Float[np.ndarray, " dim"], shape: tuple[int, ...] | None, cell: float | None
) -> tuple[list[int], list[float]]:
    """How many along each axis, and how long."""
    if (shape is None) == (cell is None):
        raise RieszError("give a grid either by its shape, such as (80, 60), or by its cell size.")
    if shape is None:
        if not (cell is not None and np.isfinite(cell) and cell > 0):
            raise RieszError(f"the cell size is {cell}: give a positive length.")
        counts = np.maximum(np.ceil(extent / cell * (1 - 1e-12)).astype(int), 1)
        return counts.tolist(), [float(cell)] * len(extent)
    if len(shape) != len(extent) or min(shape) < 1:
        raise RieszError(
            f"the grid's shape is {shape}: give {len(extent)} positive numbers of cells, along x "
            "first."
        )
    return list(shape), (extent / np.array(shape)).tolist()


def centres(axes: tuple[Float[np.ndarray, " _"], ...]) -> Float[np.ndarray, "*shape dim"]:
    """Coordinates (x, y, ...) of every pixel, with the axis along x last."""
    mesh = np.meshgrid(*reversed(axes), indexing="ij")
    return np.stack(mesh[::-1], axis=-1)


def arrow_grid(problem: InverseProblem, along: int) -> Grid | None:
    """So many arrows along the longer side of the domain; None where nothing flows."""
    if not has_flux(problem):
        return None
    mesh = problem.forward.space.mesh
    return grid(mesh, cell=float(np.ptp(mesh.nodes, axis=0).max()) / along)
