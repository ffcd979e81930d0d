"""Maps of a metal where nothing was measured: the secondaries are drawn there too."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Float

from riesz.datasets.jura import Samples, jura_grid
from riesz_paper.experiments.jura.cases import modes_around
from riesz_paper.experiments.jura.settings import Choice
from riesz_paper.regression.chain import Chain, chain, summary_of
from riesz_paper.regression.covariates import Covariates

THRESHOLDS = {"Cd": 0.8, "Cu": 50.0, "Pb": 50.0, "Co": 12.0}
"""mg/kg; of cadmium, copper and lead the Swiss guide values for soil, of cobalt a high value."""
CELL = 0.1  # km: every second place of the grid along each axis
NUM_DRAWS = 256


@dataclass(frozen=True, eq=False)
class MetalMap:
    """What is known of a metal on a grid of places, from all samples."""

    metal: str
    threshold: float
    points: Float[np.ndarray, "place 2"]
    mean: Float[np.ndarray, " place"]  # mg/kg, as it would be measured
    sd: Float[np.ndarray, " place"]
    exceeds: Float[np.ndarray, " place"]  # the probability of more than the threshold
    field: Float[np.ndarray, " node"]  # of the mesh: factors of concentration, as logarithms
    model: Chain


@lru_cache(maxsize=4)
def metal_map(samples: Samples, choice: Choice, seed: int = 0) -> MetalMap:
    """Of the samples' region; categories are known everywhere there."""
    case = choice.case
    modes = modes_around(samples)
    covariates = case.covariates(samples)
    found = chain(
        covariates,
        case.target(samples),
        case.metal,
        structure=choice.structure,
        modes=modes,
    )
    places = map_places(case.categories)
    draws = found.draws(places, num_draws=NUM_DRAWS, seed=seed)[case.metal]
    threshold = THRESHOLDS[case.metal]
    field, _ = found.models[case.metal].field(modes.mesh.nodes)
    return MetalMap(
        case.metal,
        threshold,
        places.points,
        **summary_of(draws, threshold),
        field=field,
        model=found,
    )


def map_places(with_categories: bool) -> Covariates:
    """Places of the grid that are a cell apart."""
    grid = jura_grid()
    first = grid.points.min(axis=0)
    steps = np.rint((grid.points - first) / CELL * 2).astype(int)
    kept = np.all(steps % 2 == 0, axis=1)
    categories = grid.categories if with_categories else {}
    return Covariates(grid.points, {}, categories).subset(kept)
