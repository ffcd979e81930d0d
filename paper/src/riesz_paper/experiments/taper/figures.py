"""Figures of the taper experiment; the default estimator is in every panel."""

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes

from riesz.errors import RieszError
from riesz.io.store.files import replacing
from riesz.io.store.results import Row
from riesz.mesh.mesh import Mesh
from riesz.penalty.patch import PatchTable
from riesz.plot.fields import draw_mesh, triangulation
from riesz.plot.figure import new_figure, save_figure

TAPERS = ("hard-taper-printed", "hard-taper", "wendland-taper")
COLOURS = {
    "hard-taper-printed": "tab:purple",
    "hard-taper": "tab:red",
    "wendland-taper": "tab:blue",
    "block": "tab:brown",
    "schwarz": "black",
}
STYLES = {"block": ":", "schwarz": "--"}

Responses = Mapping[tuple[str, float | None], Float[np.ndarray, " mode"]]


def draw_errors(rows: Sequence[Row], out: Path) -> None:
    """The paper's figure, absolute errors against the radius, and the same relative to truth."""
    measures = {
        "error.png": ("absolute error", lambda r: abs(r["estimate"] - r["exact"])),
        "relative_error.png": ("relative error", lambda r: r["relative_error"]),
    }
    for name, (label, measure) in measures.items():
        draw_error_grid(rows, out / name, label, measure)


def draw_error_grid(
    rows: Sequence[Row], path: Path, label: str, measure: Callable[[Row], float]
) -> None:
    """A row of panels for each taper, a column for each reading and size of the perturbation."""
    columns = sorted({(r["reading"], r["eps"]) for r in rows}, key=lambda c: (c[0], -c[1]))
    counts = sorted({r["P"] for r in rows})
    figure, panels = new_figure(len(columns), len(TAPERS), width=3.2, height=2.6)
    for axes, (taper, (reading, eps)) in zip(panels, product(TAPERS, columns), strict=True):
        here = [r for r in rows if (r["reading"], r["eps"]) == (reading, eps)]
        for place, count in enumerate(counts):
            drawn = [r for r in here if r["P"] == count]
            colour = f"C{place}"
            draw_curve(axes, drawn, taper, measure, color=colour, label=f"P = {count}")
            for other, style in STYLES.items():
                draw_level(axes, drawn, other, measure, color=colour, linestyle=style)
        if label.startswith("absolute"):
            exact = np.median([r["exact"] for r in here])
            axes.axhline(exact, color="0.7", linewidth=3, zorder=0, label="exact value")
        axes.set(xscale="log", yscale="log", title=f"{taper}\n{reading}, ε = {eps:g}")
        axes.title.set_fontsize(8)
    panels[0].legend(fontsize=6)
    figure.supxlabel("taper radius (dashed: schwarz, dotted: block, which have none)", fontsize=9)
    figure.supylabel(f"{label}, median", fontsize=9)
    save_figure(path, figure)


def draw_coverage(rows: Sequence[Row], path: Path) -> None:
    """The part of the mesh that a patch depends on; all tapers of a radius share their patches."""
    figure, (axes,) = new_figure()
    draw_curve(axes, rows, "hard-taper", lambda r: r["coverage"], color="tab:red", label="tapers")
    for name, style in STYLES.items():
        colour = COLOURS[name]
        draw_level(
            axes, rows, name, lambda r: r["coverage"], color=colour, linestyle=style, label=name
        )
    axes.set(xscale="log", yscale="log", xlabel="taper radius")
    axes.set_ylabel("part of the mesh in a mini-patch")
    axes.legend(fontsize=7)
    save_figure(path, figure)


def draw_bias_and_sd(rows: Sequence[Row], path: Path) -> None:
    """Bias and spread relative to the exact value, apart."""
    readings = sorted({r["reading"] for r in rows})
    figure, panels = new_figure(2, len(readings), width=4.2, height=3.0)
    for pair, reading in zip(zip(panels[::2], panels[1::2], strict=True), readings, strict=True):
        single = [r for r in rows if (r["reading"], r["P"]) == (reading, 1)]
        draw_all(pair[0], single, lambda r: r["bias"] / r["exact"])
        draw_all(pair[1], single, lambda r: r["sd"] / r["exact"])
        pair[0].axhline(0.0, color="0.8", zorder=0)
        pair[0].set(xscale="log", ylabel="bias / exact", title=reading)
        pair[1].set(xscale="log", yscale="log", ylabel="sd at P = 1 / exact", title=reading)
    panels[0].legend(fontsize=7)
    figure.supxlabel("taper radius", fontsize=9)
    save_figure(path, figure)


def draw_all(axes: Axes, rows: Sequence[Row], measure: Callable[[Row], float]) -> None:
    """A curve for each taper and a level for each estimator without radius."""
    for name, colour in COLOURS.items():
        if name in STYLES:
            draw_level(axes, rows, name, measure, color=colour, linestyle=STYLES[name], label=name)
        else:
            draw_curve(axes, rows, name, measure, color=colour, label=name)


def draw_curve(
    axes: Axes, rows: Sequence[Row], estimator: str, measure: Callable[[Row], float], **style
) -> None:
    """Medians against the radius."""
    found = [(r["radius"], measure(r)) for r in rows if r["estimator"] == estimator]
    radii = sorted({radius for radius, _ in found})
    medians = [np.median([value for at, value in found if at == radius]) for radius in radii]
    axes.plot(radii, medians, marker=".", **style)


def draw_level(
    axes: Axes, rows: Sequence[Row], estimator: str, measure: Callable[[Row], float], **style
) -> None:
    """The median of an estimator that has no radius."""
    axes.axhline(
        float(np.median([measure(r) for r in rows if r["estimator"] == estimator])), **style
    )


def write_responses(responses: Responses, path: Path) -> None:
    """Numbers of the frequency response as comma-separated values."""
    lines = ["estimator,radius,frequency,ratio"]
    for (name, radius), ratios in responses.items():
        shown = "" if radius is None else f"{radius:g}"
        lines += [f"{name},{shown},{k},{ratio:.6g}" for k, ratio in enumerate(ratios, start=1)]
    with replacing(path) as file:
        file.write(("\n".join(lines) + "\n").encode())


def draw_responses(responses: Responses, path: Path) -> None:
    """Forms over the exact norm against the frequency: one would be perfect."""
    figure, panels = new_figure(2, width=4.6, height=3.4)
    for axes, taper in zip(panels, ("hard-taper", "wendland-taper"), strict=True):
        curves = {k: v for k, v in responses.items() if k[0] == taper}
        for place, ((_, radius), ratios) in enumerate(curves.items()):
            frequency = np.arange(1, len(ratios) + 1)
            axes.plot(frequency, ratios, color=f"C{place}", label=f"radius {radius:g}")
        for name, style in STYLES.items():
            ratios = responses[name, None]
            frequency = np.arange(1, len(ratios) + 1)
            axes.plot(frequency, ratios, color=COLOURS[name], linestyle=style, label=name)
        axes.axhline(1.0, color="0.8", zorder=0)
        axes.set(xscale="log", xlabel="half-waves along a side", title=taper)
    panels[0].set_ylabel("form / exact norm")
    panels[0].legend(fontsize=7)
    save_figure(path, figure)


def draw_patches(mesh: Mesh, tables: Mapping[str, PatchTable], path: Path) -> None:
    """Mini-patches, each of which the default estimator replaces by one of its own."""
    figure, panels = new_figure(len(tables))
    for axes, (title, table) in zip(panels, tables.items(), strict=True):
        patch = nearest_patch(mesh, table, np.array([0.4, 0.4]))
        draw_mini_patch(axes, mesh, table, patch, centred="taper" in title)
        axes.set_title(title)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=8)
    save_figure(path, figure)


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
