r"""Rounds: the surrogate by least squares around q, then q with that surrogate.

With random functions of place and functions of the unknowns around q held fixed, the surrogate is
linear in its readout, and the penalty a sum of squares: it is solved for, not descended. (Trained
functions of place span the states no better than random ones, and descent leaves residuals of
tens of per cent where there are many unknowns.) A surrogate that is right around one q gives the
next one; the first rounds give the data a part of their weight, so that q shrinks from the prior
in steps over which the functions around it can follow. In the end q no longer moves, and the
surrogate is right where it is used. (Random features, and tempering of the likelihood by `share`.)
"""

import dataclasses
from dataclasses import dataclass
from time import perf_counter

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from riesz.deadline import OVER
from riesz.density.surrogate.in_time import StepEquations, solve_steps, step_equations
from riesz.density.surrogate.least_squares import (
    LARGEST,
    LARGEST_IN_TIME,
    NormalEquations,
    fitting_split,
    normal_equations,
    solve_readout,
    splits,
)
from riesz.density.surrogate.start import (
    ON_HOST,
    AnySurrogate,
    Batches,
    NormSettings,
    SurrogateDensity,
    batches_of,
    equation_inputs,
    fitting_batches,
)
from riesz.density.surrogate.variational import data_information, match_normals, maximise_elbo
from riesz.devices import Devices
from riesz.errors import OutOfTimeError
from riesz.method.base import Work
from riesz.method.settings import Count, CountOrNone, CountOrZero
from riesz.method.training import TrainingError
from riesz.notes import Note
from riesz.penalty.in_time import StepPenalty
from riesz.penalty.penalty import WeakFormPenalty
from riesz.posterior.family import Draws, FullRank, antithetic
from riesz.problem.problem import InverseProblem
from riesz.progress import format_levels, progress_bar
from riesz.surrogate.networks import local_functions, with_more_features
from riesz.surrogate.surrogate import SteadySurrogate
from riesz.surrogate.trajectory import Trajectory

WIDENED = 1.3
"""The surrogate is fitted to draws this much wider than q, so that q's tails can be trusted."""

FIRST_EXPONENT, EXPONENT_GROWTH = 10.0, 10.0
"""The first round lets the best informed direction shrink about to 1 / sqrt(1 + 10) of the prior;
each later one gives ten times the weight."""

NARROWED = 0.4
"""As long as the data have less than their weight, q is wide, and its surrogate fitted to this part
of it: functions around its middle show the way down better than ones stretched to its tails."""

REACH, EXPONENT_CUT, MAX_CUTS = 2.0, 4.0, 10
"""Beyond so many standard deviations of the q before, in any direction, a surrogate fitted around
that q is not believed: the data are given less weight until the next q is nearer."""

SETTLED = 0.05
"""Posterior standard deviations, or a relative change of them, that are no longer a move."""

NEARLY_SETTLED = 0.2
"""Moves so small may come from a surrogate that cannot follow: it is then made larger."""

PATIENCE = 3
"""Rounds with moves so small after which what was drawn for them adds up: with many unknowns, q
would otherwise go on moving with the patches of each round."""

HIDDEN_BY_NOISE = 0.2
"""Errors of the surrogate of this share of the noise do not show in the posterior."""

TELLING = 4.0
"""How far beyond that (squared) a surrogate may be before its posterior carries a warning."""

Equations = NormalEquations | StepEquations

STAGE = "rounds"
"""Its name in checkpoints."""

SCORED_DRAWS, SCORED_PATCHES = 32, 16


class RoundSettings(NormSettings):
    """Sizes of the least-squares fits, and how many at most.

    Without `num_patches`, `num_samples` and `readout_batches` they follow the device.
    """

    rounds: Count = 25  # at most
    num_bends: CountOrZero = 16  # functions of the unknowns beside the linear ones
    num_patches: CountOrNone = None
    num_samples: CountOrNone = None  # of the unknowns in a batch
    readout_batches: CountOrNone = None  # of samples and patches in a round
    refining_draws: Count = 512

    def batches(self) -> Batches:
        """What was asked for, and else what suits the device: 48 of 4 patches and 16 samples on a
        host, fewer and larger ones on an accelerator."""
        suited = fitting_batches(jax.local_devices()[0])
        samples = self.num_samples or suited.num_samples
        # On a host always as many, whatever their size: so it has been.
        count = suited.num_batches if suited == ON_HOST else batches_of(samples)
        return Batches(
            self.num_patches or suited.num_patches, samples, self.readout_batches or count
        )

    def patches_at_once(self) -> int:
        return self.batches().num_patches


@dataclass(frozen=True)
class RoundsResult:
    """Where the rounds ended, and how they went."""

    surrogate: AnySurrogate
    family: FullRank
    history: dict[str, Float[np.ndarray, " round"]]
    notes: tuple[Note, ...]


def fit_in_rounds(
    problem: InverseProblem,
    penalty: WeakFormPenalty | StepPenalty,
    surrogate: AnySurrogate,
    family: FullRank,
    sizes: RoundSettings,
    reference: Float[Array, ""],
    key: PRNGKeyArray,
    work: Work,
) -> RoundsResult:
    """Surrogate and q, each fitted to the other until neither moves."""
    key, normal_key = jr.split(key)
    size, dtype = problem.num_coordinates, problem.forward.dtype
    normals = match_normals(normal_key, sizes.refining_draws, size, dtype)
    share, curves, sums, settling, settled, took = 0.0, [], None, 0, False, 0.0
    tolerance = physics_tolerance(SurrogateDensity(problem, surrogate))
    stored = work.checkpoint.restore(STAGE)
    if stored is not None:
        surrogate, family, curves = stored["surrogate"], stored["family"], stored["curves"]
        share, settling, settled = stored["share"], stored["settling"], stored["settled"]
        kind = NormalEquations if problem.time is None else StepEquations
        sums = None if stored["sums"] is None else kind(*stored["sums"])
    with progress_bar(work.progress) as shown:
        most = sizes.rounds
        task = shown.add_task(
            "surrogate and posterior", total=most, completed=len(curves), terms=""
        )
        for number, one in list(enumerate(jr.split(key, most)))[len(curves) :]:
            if settled or (curves and work.deadline.is_over(took)):
                break
            start_time = perf_counter()
            fit_key, score_key, feature_key = jr.split(one, 3)
            spread = WIDENED if share == 1.0 else NARROWED
            surrogate, sums = fit_around(
                *(problem, penalty, surrogate, family, sizes, fit_key, spread, sums), work.devices
            )
            before, least, density = family, share, SurrogateDensity(problem, surrogate)
            share = next_exponent(least, density, before, normals)
            family, share = within_reach(density, before, normals, least, share)
            moved = distance(before, family, normals)
            physics, bound = penalty_and_elbo(density, penalty, family, normals, score_key)
            terms = {
                "physics": float(physics / reference),
                "bound": float(bound),
                "share": share,
                "moved": moved,
            }
            check_round(terms, number, (surrogate, before))
            curves.append(terms)
            shown.update(task, advance=1, terms=format_levels(terms))
            count, largest = room(surrogate)
            may_grow = 2 * count * len(surrogate.network.readout) <= largest
            coarse = terms["physics"] > tolerance and may_grow
            settled = share == 1.0 and moved < SETTLED and not coarse
            near = share == 1.0 and moved < NEARLY_SETTLED
            settling = settling + 1 if near else 0
            sums = sums if settling >= PATIENCE and not settled else None
            if near and coarse:
                surrogate, settling, sums = grow_features(surrogate, feature_key), 0, None
            state = {"surrogate": surrogate, "family": family, "curves": list(curves)}
            state |= {"sums": None if sums is None else tuple(jax.tree.leaves(sums))}
            state |= {"share": share, "settling": settling, "settled": settled}
            work.checkpoint.keep(STAGE, state)
            took = perf_counter() - start_time
    history = {name: np.array([terms[name] for terms in curves]) for name in curves[0]}
    notes = notes_on_rounds(curves[-1], sizes.rounds, tolerance)
    if not settled and len(curves) < sizes.rounds:
        if share < 1.0:
            raise OutOfTimeError(
                f"{OVER} after {len(curves)} rounds, before all of the data counted: allow more."
            )
        notes = (Note("time_in_rounds", rounds=len(curves)), *notes)
    return RoundsResult(surrogate, family, history, notes)


def check_round(terms: dict[str, float], number: int, state: tuple) -> None:
    broken = [name for name, value in terms.items() if not np.isfinite(value)]
    if broken:
        raise TrainingError(
            f"surrogate: {broken[0]!r} became NaN or infinite in round {number}: look for priors "
            "that allow impossible coefficients. The state before that round is kept.",
            state,
        )


def physics_tolerance(density: SurrogateDensity) -> float:
    """The relative error of the equation, squared, that noise hides: a fifth of what it is."""
    problem = density.problem
    origin = jnp.zeros(problem.num_coordinates, problem.forward.dtype)
    signal = problem.observed - density.record(origin)  # no state yet
    whitened = np.asarray(problem.whiten(signal, problem.z(origin)))
    return float(HIDDEN_BY_NOISE**2 / max(np.mean(whitened**2), 1e-300))


def grow_features(surrogate: AnySurrogate, key: PRNGKeyArray) -> AnySurrogate:
    """With twice as many functions of place."""
    network = surrogate.network
    network = with_more_features(network, 2 * network.readout.shape[1], key)
    return dataclasses.replace(surrogate, network=network)


def room(surrogate: AnySurrogate) -> tuple[int, int]:
    """How many functions of place there are, and how large their equations may be."""
    if isinstance(surrogate, Trajectory):
        return surrogate.num_features, LARGEST_IN_TIME
    return surrogate.network.readout.shape[1], LARGEST


def notes_on_rounds(last: dict[str, float], max_rounds: int, tolerance: float) -> tuple[Note, ...]:
    """What a reader of the posterior should be warned of."""
    notes = []
    if last["share"] < 1.0 or last["moved"] > SETTLED:
        done = {"percent": 100 * last["share"], "moved": last["moved"]}
        notes.append(Note("emulate_unsettled", rounds=max_rounds, **done))
    if last["physics"] > TELLING * tolerance:
        percent, limit = 100 * np.sqrt(last["physics"]), 100 * np.sqrt(tolerance)
        notes.append(Note("surrogate_residual", percent=percent, limit=limit))
    return tuple(notes)


def fit_around(
    problem: InverseProblem,
    penalty: WeakFormPenalty | StepPenalty,
    surrogate: AnySurrogate,
    family: FullRank,
    sizes: RoundSettings,
    key: PRNGKeyArray,
    spread: float,
    sums: Equations | None,
    devices: Devices | None = None,
) -> tuple[AnySurrogate, Equations]:
    """The surrogate with functions of the unknowns around q, its readout solved for there.

    With the `sums` of rounds before, those functions stay, and what is drawn now is added.
    """
    draw_key, function_key, patch_key = jr.split(key, 3)
    _, num_samples, num_batches = sizes.batches()
    count = num_batches * num_samples
    size, dtype = problem.num_coordinates, problem.forward.dtype
    draws = family.transform(spread * antithetic(draw_key, count, size, dtype))
    if sums is None:
        surrogate = localise(surrogate, draws, sizes.num_bends, function_key)
    batches = draws.reshape(num_batches, num_samples, size)
    if isinstance(surrogate, Trajectory) and isinstance(penalty, StepPenalty):
        steps = step_equations(problem, penalty, surrogate, patch_key, batches, devices)
        steps = sums.plus(steps) if isinstance(sums, StepEquations) else steps
        return solve_steps(problem, penalty, surrogate, steps), steps
    assert isinstance(surrogate, SteadySurrogate)
    assert isinstance(penalty, WeakFormPenalty)
    equations = normal_equations(problem, penalty, surrogate, patch_key, batches, devices)
    equations = sums.plus(equations) if isinstance(sums, NormalEquations) else equations
    return solve_readout(surrogate, equations), equations


def localise(
    surrogate: AnySurrogate, draws: Draws, num_bends: int, key: PRNGKeyArray
) -> AnySurrogate:
    """The surrogate in terms of functions around the draws, as close as they come to it."""
    network = surrogate.network
    candidates = splits(np.asarray(network.linear), np.asarray(network.others), num_bends)
    split = fitting_split(candidates, *room(surrogate))
    network = dataclasses.replace(
        network, linear=split.linear, others=split.others, num_crossed=split.num_crossed
    )
    if len(split.others):
        nonlinear = np.asarray(draws)[:, np.asarray(network.others)]
        branch = local_functions(nonlinear, num_bends, key, network.readout.dtype)
        network = dataclasses.replace(network, branch=branch)
    hidden = np.asarray(jax.vmap(network.hidden)(draws))
    mixtures = np.asarray(jax.vmap(surrogate.network.mixture)(draws))
    readout = np.linalg.lstsq(hidden, mixtures, rcond=1e-10)[0]
    network = dataclasses.replace(network, readout=jnp.asarray(readout, network.readout.dtype))
    return dataclasses.replace(surrogate, network=network)


def next_exponent(
    share: float, density: SurrogateDensity, family: FullRank, normals: Draws
) -> float:
    """How much of the data's weight the next q is given, if that keeps it within reach."""
    if share > 0:
        return min(1.0, EXPONENT_GROWTH * share)
    told_by_data = np.asarray(data_information(density, family, normals[:SCORED_DRAWS]))
    return float(min(1.0, FIRST_EXPONENT / np.linalg.eigvalsh(told_by_data)[-1]))


def within_reach(
    density: SurrogateDensity, before: FullRank, normals: Draws, least: float, share: float
) -> tuple[FullRank, float]:
    """The next q, and the share of the data's weight with which it stays where it was fitted.

    With less than the `least` share, that of the q before, it would turn back to the prior: where
    even that leads too far away, a part of the way is taken.
    """
    for _ in range(MAX_CUTS):
        after = maximise_elbo(density, before, normals, share)
        moved = reach(before, after, normals)
        if moved <= REACH:
            return after, share
        if share == least:
            return interpolate_gaussians(before, after, REACH / moved), share
        share = max(share / EXPONENT_CUT, least)
    return before, share


def interpolate_gaussians(before: FullRank, after: FullRank, part: float) -> FullRank:
    """A member of the family on the way from one to another."""
    return jax.tree.map(lambda a, b: a + part * (b - a), before, after)


def reach(before: FullRank, after: FullRank, normals: Draws) -> float:
    """How far the mean moved, in standard deviations of the q before along its own axes."""
    old, new = (np.asarray(family.transform(normals)) for family in (before, after))
    factor = np.linalg.cholesky(np.atleast_2d(np.cov(old, rowvar=False)))
    moved = np.linalg.solve(factor, new.mean(axis=0) - old.mean(axis=0))
    return float(np.abs(moved).max()) if np.isfinite(moved).all() else np.inf


def distance(before: FullRank, after: FullRank, normals: Draws) -> float:
    """How means and spreads changed, in standard deviations of the new q: root mean squares.

    The larger of both; of many unknowns one or another always moves with the patches drawn.
    """
    old, new = (np.asarray(family.transform(normals)) for family in (before, after))
    shift = (new.mean(axis=0) - old.mean(axis=0)) / new.std(axis=0)
    growth = np.log(new.std(axis=0) / old.std(axis=0))
    return float(np.sqrt(np.maximum(np.mean(shift**2), np.mean(growth**2))))


@eqx.filter_jit
def penalty_and_elbo(
    density: SurrogateDensity,
    penalty: WeakFormPenalty | StepPenalty,
    family: FullRank,
    normals: Draws,
    key: PRNGKeyArray,
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The penalty under the new q, on fresh patches, and the evidence lower bound."""
    draws = family.transform(normals)
    zs, keys = equation_inputs(density.problem, draws[:SCORED_DRAWS]), jr.split(key, SCORED_PATCHES)
    values = jax.lax.map(lambda one: penalty(one, density.surrogate, zs), keys)
    fits = jax.vmap(density.log_likelihood)(draws)
    return jnp.mean(values), jnp.mean(fits) - family.kl_to_prior()
