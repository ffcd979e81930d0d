"""NumPyro's No-U-Turn sampler (Hoffman & Gelman 2014), in blocks of transitions.

Chains are moved one by one, or side by side where there are devices.
"""

import dataclasses
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from riesz.deadline import check_clock
from riesz.devices import Devices, map_each
from riesz.method.base import Distribution, InverseMass, TargetDensity, Work
from riesz.method.checkpoint import AbstractCheckpoint, leaves_of, with_leaves
from riesz.method.mcmc.diagnostics import Transition
from riesz.posterior.density import AbstractDensity
from riesz.posterior.family import EmpiricalDraws
from riesz.problem.problem import Coordinates
from riesz.progress import progress_bar

BLOCK = 50
"""Transitions between two looks at the progress."""

WIDER = 2.0
"""Chains start from a posterior widened by so much, so that they can disagree."""

MAX_TRIES = 20
"""Draws of the prior that are tried for a chain, until one has a density."""


class NutsSettings(eqx.Module):
    """How NumPyro's sampler is set up."""

    num_warmup: int = eqx.field(static=True)
    target_accept: float = eqx.field(static=True)
    dense_mass: bool = eqx.field(static=True)
    max_tree_depth: int = eqx.field(static=True)
    adapt_mass: bool = eqx.field(static=True, default=True)


@lru_cache(maxsize=16)
def kernels(settings: NutsSettings) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Compiled functions that begin a chain and move it on, the density being an argument."""

    def potential_of(density: AbstractDensity):
        return lambda coordinates: -density(coordinates)

    hmc = import_module("numpyro.infer.hmc").hmc  # a quarter of a second, which others save
    initial, transition = hmc(potential_fn_gen=potential_of, algo="NUTS")

    def begin(density: AbstractDensity, inverse_mass, place: tuple[PRNGKeyArray, Coordinates]):
        key, start = place
        return initial(
            start,
            settings.num_warmup,
            inverse_mass_matrix=inverse_mass,
            adapt_mass_matrix=settings.adapt_mass,
            dense_mass=settings.dense_mass,
            target_accept_prob=settings.target_accept,
            max_tree_depth=settings.max_tree_depth,
            model_args=(density,),
            rng_key=key,
        )

    def advance(density: AbstractDensity, state_and_count: tuple[PyTree, Int[Array, ""]]):
        """Up to a block of transitions; a loop of traced length serves the last, shorter block."""
        state, num_transitions = state_and_count

        def move(i, state_and_kept):
            moved = transition(state_and_kept[0], (density,), {})
            kept = jax.tree.map(
                lambda rows, row: rows.at[i].set(row), state_and_kept[1], transition_of(moved)
            )
            return moved, kept

        empty = jax.tree.map(lambda x: jnp.zeros((BLOCK, *x.shape), x.dtype), transition_of(state))
        return jax.lax.fori_loop(0, num_transitions, move, (state, empty))

    return eqx.filter_jit(begin), eqx.filter_jit(advance)


def transition_of(state: PyTree) -> Transition:
    """What is kept of NumPyro's state."""
    return Transition(
        coordinates=state.z,
        log_density=-state.potential_energy,
        num_steps=state.num_steps,
        accept_probability=state.accept_prob,
        diverging=state.diverging,
        step_size=state.adapt_state.step_size,
    )


class ChainGroup(NamedTuple):
    """Chains that move side by side, by their numbers: one, or all where there are devices."""

    numbers: tuple[int, ...]
    checkpoint: AbstractCheckpoint
    devices: Devices | None

    def each(self, function: Callable[..., Any], shared: tuple, rows: list[Any]) -> list[Any]:
        """`function(*shared, row)` for all of them."""
        if self.devices is None:
            return [function(*shared, row) for row in rows]
        return map_each(function, shared, rows, self.devices)


def sample_chains(
    density: AbstractDensity,
    settings: NutsSettings,
    begins: list[tuple[PRNGKeyArray, Coordinates]],
    inverse_mass: InverseMass | None,
    total: int,
    advanced: Callable[[int, int], None],
    side: ChainGroup,
) -> list[Transition]:
    """All transitions of some chains, warm-up included."""
    begin, advance = kernels(settings)
    states = side.each(begin, (density, inverse_mass), begins)
    rows: list[tuple[np.ndarray, ...]] = [() for _ in states]
    for i, number in enumerate(side.numbers):
        if not bool(jnp.isfinite(states[i].potential_energy)):
            density.explain(begins[i][1], "the chains start")
        stored = side.checkpoint.restore(f"chain {number}")
        if stored is not None:
            states[i], rows[i] = with_leaves(states[i], stored["state"]), stored["rows"]
            advanced(number, len(rows[i][0]))
    while any(counts := [min(BLOCK, total - (len(own[0]) if own else 0)) for own in rows]):
        check_clock()
        moves = [(state, jnp.asarray(n)) for state, n in zip(states, counts, strict=True)]
        result = side.each(advance, (density,), moves)
        for i, number in enumerate(side.numbers):
            states[i], block = result[i]
            new = tuple(np.asarray(leaf)[: counts[i]] for leaf in jax.tree.leaves(block))
            both = zip(rows[i] or tuple(part[:0] for part in new), new, strict=True)
            rows[i] = tuple(map(np.concatenate, both))
            stored = {"state": leaves_of(states[i]), "rows": rows[i]}
            side.checkpoint.keep(f"chain {number}", stored)
            advanced(number, counts[i])
    shape = jax.tree.structure(transition_of(states[0]))
    return [jax.tree.unflatten(shape, map(jnp.asarray, own)) for own in rows]


def all_chains(
    density: AbstractDensity,
    settings: NutsSettings,
    key: PRNGKeyArray,
    starts: Float[Array, "chain coordinate"],
    inverse_mass: InverseMass | None,
    num_samples: int,
    work: Work,
) -> Transition:
    """All transitions of all chains, warm-up included: one after the other, or by all devices."""
    total, every = settings.num_warmup + num_samples, tuple(range(len(starts)))
    begins = list(zip(jr.split(key, len(starts)), starts, strict=True))
    with progress_bar(work.progress) as shown:
        tasks = [shown.add_task(f"chain {i + 1}", total=total, terms="") for i in every]
        chains = []
        for numbers in [(i,) for i in every] if work.devices is None else [every]:
            chains += sample_chains(
                *(density, settings, [begins[i] for i in numbers], inverse_mass, total),
                lambda number, count: shown.advance(tasks[number], count),
                ChainGroup(numbers, work.checkpoint, work.devices),
            )
    return jax.tree.map(lambda *parts: jnp.stack(parts), *chains)


def draw_starts(
    has_density: Callable[[Coordinates], bool],
    start: Distribution | Coordinates | None,
    num_chains: int,
    key: PRNGKeyArray,
    size: int,
) -> Float[Array, "chain coordinate"]:
    """Where chains begin: far enough apart to disagree where there is more than one place to be.

    Draws of the prior, or those of a distribution, widened. Coordinates that were given are where
    all of them begin.
    """
    if start is not None and not isinstance(start, Distribution):
        return jnp.broadcast_to(jnp.asarray(start), (num_chains, size))
    centre = jnp.zeros(size) if start is None else start.mean
    starts = []
    for own in jr.split(key, num_chains):
        tried = jr.normal(own, (MAX_TRIES, size))
        if start is not None:
            drawn = start.sample(own, MAX_TRIES)
            tried = centre[None, :] + WIDER * (drawn - centre[None, :])
        # Nearer and nearer, where most places have no density.
        nearer = (centre + 0.8**i * (place - centre) for i, place in enumerate(tried))
        starts.append(next(filter(has_density, nearer), centre))
    return jnp.stack(starts)


def start_of_chains(
    start: Distribution | Coordinates | None, size: int, *, dense: bool
) -> tuple[Coordinates, InverseMass | None]:
    """About where chains start, and their inverse mass where it is known."""
    if not isinstance(start, Distribution):
        return (jnp.zeros(size) if start is None else start), None
    if not dense:
        return start.mean, start.variances()
    covariance = start.covariance()
    if isinstance(start, EmpiricalDraws):
        covariance = shrink_correlations(covariance, start.num_draws)
    return start.mean, covariance


def shrink_correlations(covariance: Float[Array, "n n"], num_draws: int) -> Float[Array, "n n"]:
    """A covariance of few draws with its correlations made smaller.

    By the share that the unknowns have in unknowns and draws: of few draws most of them are chance,
    and directions in which none of the draws went would get no variance at all.
    """
    share = len(covariance) / (len(covariance) + num_draws)
    return (1 - share) * covariance + share * jnp.diag(jnp.diagonal(covariance))


def sample_by_nuts(
    target: TargetDensity,
    settings: NutsSettings,
    start: Distribution | Coordinates | None,
    num_chains: int,
    num_samples: int,
    work: Work,
) -> tuple[Transition, Int[Array, ""]]:
    """The draws of all chains after their warm-up, and how many gradients they took.

    A gradient at the start of each chain, then one a leapfrog step.
    """
    density, key = target.density, jr.key(work.seed)
    origin, inverse_mass = start_of_chains(start, target.size, dense=settings.dense_mass)
    settings = dataclasses.replace(settings, adapt_mass=inverse_mass is None)
    begin, _ = kernels(settings)

    def has_density(place: Coordinates) -> bool:
        # By the program that begins chains: one more would have to be compiled.
        return bool(jnp.isfinite(begin(density, inverse_mass, (key, place)).potential_energy))

    starts = draw_starts(has_density, start, num_chains, jr.fold_in(key, 1), len(origin))
    every = all_chains(density, settings, key, starts, inverse_mass, num_samples, work)
    draws = jax.tree.map(lambda leaf: leaf[:, settings.num_warmup :], every)
    return draws, num_chains + jnp.sum(every.num_steps)
