"""Maps of meshes, fields and vectors in the plane, and of slices through space."""

from typing import Any

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.tri import Triangulation

from riesz.errors import RieszError
from riesz.mesh.facets import boundary_facets
from riesz.mesh.grids import Grid
from riesz.mesh.mesh import Mesh
from riesz.mesh.slices import mesh_slice

Values = Float[np.ndarray, " node_or_cell"]
Points = Float[np.ndarray, "point 2"]


def triangulation(mesh: Mesh) -> Triangulation:
    if mesh.dim != 2:
        hint = " Take draw_slice(axes, mesh, values, z=...)." if mesh.dim == 3 else ""
        raise RieszError(f"maps are drawn of plane meshes, not in {mesh.dim} dimensions.{hint}")
    return Triangulation(mesh.nodes[:, 0], mesh.nodes[:, 1], mesh.cells)


def draw_field(axes: Axes, mesh: Mesh, values: Values, *, label: str = "", **settings: Any) -> None:
    """Colour a map by values at the nodes (shaded) or of the cells (flat), with a colour bar."""
    check_fits(mesh, values)
    shading = "gouraud" if len(values) == mesh.num_nodes else "flat"
    picture = axes.tripcolor(triangulation(mesh), values, shading=shading, **settings)
    axes.figure.colorbar(picture, ax=axes, label=label, location="bottom", shrink=0.8)
    draw_outline(axes, mesh)


def draw_slice(
    axes: Axes,
    mesh: Mesh,
    values: Values,
    *,
    x: float | None = None,
    y: float | None = None,
    z: float | None = None,
    label: str = "",
    **settings: Any,
) -> None:
    """Colour the slice of a mesh in space at one of x = c, y = c and z = c, as `draw_field` does.

    For a layer that is thin, exaggerate heights by `axes.set_aspect("auto")` afterwards.
    """
    check_fits(mesh, values)
    cut = mesh_slice(mesh, x=x, y=y, z=z)
    draw_field(axes, cut.mesh, cut.values(values), label=label, **settings)
    axes.set(xlabel=cut.axes[0], ylabel=cut.axes[1])


def check_fits(mesh: Mesh, values: Values) -> None:
    if len(values) not in (mesh.num_nodes, mesh.num_cells):
        raise RieszError(
            f"a field of {len(values)} values fits neither the {mesh.num_nodes} nodes nor the "
            f"{mesh.num_cells} cells of the mesh."
        )


def draw_mesh(axes: Axes, mesh: Mesh, **settings: Any) -> None:
    """Draw the edges of all cells."""
    axes.triplot(triangulation(mesh), **{"linewidth": 0.4, "color": "0.3"} | settings)
    draw_outline(axes, mesh)


def draw_outline(axes: Axes, mesh: Mesh) -> None:
    x, y = np.moveaxis(mesh.nodes[boundary_facets(mesh).nodes], 2, 0)
    axes.plot(x.T, y.T, color="black", linewidth=0.8)
    axes.set_aspect("equal")


def draw_vectors(axes: Axes, points: Points, vectors: Points, **settings: Any) -> None:
    """Draw arrows at points."""
    axes.quiver(*points.T, *vectors.T, **{"width": 0.004, "angles": "xy"} | settings)
    axes.set_aspect("equal")


def draw_places(
    axes: Axes,
    mesh: Mesh,
    at: Grid | Points,
    values: Float[np.ndarray, " point"],
    chosen: Int[np.ndarray, " chosen"],
    *,
    label: str = "",
) -> None:
    """Colour points, or the cells of a grid, by values, and number those that were chosen."""
    if isinstance(at, Grid):
        points = at.points
        picture = axes.pcolormesh(*at.axes, at.fill(values), shading="nearest")
    else:
        points = at
        picture = axes.scatter(*points.T, c=values, s=25)
    axes.figure.colorbar(picture, ax=axes, label=label, location="bottom", shrink=0.8)
    draw_outline(axes, mesh)
    axes.plot(*points[chosen].T, "o", color="white", markeredgecolor="black", markersize=5)
    for rank, place in enumerate(points[chosen].tolist(), start=1):
        where = {"xytext": (5, 5), "textcoords": "offset points", "fontsize": 9}
        axes.annotate(str(rank), place, **where)
