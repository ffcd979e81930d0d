"""Maps of the plain: head, its sd, source, diffusivity and flow; and a GP beside GP-DT."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from riesz.engines.conditional.engine import conditional
from riesz.latent.kernels import Matern52
from riesz.mesh.mesh import Mesh
from riesz.prediction.predict import predict
from riesz_paper.baselines.gaussian_process import gp_on_coordinates
from riesz_paper.baselines.gp_physics.model import gp_dt
from riesz_paper.baselines.standard import standard_of
from riesz_paper.data.esrp import Aquifer, Wells, splits_of
from riesz_paper.experiments.aquifer.data import mesh_of, meshes_of, places_of
from riesz_paper.experiments.aquifer.map_figures import draw_comparison, draw_plain
from riesz_paper.experiments.aquifer.methods import STRUCTURES
from riesz_paper.experiments.aquifer.model import KM, head_problem
from riesz_paper.regression.covariates import Covariates

MAPPED = "gp-d"
"""The candidate with every field there is to map."""


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
    posterior = conditional(problem)
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
    methods = (gp_on_coordinates(Matern52(), trend="zero"), gp_dt(meshes_of(aquifer)))
    by_gp, by_gp_dt = (
        train(places_of(wells), wells.head, seed=0)(everywhere).mean(axis=0) for train in methods
    )
    return mesh, by_gp, by_gp_dt
