"""Maps of the plain: head, its sd, source, diffusivity and flow; and a GP beside GP-DT."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from riesz.density.engine import Engine
from riesz.density.marginal.marginal import Marginal
from riesz.mesh.mesh import Mesh
from riesz.method.laplace import Laplace
from riesz.plot.fields import draw_field, draw_vectors
from riesz.plot.figure import new_figure, save_figure
from riesz.prediction.predict import predict
from riesz.priors.kernels import Matern52
from riesz_paper.baselines.gaussian_process import gp_on_coordinates
from riesz_paper.baselines.standard import standard_of
from riesz_paper.data.esrp import Aquifer, Split, Wells, splits_of
from riesz_paper.experiments.aquifer.data import mesh_of, places_of
from riesz_paper.experiments.aquifer.methods import BY_NAME, STRUCTURES
from riesz_paper.experiments.aquifer.model import KM, head_problem
from riesz_paper.regression.covariates import Covariates

MAPPED = "gp-d"
"""The candidate with every field there is to map."""

ARROWS = 250


@dataclass(frozen=True, eq=False)
class PlainMap:
    """At the nodes of a mesh in km: feet, feet a square km relative to the median diffusivity, and
    factors of that; the flow in the middle of the cells."""

    mesh: Mesh
    wells: Wells
    head: Float[np.ndarray, " node"]
    sd: Float[np.ndarray, " node"]
    source: Float[np.ndarray, " node"]
    diffusivity: Float[np.ndarray, " node"]
    flow: Float[np.ndarray, "cell 2"]


def draw_maps(aquifer: Aquifer, out: Path) -> None:
    (split,) = splits_of(aquifer, "A")
    draw_plain(aquifer, plain_map(aquifer, split.test), out / "plain.png")
    (inside,) = splits_of(aquifer, "B1")
    draw_comparison(aquifer, *compared(aquifer, inside.training), inside, out / "gp-and-gp-dt.png")


def plain_map(aquifer: Aquifer, wells: Wells) -> PlainMap:
    """From all wells of one time."""
    mesh, standard = mesh_of(aquifer), standard_of(wells.head)
    values = np.asarray(standard.scaled(wells.head))
    problem = head_problem(mesh, wells.points / KM, values, STRUCTURES[MAPPED])
    posterior = Engine(Laplace(), Marginal()).run(problem)
    head, source, diffusivity, flow = (
        predict(posterior, name, quantiles=()) for name in ("u", "source", "diffusivity", "flux")
    )
    feet = standard.spread
    return PlainMap(
        mesh,
        wells,
        standard.centre + feet * head.mean,
        feet * head.sd,
        feet * source.mean,
        diffusivity.mean,
        feet * flow.mean,
    )


def compared(
    aquifer: Aquifer, wells: Wells
) -> tuple[Mesh, Float[np.ndarray, " node"], Float[np.ndarray, " node"]]:
    """Mean heads by a Gaussian process of places, and by GP-DT as in the paper."""
    mesh = mesh_of(aquifer)
    everywhere = Covariates(mesh.nodes * KM, {}, {})
    methods = (gp_on_coordinates(Matern52(), trend="zero"), BY_NAME["gp-dt-paper"].build(aquifer))
    by_gp, by_gp_dt = (
        train(places_of(wells), wells.head, seed=0)(everywhere).mean(axis=0) for train in methods
    )
    return mesh, by_gp, by_gp_dt


def draw_plain(aquifer: Aquifer, found: PlainMap, path: Path) -> None:
    """Head with flow, its sd, source and diffusivity."""
    figure, (head, sd, source, diffusivity) = new_figure(2, 2, width=7.0, height=5.6)
    draw_field(head, found.mesh, found.head, label="head, ft above NAVD 88", cmap="viridis")
    draw_flow(head, found)
    head.set_title("mean head, and where the water flows")
    draw_field(sd, found.mesh, found.sd, label="sd of the head, ft", cmap="magma", vmin=0.0)
    sd.set_title("what is not known")
    reach = float(np.quantile(np.abs(found.source), 0.99))
    label = "source over median diffusivity, ft/km²"
    draw_field(source, found.mesh, found.source, label=label, cmap="RdBu", vmin=-reach, vmax=reach)
    source.set_title("where water comes in (blue) and leaves (red)")
    label = "diffusivity over its median"
    draw_field(diffusivity, found.mesh, found.diffusivity, label=label, cmap="cividis")
    diffusivity.set_title("diffusivity")
    for axes in (head, sd, source, diffusivity):
        draw_landmarks(axes, aquifer, found.wells)
    save_figure(path, figure)


def draw_flow(axes: Axes, found: PlainMap) -> None:
    """Directions of the flow in some cells, of equal length: speeds differ a hundredfold."""
    middles = found.mesh.nodes[found.mesh.cells].mean(axis=1)
    # Cells are small where wells are many: places on a grid have arrows everywhere.
    low, high = middles.min(axis=0), middles.max(axis=0)
    step = np.sqrt(np.prod(high - low) / ARROWS)
    squares = np.floor((middles - low) / step).astype(int)
    _, chosen = np.unique(squares, axis=0, return_index=True)
    flow = found.flow[chosen]
    lengths = np.linalg.norm(flow, axis=1, keepdims=True)
    draw_vectors(axes, middles[chosen], flow / lengths, color="white", scale=45, width=0.003)


def draw_comparison(
    aquifer: Aquifer,
    mesh: Mesh,
    by_gp: Float[np.ndarray, " node"],
    by_gp_dt: Float[np.ndarray, " node"],
    split: Split,
    path: Path,
) -> None:
    """Heads predicted from the wells inside the fence, on one scale."""
    figure, panels = new_figure(2, 1, width=7.0, height=5.6)
    measured = np.concatenate([split.training.head, split.test.head])
    scale = {"vmin": measured.min(), "vmax": measured.max()}
    titles = ("Gaussian process, zero mean", "GP-DT, as in the paper")
    for axes, values, title in zip(panels, (by_gp, by_gp_dt), titles, strict=True):
        label = "head, ft above NAVD 88; dots as measured at test wells"
        draw_field(axes, mesh, values, label=label, cmap="viridis", **scale)
        draw_landmarks(axes, aquifer, split.training)
        places = split.test.points / KM
        axes.scatter(*places.T, c=split.test.head, s=40, edgecolors="red", cmap="viridis", **scale)
        axes.set_title(title)
    save_figure(path, figure)


def draw_landmarks(axes: Axes, aquifer: Aquifer, wells: Wells) -> None:
    """Wells, streams and the laboratory's fence."""
    for stream in aquifer.streams:
        axes.plot(*(stream / KM).T, color="tab:cyan", linewidth=0.5)
    axes.plot(*(aquifer.fence / KM).T, color="black", linewidth=1.0, linestyle="--")
    axes.scatter(*(wells.points / KM).T, s=3, color="black")
    axes.set(xlabel="x, km (Albers, NAD 83)", ylabel="y, km")
