"""Where arrows of flow stand, on maps of any kind."""

import numpy as np

from riesz.prediction.grid import Grid, grid
from riesz.prediction.quantity import has_flux
from riesz.problem.problem import InverseProblem


def arrow_grid(problem: InverseProblem, along: int) -> Grid | None:
    """So many arrows along the longer side of the domain; None where nothing flows."""
    if not has_flux(problem):
        return None
    mesh = problem.forward.space.mesh
    return grid(mesh, cell=float(np.ptp(mesh.nodes, axis=0).max()) / along)
