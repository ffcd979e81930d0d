"""The reference engine: exact solves, adjoint gradients and NumPyro's No-U-Turn sampler.

A gradient costs one sparse factorisation: the adjoint solve meets the matrix of the forward one
again, and the host remembers its factors. (Dense solvers factorise twice.)
"""

import math
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree
from numpyro.diagnostics import effective_sample_size, split_gelman_rubin
from numpyro.infer.hmc import hmc
from rich.progress import Progress

from riesz.errors import RieszError
from riesz.fem.assembly import with_dirichlet
from riesz.fem.linear_solve import AbstractLinearSolver, SparseLU
from riesz.fem.solve import Newton, find_root, require_float64
from riesz.infer.chain_start import InverseMass, beginning
from riesz.infer.checkpoint import NO_CHECKPOINT, AbstractCheckpoint, leaves_of, with_leaves
from riesz.infer.draws import EmpiricalDraws
from riesz.infer.posterior import Posterior
from riesz.infer.problem import Coordinates, InverseProblem
from riesz.infer.states import ExactStates

BLOCK = 50
"""Transitions between two looks at the progress."""

FEW_EFFECTIVE = 100
"""Independent draws below which means and quantiles are rough."""

R_HAT = 1.01
"""Chains that differ by more have not converged (Vehtari et al. 2021)."""


class NutsSettings(eqx.Module):
    """How NumPyro's sampler is set up."""

    num_warmup: int = eqx.field(static=True)
    target_accept: float = eqx.field(static=True)
    dense_mass: bool = eqx.field(static=True)
    max_tree_depth: int = eqx.field(static=True)
    adapt_mass: bool = eqx.field(static=True)


class Transition(eqx.Module):
    """What is kept of one step of the sampler."""

    coordinates: Coordinates
    log_density: Float[Array, ""]
    num_steps: Int[Array, ""]  # leapfrog steps, a gradient each
    accept_probability: Float[Array, ""]
    diverging: Array
    step_size: Float[Array, ""]


def nuts(
    problem: InverseProblem,
    *,
    seed: int = 0,
    num_warmup: int = 500,
    num_samples: int = 500,
    num_chains: int = 2,
    linear_solver: AbstractLinearSolver | None = None,
    start: Coordinates | Posterior | None = None,
    target_accept: float = 0.8,
    dense_mass: bool = True,
    max_tree_depth: int = 10,
    progress: bool = False,
    checkpoint: AbstractCheckpoint = NO_CHECKPOINT,
) -> Posterior:
    """Sample the exact posterior, chain after chain, from the priors' medians or from `start`.

    From a posterior, chains begin at its mean, and its covariance is their inverse mass, which is
    not adapted: a short warm-up will do. Where the posterior is nearly normal, take that of
    `laplace` or `emulate`; with many unknowns where it is not, that of some hundred draws with
    `dense_mass=False`, as a dense mass is learnt from many more draws than there are unknowns.

    The history tells, for each chain and kept draw, `log_density`, `num_steps`, `diverging`,
    `accept_probability` and `step_size`; for each coordinate `r_hat` and `effective_draws`; and
    `num_gradients`, all that were computed, warm-up included.
    """
    require_float64(problem.forward)
    if min(num_samples, num_chains) < 1 or num_warmup < 0:
        raise RieszError(
            f"asked for {num_chains} chains of {num_samples} draws after {num_warmup}: there must "
            "be at least one of each, and no negative warm-up."
        )
    solver = SparseLU() if linear_solver is None else linear_solver
    origin, inverse_mass = beginning(problem, start, dense=dense_mass)
    settings = NutsSettings(
        num_warmup, target_accept, dense_mass, max_tree_depth, adapt_mass=inverse_mass is None
    )
    with Progress(disable=not progress, transient=True) as bar:
        total = num_warmup + num_samples
        tasks = [bar.add_task(f"chain {i + 1}", total=total) for i in range(num_chains)]
        chains = [
            sampled(
                *(problem, solver, settings, key, origin, inverse_mass, total),
                lambda n, t=t: bar.advance(t, n),
                checkpoint=checkpoint,
                stage=f"chain {t}",
            )
            for t, key in zip(tasks, jr.split(jr.key(seed), num_chains), strict=True)
        ]
    every: Transition = jax.tree.map(lambda *parts: jnp.stack(parts), *chains)
    kept: Transition = jax.tree.map(lambda leaf: leaf[:, num_warmup:], every)
    # One gradient at the start of each chain, then one a leapfrog step.
    history = history_of(kept) | {"num_gradients": num_chains + jnp.sum(every.num_steps)}
    notes = warnings_of(history, problem.latents.coordinate_names())
    for note in notes:
        warnings.warn(f"nuts: {note}", stacklevel=2)
    return Posterior(
        problem=problem,
        distribution=EmpiricalDraws(kept.coordinates),
        states=ExactStates(solver),
        history=history,
        engine="nuts",
        seed=seed,
        notes=notes,
    )


def log_density(
    problem: InverseProblem, coordinates: Coordinates, linear_solver: AbstractLinearSolver
) -> Float[Array, ""]:
    """The log-posterior up to a constant; NaN where the equation could not be solved.

    A trajectory that strays where there is no solution then ends as divergent, instead of
    stopping the run.
    """
    z = problem.z(coordinates)
    solution = find_root(problem.forward, z, linear_solver, Newton(), None)
    state = with_dirichlet(problem.forward, solution.free_values, z)
    density = problem.latents.log_prior(coordinates) + problem.log_likelihood(coordinates, state)
    return jnp.where(solution.converged, density, jnp.nan)


def check_begun(problem: InverseProblem, start: Coordinates, potential: Float[Array, ""]) -> None:
    if not bool(jnp.isfinite(potential)):
        problem.state(start)  # says what is wrong where it is the solve
        raise RieszError(
            "the log-density is not finite where the chains start: look for noise of zero or "
            "observations far outside their likelihood, or pass start=..."
        )


@lru_cache(maxsize=16)
def kernels(settings: NutsSettings) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Compiled functions that begin a chain and move it on, the problem being an argument."""

    def potential_of(problem: InverseProblem, solver: AbstractLinearSolver):
        return lambda coordinates: -log_density(problem, coordinates, solver)

    initial, transition = hmc(potential_fn_gen=potential_of, algo="NUTS")

    def begin(problem, solver, key: PRNGKeyArray, start: Coordinates, inverse_mass):
        return initial(
            start,
            settings.num_warmup,
            inverse_mass_matrix=inverse_mass,
            adapt_mass_matrix=settings.adapt_mass,
            dense_mass=settings.dense_mass,
            target_accept_prob=settings.target_accept,
            max_tree_depth=settings.max_tree_depth,
            model_args=(problem, solver),
            rng_key=key,
        )

    def advance(problem, solver, state, num_transitions: Int[Array, ""]):
        """Up to a block of transitions; a loop of traced length serves the last, shorter block."""

        def move(i, state_and_kept):
            moved = transition(state_and_kept[0], (problem, solver), {})
            kept = jax.tree.map(
                lambda rows, row: rows.at[i].set(row), state_and_kept[1], seen(moved)
            )
            return moved, kept

        empty = jax.tree.map(lambda x: jnp.zeros((BLOCK, *x.shape), x.dtype), seen(state))
        return jax.lax.fori_loop(0, num_transitions, move, (state, empty))

    return eqx.filter_jit(begin), eqx.filter_jit(advance)


def seen(state: PyTree) -> Transition:
    """What is kept of NumPyro's state."""
    return Transition(
        coordinates=state.z,
        log_density=-state.potential_energy,
        num_steps=state.num_steps,
        accept_probability=state.accept_prob,
        diverging=state.diverging,
        step_size=state.adapt_state.step_size,
    )


def sampled(
    problem: InverseProblem,
    solver: AbstractLinearSolver,
    settings: NutsSettings,
    key: PRNGKeyArray,
    start: Coordinates,
    inverse_mass: InverseMass | None,
    total: int,
    advanced: Callable[[int], None],
    *,
    checkpoint: AbstractCheckpoint = NO_CHECKPOINT,
    stage: str = "chain",
) -> Transition:
    """All transitions of one chain, warm-up included."""
    begin, advance = kernels(settings)
    state, rows = begin(problem, solver, key, start, inverse_mass), ()
    check_begun(problem, start, state.potential_energy)
    kept = checkpoint.stored(stage)
    if kept is not None:
        state, rows = with_leaves(state, kept["state"]), kept["rows"]
        advanced(len(rows[0]))
    for done in range(len(rows[0]) if rows else 0, total, BLOCK):
        count = min(BLOCK, total - done)
        state, block = advance(problem, solver, state, jnp.asarray(count))
        block = [np.asarray(leaf)[:count] for leaf in jax.tree.leaves(block)]
        rows = tuple(map(np.concatenate, zip(rows, block, strict=True))) if rows else tuple(block)
        checkpoint.keep(stage, {"state": leaves_of(state), "rows": rows})
        advanced(count)
    return jax.tree.unflatten(jax.tree.structure(seen(state)), map(jnp.asarray, rows))


def history_of(kept: Transition) -> dict[str, Array]:
    """Statistics of the kept draws, by chain, and how well the chains agree."""
    draws = np.asarray(kept.coordinates)
    measures = {}
    if draws.shape[1] >= 4:  # what halves of chains need to be compared
        with np.errstate(invalid="ignore", divide="ignore"):
            measures = {
                "r_hat": jnp.asarray(split_gelman_rubin(draws)),
                "effective_draws": jnp.asarray(effective_sample_size(draws)),
            }
    return measures | {
        "log_density": kept.log_density,
        "num_steps": kept.num_steps,
        "accept_probability": kept.accept_probability,
        "diverging": kept.diverging,
        "step_size": kept.step_size,
    }


def warnings_of(history: dict[str, Array], names: tuple[str, ...]) -> tuple[str, ...]:
    """What a reader must know before trusting the draws."""
    notes = []
    divergences = int(jnp.sum(history["diverging"]))
    if divergences:
        notes.append(
            f"{divergences} of {history['diverging'].size} transitions diverged, so that a part of "
            "the posterior may be missed: raise target_accept, or look at the priors."
        )
    r_hat = np.asarray(history.get("r_hat", np.full(len(names), math.nan)))
    worst = int(np.argmax(np.where(np.isfinite(r_hat), r_hat, math.inf)))
    if not np.isfinite(r_hat[worst]):
        notes.append("there are too few draws to say whether the chains agree: take more.")
        return tuple(notes)
    if r_hat[worst] > R_HAT:
        notes.append(
            f"the chains do not agree yet: r_hat is {r_hat[worst]:.3f} for {names[worst]}, above "
            f"{R_HAT}; take more warm-up and draws."
        )
    # Of a handful of draws the estimate may be anything, even negative.
    effective = np.maximum(np.nan_to_num(np.asarray(history["effective_draws"])), 1.0)
    fewest = int(np.argmin(effective))
    if effective[fewest] < FEW_EFFECTIVE:
        notes.append(
            f"the draws of {names[fewest]} are worth {effective[fewest]:.0f} independent ones, "
            f"fewer than {FEW_EFFECTIVE}: means are good to "
            f"{1 / math.sqrt(effective[fewest]):.0%} of a standard deviation; take more."
        )
    return tuple(notes)
