"""Meshes of plain domains: interval, rectangle, box, disc and the L.

Nodes run along x first, then y, then z, and cells follow them, so neighbours in space are
neighbours in memory. Along each axis cells are equal, or lie between given ticks.
"""

from collections.abc import Sequence
from itertools import permutations
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import root_scalar

from riesz.errors import MeshError
from riesz.geometry.lines import Number
from riesz.mesh.facets import boundary_facets
from riesz.mesh.mesh import Mesh, as_array, drop_unused_nodes, orient_cells

Corner = Sequence[Number] | Float[np.ndarray, " dim"] | Int[np.ndarray, " dim"]
Ticks = Sequence[Number] | Float[np.ndarray, " _"] | Int[np.ndarray, " _"]
"""Where cells meet along one axis, ascending, both ends included; as many as there may be."""

Diagonal = Literal["right", "left", "alternating"]

SIDES = (("left", "right"), ("bottom", "top"))
BOX_SIDES = (("left", "right"), ("front", "back"), ("bottom", "top"))


def geometric_ticks(
    start: Number,
    stop: Number,
    num_cells: int,
    *,
    first: Number | None = None,
    last: Number | None = None,
) -> Float[np.ndarray, " tick"]:
    """Ticks from `start` to `stop` whose cells grow or shrink by one factor from each to the next.

    The length of the first cell, or of the last, says how much; without either, cells grow as their
    distance from zero does, as suits a well of radius `start`: `np.geomspace`.
    """
    check_counts("num_cells", (num_cells,))
    check_extent(1, (start,), (stop,))
    if first is None and last is None:
        if start <= 0:
            raise MeshError(
                f"ticks from {start} on cannot grow with their distance from zero: give the length "
                "of the first cell, first=..., or of the last."
            )
        return np.geomspace(start, stop, num_cells + 1)
    if first is not None and last is not None:
        raise MeshError("first and last are both given: with the number of cells, one will do.")
    if first is None:
        return np.negative(geometric_ticks(-stop, -start, num_cells, first=last))[::-1]
    start, stop, at_end = float(start), float(stop), float(first)
    length = stop - start
    if num_cells == 1 or not 0 < at_end < length:
        raise MeshError(
            f"a cell at the end is to be {first} long, of {num_cells} cells that are {length:.6g} "
            "together: give two cells at least, and a positive length below that of all."
        )

    def excess(log_factor: float) -> float:
        return float(np.sum(np.exp(log_factor * np.arange(num_cells)))) * at_end / length - 1

    most = np.log(length / at_end) / (num_cells - 1)  # then the last cell is as long as all
    factor = np.exp(root_scalar(excess, bracket=(-50.0, most), xtol=1e-15).root)
    ends = start + at_end * np.cumsum(factor ** np.arange(num_cells))
    return np.array([start, *ends[:-1], stop])


def interval(
    num_cells: int | Ticks, start: Number | None = None, stop: Number | None = None
) -> Mesh:
    """Equal cells from `start` (0) to `stop` (1), or cells between ticks, as from `graded`.

    The end points are tagged "left" and "right".
    """
    lower, upper = (None if end is None else (end,) for end in (start, stop))
    nodes, index = grid_nodes("num_cells", 1, (num_cells,), lower, upper)
    return Mesh(nodes, path_simplices(index), sides(index, SIDES[:1]))


def rectangle(
    shape: tuple[int | Ticks, int | Ticks],
    lower: Corner | None = None,
    upper: Corner | None = None,
    *,
    diagonal: Diagonal = "right",
) -> Mesh:
    """`shape` counts the rectangles along x and y, each cut into two triangles.

    They are equal, from the corner `lower` (the origin) to `upper` (all ones); ticks in the place
    of both counts give them any widths and heights. The cut rises to the right (/), to the left
    (\\), or alternates like a chessboard, which keeps the mesh symmetric. Sides are tagged "left"
    and "right" (x), "bottom" and "top" (y).
    """
    nodes, index = grid_nodes("shape", 2, shape, lower, upper)
    cells = orient_cells(nodes, cut_squares(index, diagonal))
    return Mesh(nodes, cells, sides(index, SIDES))


def box(
    shape: tuple[int | Ticks, int | Ticks, int | Ticks],
    lower: Corner | None = None,
    upper: Corner | None = None,
) -> Mesh:
    """`shape` counts the bricks along x, y and z, each cut into six tetrahedra (Kuhn).

    They are equal, from the corner `lower` (the origin) to `upper` (all ones), or lie between ticks
    in the place of the counts. Sides are tagged "left" and "right" (x), "front" and "back" (y),
    "bottom" and "top" (z).
    """
    nodes, index = grid_nodes("shape", 3, shape, lower, upper)
    cells = orient_cells(nodes, path_simplices(index))
    return Mesh(nodes, cells, sides(index, BOX_SIDES))


def disc(num_rings: int, radius: Number = 1.0, centre: Corner = (0.0, 0.0)) -> Mesh:
    """Concentric rings of near-equilateral triangles, ring k with 6k nodes; the rim is "outer".

    All angles lie between 43 and 90 degrees, whatever the number of rings.
    """
    check_counts("num_rings", (num_rings,))
    check_finite_coordinates("radius and centre", [radius, *centre])
    if radius <= 0:
        raise MeshError(f"the disc has radius {radius}: give a positive radius.")
    rings = np.arange(1, num_rings + 1)
    ring = np.repeat(rings, 6 * rings)
    place = np.arange(len(ring)) - 3 * ring * (ring - 1)
    angle = 2 * np.pi * place / (6 * ring)
    offsets = ring[:, None] / num_rings * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    middle = np.asarray(centre, dtype=float)
    nodes = np.vstack([middle, middle + radius * offsets])
    cells = np.concatenate([ring_cells(int(k)) for k in rings])
    rim = ring_nodes(num_rings, np.arange(6 * num_rings + 1))
    return Mesh(nodes, cells, {"outer": np.stack([rim[:-1], rim[1:]], axis=1)})


def l_shape(num_cells: int) -> Mesh:
    """The square (-1, 1)^2 without its lower right quarter [0, 1) x (-1, 0].

    Each unit length has `num_cells` cells. The boundary is tagged "outer"; the reentrant corner
    is the origin.
    """
    check_counts("num_cells", (num_cells,))
    square = rectangle((2 * num_cells, 2 * num_cells), (-1.0, -1.0), (1.0, 1.0))
    x, y = square.nodes[square.cells].mean(axis=1).T
    nodes, cells, _ = drop_unused_nodes(square.nodes, square.cells[(x < 0) | (y > 0)])
    rim = boundary_facets(Mesh(nodes, cells)).nodes
    return Mesh(nodes, cells, {"outer": rim})


def grid_nodes(
    what: str, dim: int, shape: tuple[Any, ...], lower: Corner | None, upper: Corner | None
) -> tuple[Float[np.ndarray, "node dim"], Int[np.ndarray, "..."]]:
    """Nodes of a rectangular grid, and their indices as an array with axes (z, y, x)."""
    axes = ticks_along_axes(what, dim, shape, lower, upper)
    coordinates = np.meshgrid(*reversed(axes), indexing="ij")[::-1]
    nodes = np.stack([x.ravel() for x in coordinates], axis=1)
    return nodes, np.arange(len(nodes)).reshape([len(ticks) for ticks in reversed(axes)])


def ticks_along_axes(
    what: str, dim: int, shape: tuple[Any, ...], lower: Corner | None, upper: Corner | None
) -> list[Float[np.ndarray, " tick"]]:
    """Ticks that were given, or equal cells between two corners."""
    has_ticks = [isinstance(each, Sequence | np.ndarray) for each in as_axes(what, dim, shape)]
    if any(has_ticks):
        if not all(has_ticks):
            raise MeshError(f"{what} has counts and ticks: give ticks along every axis or none.")
        if lower is not None or upper is not None:
            raise MeshError(f"{what} has ticks, which say where the domain ends: give no ends.")
        return [check_ticks(ticks) for ticks in shape]
    check_counts(what, shape)
    lower = (0.0,) * dim if lower is None else lower
    upper = (1.0,) * dim if upper is None else upper
    check_extent(dim, lower, upper)
    return [np.linspace(a, b, n + 1) for n, a, b in zip(shape, lower, upper, strict=True)]


def as_axes(what: str, dim: int, shape: Any) -> list[Any]:
    if not isinstance(shape, Sequence | np.ndarray) or isinstance(shape, str):
        check_counts(what, shape)
    if len(shape) != dim:
        raise MeshError(f"{what} is {tuple(shape)}: give {dim} numbers, one for each dimension.")
    return list(shape)


def check_ticks(ticks: Any) -> Float[np.ndarray, " tick"]:
    values = as_array(ticks, "ticks")
    if values.ndim != 1 or values.dtype.kind not in "iuf" or not np.isfinite(values).all():
        raise MeshError(f"ticks are {ticks!r}: give a row of finite numbers.")
    if len(values) < 2:
        raise MeshError(f"ticks are {values.tolist()}: give both ends at least.")
    (back,) = np.nonzero(np.diff(values) <= 0)
    if back.size:
        raise MeshError(
            f"ticks do not ascend: {values[back[0]]} is followed by {values[back[0] + 1]}. Sort "
            "them and leave out what repeats."
        )
    return values.astype(float)


def path_simplices(index: Int[np.ndarray, "..."]) -> Int[np.ndarray, "cell corner"]:
    """Cut every brick of a grid along the paths from its lowest to its highest corner.

    One simplex a path (Kuhn's triangulation). Its trace on a side of the grid is the same cut in
    one dimension less, so neighbours conform and the sides can be tagged without a search.
    """

    def corner(order: tuple[int, ...], length: int) -> Int[np.ndarray, "..."]:
        """For every brick, the node that its path reaches after so many steps along the axes."""
        steps = [int(axis in order[:length]) for axis in range(index.ndim)]
        window = (slice(s, n - 1 + s) for s, n in zip(steps, index.shape, strict=True))
        return index[(*window, ...)]

    bricks = [
        np.stack([corner(order, length) for length in range(index.ndim + 1)], axis=-1)
        for order in permutations(range(index.ndim))
    ]
    return np.stack(bricks, axis=-2).reshape(-1, index.ndim + 1)


def cut_squares(
    index: Int[np.ndarray, "row column"], diagonal: Diagonal
) -> Int[np.ndarray, "cell 3"]:
    rising = path_simplices(index)
    if diagonal == "right":
        return rising
    falling = path_simplices(index[:, ::-1]).reshape(*(n - 1 for n in index.shape), 2, 3)
    falling = falling[:, ::-1].reshape(-1, 3)  # mirrored squares, back in order of memory
    if diagonal == "left":
        return falling
    if diagonal == "alternating":
        row, column = np.indices([n - 1 for n in index.shape])
        odd = np.repeat((row + column).ravel() % 2 == 1, 2)
        return np.where(odd[:, None], falling, rising)
    raise MeshError(f"diagonal {diagonal!r} is unknown: use 'right', 'left' or 'alternating'.")


def sides(
    index: Int[np.ndarray, "..."], names: Sequence[tuple[str, str]]
) -> dict[str, Int[np.ndarray, "facet dim"]]:
    """Facets on the first and last layer of the grid along x, y and z."""
    tags = {}
    for axis, (first, last) in zip(range(index.ndim - 1, -1, -1), names, strict=True):
        for name, layer in ((first, 0), (last, -1)):
            facets = path_simplices(np.asarray(index.take(layer, axis=axis)))
            tags[name] = np.sort(facets, axis=1)
    return tags


def ring_nodes(ring: int, place: Int[np.ndarray, " place"]) -> Int[np.ndarray, " place"]:
    """Index of each node around a ring of the disc; ring 0 is the centre."""
    return 1 + 3 * ring * (ring - 1) + place % (6 * ring) if ring else 0 * place


def ring_cells(ring: int) -> Int[np.ndarray, "cell 3"]:
    """Triangles between the rings `ring - 1` and `ring`, in six like sectors."""
    sector, step = np.divmod(np.arange(6 * ring), ring)
    outer = ring * sector + step
    inner = (ring - 1) * sector + step
    apex_inside = np.stack(
        [ring_nodes(ring - 1, inner), ring_nodes(ring, outer), ring_nodes(ring, outer + 1)], axis=1
    )
    apex_outside = np.stack(
        [ring_nodes(ring - 1, inner), ring_nodes(ring, outer + 1), ring_nodes(ring - 1, inner + 1)],
        axis=1,
    )
    # The last step of a sector has no triangle with its apex outside.
    keep = np.stack([np.ones_like(step), step < ring - 1], axis=1).astype(bool)
    return np.stack([apex_inside, apex_outside], axis=1)[keep]


def check_counts(what: str, counts: Any) -> None:
    if not isinstance(counts, Sequence | np.ndarray) or isinstance(counts, str):
        raise MeshError(f"{what} is {counts!r}: give a number of cells for each dimension.")
    if not all(isinstance(n, int | np.integer) and n >= 1 for n in counts):
        raise MeshError(f"{what} is {tuple(counts)}: give whole numbers of at least one.")


def check_finite_coordinates(what: str, values: Sequence[Number]) -> None:
    if not all(isinstance(x, Number) and np.isfinite(float(x)) for x in values):
        raise MeshError(f"{what} are {list(values)}: give finite coordinates.")


def check_extent(dim: int, lower: Corner, upper: Corner) -> None:
    if len(lower) != dim or len(upper) != dim:
        raise MeshError(
            f"corners {tuple(lower)} and {tuple(upper)} do not both have {dim} coordinates: "
            "give one a dimension."
        )
    check_finite_coordinates("the corners' coordinates", [*lower, *upper])
    if not all(a < b for a, b in zip(lower, upper, strict=True)):
        raise MeshError(
            f"the upper corner {tuple(upper)} is not above the lower corner {tuple(lower)} in "
            "every coordinate: exchange them or give the domain some extent."
        )
