"""The methods of the experiment `aquifer`, all behind one interface."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

from riesz.priors.kernels import Matern52
from riesz_paper.baselines.deep_gp import deep_gp
from riesz_paper.baselines.gaussian_process import gp_on_coordinates
from riesz_paper.baselines.gp_physics.model import gp_d, gp_dt
from riesz_paper.baselines.gp_physics.spatial_network import spatial_network
from riesz_paper.baselines.linear_trend import linear_trend
from riesz_paper.baselines.nearest_well import nearest_well
from riesz_paper.data.esrp import Aquifer
from riesz_paper.experiments.aquifer.data import mesh_of, meshes_of
from riesz_paper.experiments.aquifer.model import Structure, conditional_head
from riesz_paper.regression.method import Method

Build = Callable[[Aquifer], Method]

GP_ZERO, GP_LINEAR, NETWORK = "gp-zero", "gp-linear", "network"
"""Those that others are held against."""

STRUCTURES = {
    "conditional-d": Structure(),
    "conditional-dt": Structure(transport=True),
    "gp-d": Structure(diffusivity_points=12),
    "gp-dt": Structure(transport=True, diffusivity_points=12),
}
"""Candidates for the model to be selected. The last two have the paper's unknowns, but its
surrogate's place is taken by the exact response, affine in the coefficients of source and
boundary."""


@dataclass(frozen=True)
class Entry:
    """A method, what it is in the table, and how it is made for the plain."""

    name: str
    role: str
    build: Build
    restarts: int = 5
    block_restarts: int = 1  # on split D, where a restart is eight fits


def always(method: Method) -> Build:
    def build(aquifer: Aquifer) -> Method:
        del aquifer
        return method

    return build


@lru_cache(maxsize=2)
def integrated(structure: Structure, aquifer: Aquifer) -> Method:
    """One for all restarts, which share what it keeps."""
    return conditional_head(mesh_of(aquifer), structure)


BY_NAME = {
    entry.name: entry
    for entry in (
        *(Entry(name, "ours", partial(integrated, each)) for name, each in STRUCTURES.items()),
        Entry("gp-d-paper", "paper-method", lambda aquifer: gp_d(meshes_of(aquifer))),
        Entry("gp-dt-paper", "paper-method", lambda aquifer: gp_dt(meshes_of(aquifer))),
        Entry(NETWORK, "baseline", always(spatial_network())),
        Entry("deep-gp", "baseline", always(deep_gp())),
        Entry(GP_ZERO, "baseline", always(gp_on_coordinates(Matern52(), trend="zero"))),
        Entry(
            "gp-zero-iso",
            "baseline",
            always(gp_on_coordinates(Matern52(), trend="zero", one_length=True)),
        ),
        Entry(GP_LINEAR, "baseline", always(gp_on_coordinates(Matern52(), trend="linear"))),
        Entry(
            "gp-linear-iso",
            "baseline",
            always(gp_on_coordinates(Matern52(), trend="linear", one_length=True)),
        ),
        Entry("linear-trend", "baseline", always(linear_trend()), restarts=1),
        Entry("nearest-well", "baseline", always(nearest_well()), restarts=1),
    )
}
