"""Pixels over a mesh, and what lies on them."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from riesz.errors import RieszError
from riesz.mesh.location import locate
from riesz.mesh.mesh import Mesh


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

    def fill(
        self, values: Float[np.ndarray, " point *components"]
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


def arrow_grid(mesh: Mesh, along: int) -> Grid:
    """So many arrows along the longer side of the domain."""
    return grid(mesh, cell=float(np.ptp(mesh.nodes, axis=0).max()) / along)
