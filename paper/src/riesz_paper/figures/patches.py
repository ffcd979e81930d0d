"""Mini-patches on their mesh: the paper's Fig. 2 (b)."""

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes

from riesz.errors import RieszError
from riesz.mesh.mesh import Mesh
from riesz.penalty.patch import PatchTable
from riesz.plot.fields import draw_mesh, triangulation


def draw_mini_patch(
    axes: Axes, mesh: Mesh, table: PatchTable, patch: int, *, centred: bool = False
) -> None:
    r"""Draw the nodes that a patch tests, those its residual depends on beside, and its cells.

    The tested nodes are the paper's $\mathrm{nei}_\Gamma(i)$ where the table is that of a tapered
    norm; with `centred`, node $i$ itself, the first of them, is marked.
    """
    if not 0 <= patch < table.num_patches:
        raise RieszError(f"there is no patch {patch}: the table has {table.num_patches}.")
    tested = np.asarray(table.rows[patch])
    tested = tested[tested >= 0]
    around = np.setdiff1d(np.asarray(table.nodes[patch]), tested)
    cells = np.asarray(table.cells.entities[patch])
    active = np.zeros(mesh.num_cells)
    active[cells[cells < mesh.num_cells]] = 1.0
    axes.tripcolor(triangulation(mesh), np.ma.masked_equal(active, 0), cmap="Blues", vmin=0, vmax=4)
    draw_mesh(axes, mesh, color="0.7")
    mark(axes, mesh.nodes[around], "o", "tab:orange", "neighbours in the mesh")
    mark(axes, mesh.nodes[tested], "o", "tab:blue", "tested nodes")
    if centred:
        mark(axes, mesh.nodes[tested[:1]], "*", "black", "the patch's own node")
    axes.set_axis_off()


def mark(
    axes: Axes, points: Float[np.ndarray, "point 2"], marker: str, colour: str, label: str
) -> None:
    size = 9 if marker == "*" else 3
    axes.plot(*points.T, marker, color=colour, markersize=size, label=label)


def nearest_patch(mesh: Mesh, table: PatchTable, place: Float[np.ndarray, " 2"]) -> int:
    """The patch whose tested nodes lie around a place, by the mean of their coordinates."""
    rows: Int[np.ndarray, "patch row"] = np.asarray(table.rows)
    there = (rows >= 0)[:, :, None]
    centres = np.where(there, mesh.nodes[rows], 0.0).sum(axis=1) / there.sum(axis=1)
    return int(np.argmin(np.linalg.norm(centres - place, axis=1)))
