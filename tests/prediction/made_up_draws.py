"""Draws that nobody fitted: smooth random functions on a square, as posteriors are."""

import numpy as np
from scipy.ndimage import gaussian_filter

from riesz.mesh.shapes import rectangle
from riesz.observe.distributions import NormalDistribution
from riesz.posterior.checks import APPROXIMATE, FitFacts
from riesz.prediction.draws import (
    NodalDraws,
    NumberDraws,
    Observed,
    PosteriorDraws,
    Shifts,
    exactly,
    quantise,
)

FACTS = FitFacts("laplace", APPROXIMATE, "an equation", {"cost": np.ones((1, 9))}, None, None)


def smooth(rng, num_draws, side):
    """A field of random bumps for each draw, on the nodes of a square."""
    rough = rng.normal(size=(num_draws, side, side))
    return gaussian_filter(rough, (0, 4, 4), mode="reflect").reshape(num_draws, -1) * 10


def made_up_draws(*, num_draws=50, side=6, num_sensors=3, scatter=None, noise=0.5, shift=100.0):
    """State and two fields at the nodes of a unit square with `side` nodes along an edge."""
    rng = np.random.default_rng(0)
    mesh = rectangle((side - 1, side - 1))
    state = shift + smooth(rng, num_draws, side)
    sensors = state[:, :num_sensors]
    return PosteriorDraws(
        mesh=mesh,
        seed=0,
        num_lost=0,
        is_all=False,
        state=NodalDraws(quantise(state), False),
        unknowns={
            "a": NodalDraws(quantise(smooth(rng, num_draws, side)), True),
            "f": NodalDraws(quantise(smooth(rng, num_draws, side)), False),
            "noise": NumberDraws(np.full((num_draws, 1), noise), ()),
        },
        observed=Observed(
            mesh.nodes[:num_sensors],
            sensors.mean(axis=0),
            np.zeros(num_sensors, dtype=bool),
            quantise(sensors),
            exactly(np.full(sensors.shape, noise)),
            quantise(sensors + noise * rng.normal(size=sensors.shape)),
        ),
        shifts=Shifts(
            effects=None,
            local=None,
            local_weights=None,
            parameters={"sd": np.full((num_draws, 1), noise)},
            differs=False,
            scatter=NormalDistribution() if scatter is None else scatter,
        ),
        local_name=None,
        mapped=("a",),
        flux=np.ones((mesh.num_cells, 2)),
        gains={"source": np.ones(num_draws)},
        outflows={},
        learned=(),
    )
