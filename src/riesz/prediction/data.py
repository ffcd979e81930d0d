"""What new measurements would read: `rz.predict_data`."""

from collections.abc import Sequence

import jax
import numpy as np
from numpy.typing import ArrayLike

from riesz.mesh.grid import Grid
from riesz.mesh.locate import locate
from riesz.observe.effects import design_elsewhere
from riesz.posterior.posterior import Posterior, check_levels
from riesz.prediction.drawing import posterior_draws
from riesz.prediction.elsewhere import Elsewhere, elsewhere
from riesz.prediction.predict import new_measurements, statistics
from riesz.prediction.statistics import NUM_DRAWS, Prediction, check_thresholds, over_places


def predict_data(
    posterior: Posterior,
    at: ArrayLike | Grid | None = None,
    *,
    num_draws: int = NUM_DRAWS,
    seed: int = 0,
    quantiles: Sequence[float] = (0.025, 0.5, 0.975),
    exceed: Sequence[float] = (),
    tolerance: float | None = None,
    design: ArrayLike | None = None,
) -> Prediction:
    """Posterior-predictive statistics of new measurements, noise included; at the sensors if not
    told where.

    `design` holds covariates there, as `WithEffects` has them at the sensors. Where sensors have
    noise of their own, that of a new measurement elsewhere is their median.
    """
    problem = posterior.problem
    if at is None or problem.likelihood.noise.scatter is None:
        sampler = new_measurements(problem, at, design, tolerance)
        return statistics(posterior, sampler, at, num_draws, seed, quantiles, exceed)
    check_levels(quantiles)
    check_thresholds(exceed)
    words = {"num_draws": num_draws, "seed": seed, "together": True}
    there = new_places(posterior, at, design, tolerance, **words)
    count, num_draws = len(there.points), there.draws.num_draws
    told = over_places(there.measured, count, num_draws, quantiles, exceed)
    return jax.tree.map(at.filled, told) if isinstance(at, Grid) else told


def new_places(
    posterior: Posterior,
    at: ArrayLike | Grid,
    design: ArrayLike | None,
    tolerance: float | None,
    *,
    num_draws: int,
    seed: int,
    together: bool,
) -> Elsewhere:
    problem = posterior.problem
    points = at.points if isinstance(at, Grid) else np.atleast_2d(np.asarray(at, float))
    found = design_elsewhere(problem.likelihood, design, len(points))
    where = locate(problem.forward.space.mesh, points, tolerance=tolerance, outside="raise")
    draws = posterior_draws(posterior, num_draws=num_draws, seed=seed, for_summary=True)
    return elsewhere(draws, points, where, found, seed=seed, together=together)
