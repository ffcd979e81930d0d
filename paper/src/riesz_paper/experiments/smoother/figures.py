"""Pictures of the smoother: Fig. 1 (a-e) of the paper, and the mesh behind it (supplement A)."""

from pathlib import Path

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int
from matplotlib.axes import Axes

from riesz.fem.assembly import matrix
from riesz.fem.solve import solve
from riesz.fem.terms.coefficient import nodal
from riesz.fem.terms.weakform import diffusion
from riesz.mesh.facets import boundary_node_mask
from riesz.mesh.mesh import Mesh
from riesz.plot.fields import draw_field, draw_mesh, draw_outline, draw_vectors
from riesz.plot.figure import new_figure, save_figure
from riesz_paper.experiments.smoother.direction import (
    MIDDLE,
    Case,
    WindPosterior,
    directions,
    wind_draws,
    wind_posterior,
)
from riesz_paper.experiments.smoother.forward import (
    PIVOT,
    VEER,
    forward_problem,
    length_of,
    noisy_source,
    outline_mesh,
    unit_nodes,
    wind,
)

ARROWS = 14  # along the longest side
FANS = 5  # of arrows, along the longest side
DRAWS_IN_A_FAN, DRAWS_IN_HISTOGRAM = 40, 4000


def draw_fig_1(case: Case, out: Path) -> None:
    """`smoother.png`: the forward map above, what sensors tell of the wind below."""
    mesh, forcing = case.mesh, noisy_source(case.mesh, case.seed)
    output = np.asarray(solve(forward_problem(mesh), {"f": nodal(forcing)}))
    found = wind_posterior(case)
    figure, axes = new_figure(3, 2, height=3.0)
    draw_field(axes[0], mesh, forcing, label="source")
    axes[0].set_title("(a) noisy source")
    arrows = spread_nodes(mesh, ARROWS)
    draw_vectors(axes[1], mesh.nodes[arrows], wind(mesh)[arrows])
    draw_outline(axes[1], mesh)
    axes[1].set_title("(b) transport vector field")
    draw_field(axes[2], mesh, output, label="output")
    axes[2].set_title("(c) smoothed output")
    draw_sensors(axes[3], mesh, found)
    axes[3].set_title("(d) sensors")
    draw_fans(axes[4], mesh, found)
    axes[4].set_title("(e) posterior of the direction")
    draw_direction(axes[5], found)
    save_figure(out / "smoother.png", figure)


def spread_nodes(mesh: Mesh, number: int) -> Int[np.ndarray, " chosen"]:
    """The most central node in each square of a coarse grid, so that arrows do not crowd."""
    scaled = unit_nodes(mesh) * number
    squares = np.floor(scaled).astype(int)
    central = np.argsort(np.linalg.norm(scaled - squares - 0.5, axis=1), kind="stable")
    return central[np.unique(squares[central], axis=0, return_index=True)[1]]


def draw_sensors(axes: Axes, mesh: Mesh, found: WindPosterior) -> None:
    picture = axes.scatter(*found.sensors.T, c=found.measured, s=22, edgecolors="black")
    axes.figure.colorbar(picture, ax=axes, label="measured", location="bottom", shrink=0.8)
    draw_outline(axes, mesh)


def draw_fans(axes: Axes, mesh: Mesh, found: WindPosterior) -> None:
    """Directions drawn from the posterior at some places, and the true ones in red."""
    places = spread_nodes(mesh, FANS)
    velocities = wind_draws(found, DRAWS_IN_A_FAN)
    length = 0.12 * length_of(mesh)
    for node, (x, _) in zip(mesh.nodes[places], unit_nodes(mesh)[places], strict=True):
        draw_arrows(axes, node, directions(velocities, x), length, color="0.6")
        truth = np.degrees(VEER * (x - PIVOT))
        draw_arrows(axes, node, np.array([truth]), length, color="tab:red")
    draw_outline(axes, mesh)


def draw_arrows(
    axes: Axes,
    start: Float[np.ndarray, " dim"],
    degrees: Float[np.ndarray, " arrow"],
    length: float,
    *,
    color: str,
) -> None:
    angle = np.radians(degrees)
    ends = length * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    starts = np.broadcast_to(start, ends.shape)
    settings = {"scale": 1.0, "scale_units": "xy", "width": 0.005, "headwidth": 4}
    draw_vectors(axes, starts, ends, color=color, **settings)


def draw_direction(axes: Axes, found: WindPosterior) -> None:
    angles = directions(wind_draws(found, DRAWS_IN_HISTOGRAM), MIDDLE)
    axes.hist(angles, bins=40, density=True, color="0.7")
    axes.axvline(np.degrees(VEER * (MIDDLE - PIVOT)), color="tab:red", label="truth")
    axes.set_yticks([])
    axes.set_title("(e) in the middle of the domain")
    axes.set_xlabel("degrees from east")
    axes.legend(loc="upper right")


def draw_substrate(out: Path) -> None:
    """`fem.png`: a coarse mesh, one of its basis functions, and its stiffness matrix's pattern."""
    mesh = outline_mesh(0.08)
    stiffness = matrix(mesh, diffusion(1.0))
    centre = mesh.nodes.mean(axis=0)
    node = int(np.argmin(np.linalg.norm(mesh.nodes - centre, axis=1)))
    figure, (left, middle, right) = new_figure(3, height=3.0)
    draw_mesh(left, mesh)
    left.set_title("mesh")
    draw_basis_function(middle, mesh, node)
    middle.set_title("a nodal basis function")
    draw_sparsity(right, mesh, stiffness.to_scipy())
    right.set_title("sparsity of the stiffness matrix")
    save_figure(out / "fem.png", figure)


def draw_basis_function(axes: Axes, mesh: Mesh, node: int) -> None:
    """Draw the P1 shape function of one node over the mesh: one there, zero at all others."""
    draw_field(axes, mesh, np.eye(1, mesh.num_nodes, node)[0], cmap="magma_r", label="basis")
    draw_mesh(axes, mesh)


def draw_sparsity(axes: Axes, mesh: Mesh, matrix: sp.csr_array) -> None:
    """Draw the pattern of a matrix over nodes, boundary nodes first, as in the paper."""
    order = np.argsort(~boundary_node_mask(mesh), kind="stable")
    place = np.argsort(order)
    rows, columns = matrix.nonzero()
    axes.plot(place[columns], place[rows], "k.", markersize=0.8)
    axes.set(aspect="equal", xlim=(0, mesh.num_nodes), ylim=(mesh.num_nodes, 0))
    axes.set_xlabel(f"{matrix.nnz} of {mesh.num_nodes**2} entries")
