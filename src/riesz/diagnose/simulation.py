r"""Simulation-based calibration: unknowns from the prior, data from them, and back.

If posteriors are right, the truth behind each data set is one more draw from its posterior: its
rank among them is uniform (Talts, Betancourt, Simpson, Vehtari & Gelman 2018). The data come from
exact solves; one surrogate over the prior serves all fits. Each is a Gaussian whose draws are
weighed, as those of a fit are that is checked: a Gaussian alone would be too narrow wherever a
posterior is bent, as of a conductivity and a source that few readings tell apart.
"""

from time import perf_counter
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from riesz.amortise.accuracy import MANY_DRAWS, propose_again, replace_rows, select_rows
from riesz.amortise.importance import BatchWork, WeightedDraws, batch_problem, fit_data_set
from riesz.amortise.simulate import (
    DataSets,
    PriorSurrogate,
    SensorData,
    Simulator,
    check_simulable,
    surrogate_over_prior,
)
from riesz.density.surrogate.start import check_nested, surrogate_at_sensors
from riesz.diagnose.calibration import Calibration
from riesz.errors import RieszError
from riesz.penalty.rows import full_precision
from riesz.posterior.family import Draws
from riesz.posterior.sobol import spread_normals
from riesz.problem.problem import InverseProblem, in_precision
from riesz.surrogate.surrogate import SteadySurrogate
from riesz.surrogate.trajectory import Trajectory

NUM_DATA_SETS = 500
FEWEST = 20
TOGETHER = 100
"""Data sets that share their draws, and what chance does to these; the first ones are fitted a
second time."""


def sbc(
    problem: InverseProblem,
    *,
    num_data_sets: int = NUM_DATA_SETS,
    seed: int = 0,
    sizes: PriorSurrogate | None = None,
    surrogate: SteadySurrogate | Trajectory | None = None,
) -> Calibration:
    """Are posteriors of this problem right, for data as its model makes them?

    Its observations are read for their places and noise alone. Needs a problem on a hierarchy of
    meshes, in time one that the density `surrogate` takes; for nonlinear equations give `sizes`
    with several Gauss-Newton steps, `num_solves`.
    """
    if num_data_sets < FEWEST:
        raise RieszError(
            f"num_data_sets is {num_data_sets}: fewer than {FEWEST} tell nothing of calibration."
        )
    check_simulable(problem)
    start = perf_counter()
    surrogate_key, truth_key, noise_key = jr.split(jr.key(seed), 3)
    with full_precision(), jax.enable_x64(True):
        problem = in_precision(problem, jnp.float64)
        if surrogate is None:
            network_key, key = jr.split(surrogate_key)
            sizes = PriorSurrogate() if sizes is None else sizes
            check_nested(problem, "sbc", sizes.gram)
            surrogate = surrogate_over_prior(problem, sizes, network_key, key)
        size = problem.num_coordinates
        truths = jr.normal(truth_key, (num_data_sets, size))
        exact = exact_at_sensors(problem, truths)
        problem.check_solved(truths, exact)
        observed = with_noise(problem, noise_key, truths, exact)
        simulator, values = Simulator(problem, surrogate), np.asarray(observed)
        parts = np.array_split(np.arange(num_data_sets), max(1, num_data_sets // TOGETHER))
        each = [
            rank_by_importance(simulator, values[part], np.asarray(truths)[part], seed + number)
            for number, part in enumerate(parts)
        ]
        few = parts[0]
        second = rank_by_importance(
            simulator, values[few], np.asarray(truths)[few], seed + len(parts)
        )
        errors = sensor_errors(problem, surrogate, truths, exact)
    result = jax.tree.map(lambda *own: np.concatenate(own), *each)
    check_found(result)
    return Calibration(
        names=problem.latents.coordinate_names(),
        ranks=result.ranks,
        contraction=1 - np.mean(result.sd**2, axis=0),
        sensor_errors=np.asarray(errors),
        # How far apart two fits of the same data end: the largest over the coordinates.
        start_gaps=np.max(np.abs(each[0].mean - second.mean) / second.sd, axis=1),
        num_unsettled=int(np.sum(~result.is_fair)),
        seconds=perf_counter() - start,
    )


class Located(NamedTuple):
    """Where the truths lie in their posteriors, and whether draws tell of these."""

    ranks: Float[np.ndarray, "data coordinate"]
    mean: Float[np.ndarray, "data coordinate"]
    sd: Float[np.ndarray, "data coordinate"]
    is_fair: Bool[np.ndarray, " data"]


def rank_by_importance(
    simulator: Simulator,
    values: Float[np.ndarray, "data sensor"],
    truths: Float[np.ndarray, "data coordinate"],
    seed: int,
) -> Located:
    """By draws of Gaussians, weighed; where that tells little, once more by more of them."""
    work, observed = BatchWork(batch_problem(simulator, seed), seed), SensorData(values)
    first = work.weigh(observed, work.asked.map(fit_data_set, observed, None))
    result, weak = rank_by_draws(first, truths), first.weak()
    if not len(weak):
        return result
    normals = spread_normals(seed + 3, MANY_DRAWS, truths.shape[1])
    rows = select_rows(first, weak), select_rows(observed, weak)
    more = propose_again(*rows, normals, work.by_model)
    return replace_rows(result, weak, rank_by_draws(more, truths[weak]))


def rank_by_draws(own: WeightedDraws, truths: Float[np.ndarray, "data coordinate"]) -> Located:
    below = np.einsum("nd,ndc->nc", own.weights, own.draws < truths[:, None])
    sd = np.sqrt(np.diagonal(own.covariance, axis1=1, axis2=2))
    return Located(below, own.mean, sd, own.is_fair())


def check_found(found: Located) -> None:
    """Raise where a fit broke down: left out, it would flatter the rest."""
    broken = ~np.isfinite(found.mean).all(axis=1)
    if broken.any():
        raise RieszError(
            f"{broken.sum()} of {broken.size} fits became NaN, first data set "
            f"{np.argmax(broken)}: look for priors that allow impossible coefficients or noise of "
            "zero, or narrow them."
        )


@eqx.filter_jit
def exact_at_sensors(problem: InverseProblem, truths: Draws) -> DataSets:
    """What the sensors would see without noise, by exact solves."""
    return jax.lax.map(lambda one: problem.predict(problem.state(one), problem.z(one)), truths)


@eqx.filter_jit
def with_noise(
    problem: InverseProblem, key: PRNGKeyArray, truths: Draws, exact: DataSets
) -> DataSets:
    def one(key, truth, values):
        return problem.likelihood.sample(key, values, problem.z(truth))

    return jax.vmap(one)(jr.split(key, len(truths)), truths, exact)


@eqx.filter_jit
def sensor_errors(
    problem: InverseProblem, surrogate: SteadySurrogate | Trajectory, truths: Draws, exact: DataSets
) -> Float[Array, " data"]:
    """The largest error of the surrogate at a sensor for each truth, in units of its noise."""

    def one(truth, values):
        gap = surrogate_at_sensors(problem, surrogate, truth) - values
        return jnp.max(jnp.abs(problem.whiten(gap, problem.z(truth))))

    return jax.vmap(one)(truths, exact)
