r"""Simulation-based calibration: unknowns from the prior, data from them, and back.

If posteriors are right, the truth behind each data set is one more draw from its posterior: its
rank among them is uniform (Talts, Betancourt, Simpson, Vehtari & Gelman 2018). The data come from
exact solves; one surrogate over the prior serves all fits, which are the Gaussians that `emulate`
would end with.
"""

from time import perf_counter

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.scipy.stats import norm
from jaxtyping import Array, Float, PRNGKeyArray

from riesz.diagnose.calibration import Calibration
from riesz.engines.amortise.gaussians import ManyFits, fits_to_many
from riesz.engines.amortise.readings import Readings
from riesz.engines.amortise.simulate import (
    DataSets,
    PriorSurrogate,
    Simulator,
    check_simulable,
    surrogate_over_prior,
)
from riesz.engines.emulate.engine import Emulate, trajectory_over_prior
from riesz.engines.emulate.start import at_sensors, check_nested, penalty_in_time
from riesz.errors import RieszError
from riesz.penalty.rows import full_precision
from riesz.posterior.family import Draws
from riesz.prediction.predict import measured
from riesz.problem.problem import InverseProblem, in_precision
from riesz.surrogate.surrogate import Surrogate
from riesz.surrogate.trajectory import Trajectory

NUM_DATA_SETS = 500
FEWEST = 20
STARTED_TWICE = 100
"""Data sets that are fitted from a second start."""

SETTLED = 0.05


def sbc(
    problem: InverseProblem,
    *,
    num_data_sets: int = NUM_DATA_SETS,
    seed: int = 0,
    sizes: PriorSurrogate | None = None,
    surrogate: Surrogate | Trajectory | None = None,
) -> Calibration:
    """Are posteriors of this problem right, for data as its model makes them?

    Its observations are read for their places and noise alone. Needs a problem on a hierarchy of
    meshes, in time one that `emulate` takes; for nonlinear equations give `sizes` with several
    Gauss-Newton steps, `num_solves`.
    """
    if num_data_sets < FEWEST:
        raise RieszError(
            f"num_data_sets is {num_data_sets}: fewer than {FEWEST} tell nothing of calibration."
        )
    check_simulable(problem)
    start = perf_counter()
    surrogate_key, truth_key, noise_key, again_key = jr.split(jr.key(seed), 4)
    with full_precision(), jax.enable_x64(True):
        problem = in_precision(problem, jnp.float64)
        if surrogate is None:
            network_key, key = jr.split(surrogate_key)
            sizes = PriorSurrogate() if sizes is None else sizes
            if problem.time is None:
                check_nested(problem, "sbc", sizes.gram)
                surrogate = surrogate_over_prior(problem, sizes, network_key, key)
            else:
                engine = Emulate(gram=sizes.gram)
                engine.check(problem)
                penalty = penalty_in_time(problem, engine)
                surrogate, _ = trajectory_over_prior(problem, engine, penalty, key)
        size = problem.num_coordinates
        truths = jr.normal(truth_key, (num_data_sets, size))
        exact = exact_at_sensors(problem, truths)
        observed = with_noise(problem, noise_key, truths, exact)
        simulator = Simulator(problem, surrogate)
        fits = fits_to_many(simulator, Readings(observed), jnp.zeros_like(truths), seed)
        few = min(STARTED_TWICE, num_data_sets)
        starts = jr.normal(again_key, (few, size))
        again = fits_to_many(simulator, Readings(observed[:few]), starts, seed)
        variances = jax.vmap(lambda q: q.variances())(fits.families)
        errors = sensor_errors(problem, surrogate, truths, exact)
    check_found(fits)
    means = np.asarray(fits.families.mean)[:few], np.asarray(again.families.mean)
    apart = np.abs(means[0] - means[1])
    return Calibration(
        names=problem.latents.coordinate_names(),
        ranks=np.asarray(norm.cdf((truths - fits.families.mean) / jnp.sqrt(variances))),
        contraction=1 - np.asarray(jnp.mean(variances, axis=0)),
        sensor_errors=np.asarray(errors),
        # How far apart two fits of the same data end: the largest over the coordinates.
        start_gaps=np.max(apart / np.sqrt(np.asarray(variances)[:few]), axis=1),
        num_unsettled=int(np.sum(~(np.asarray(fits.moved) <= SETTLED))),
        seconds=perf_counter() - start,
    )


def check_found(fits: ManyFits) -> None:
    """Raise where a fit broke down: left out, it would flatter the rest."""
    broken = ~np.isfinite(np.asarray(fits.families.mean)).all(axis=1)
    if broken.any():
        raise RieszError(
            f"{broken.sum()} of {broken.size} fits became NaN, first data set "
            f"{np.argmax(broken)}: look for priors that allow impossible coefficients or noise of "
            "zero, or narrow them."
        )


@eqx.filter_jit
def exact_at_sensors(problem: InverseProblem, truths: Draws) -> DataSets:
    """What the sensors would see without noise, by exact solves."""
    return jax.lax.map(lambda one: problem.predicted(problem.state(one), problem.z(one)), truths)


@eqx.filter_jit
def with_noise(
    problem: InverseProblem, key: PRNGKeyArray, truths: Draws, exact: DataSets
) -> DataSets:
    def one(key, truth, values):
        return measured(key, problem, values, problem.z(truth))

    return jax.vmap(one)(jr.split(key, len(truths)), truths, exact)


@eqx.filter_jit
def sensor_errors(
    problem: InverseProblem, surrogate: Surrogate | Trajectory, truths: Draws, exact: DataSets
) -> Float[Array, " data"]:
    """The largest error of the surrogate at a sensor for each truth, in units of its noise."""

    def one(truth, values):
        gap = at_sensors(problem, surrogate, truth) - values
        return jnp.max(jnp.abs(problem.whitened(gap, problem.z(truth))))

    return jax.vmap(one)(truths, exact)
