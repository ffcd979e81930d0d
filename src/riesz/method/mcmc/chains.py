"""Chains that move side by side: windows of a warm-up, and draws until they are enough.

All is kept in blocks, so that a run which was stopped goes on to the same numbers; how long it is
hangs on its draws alone, unless it was given a time.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from riesz.devices import Devices, map_each
from riesz.errors import OutOfTimeError
from riesz.method.base import Work
from riesz.method.checkpoint import leaves_of, with_leaves
from riesz.method.mcmc.hamiltonian import (
    BLOCK,
    Chain,
    HMCTransition,
    Modes,
    init_step_size,
    step,
    transition,
)
from riesz.method.mcmc.metric import Metric, refine_metric, stack_metrics
from riesz.notes import Note
from riesz.posterior.chains import agreement
from riesz.posterior.checks import R_HAT
from riesz.posterior.density import AbstractDensity, pool_for
from riesz.progress import format_levels, progress_bar

WINDOWS = (0.2, 0.4, 0.8)
"""Shares of the warm-up after which coordinates are refined; the rest finds the step alone."""

SETTLING = 0.3
"""The share of the first window that is not looked at: chains come from far away."""

STAGE = "chains"
"""Its name in checkpoints."""

FEWEST_DRAWS, MORE_DRAWS, MOST_DRAWS = 500, 250, 4000
"""Of each chain: before chains are compared, between two looks, and at the end in any case."""

ENOUGH = 1000
"""Independent draws whose means are good to 3 % of a standard deviation."""

NUM_LOOKED_AT = 256
"""Coordinates that are compared where there are more, beside the directions that data tell of."""

FEWEST_IN_TIME = 100
"""Draws of each chain without which a run that is out of time has no posterior to show."""

Rows = tuple[np.ndarray, ...]


class Plan(NamedTuple):
    """How long chains are, and how often steps are to be accepted."""

    num_warmup: int
    num_samples: int | None  # none: until they are enough
    target_accept: float


def restore_modes(arrays: tuple[Any, ...]) -> Modes:
    """From the leaves that a checkpoint has kept."""
    *stacked, weights = map(jnp.asarray, arrays)
    each = [Metric(*(array[i] for array in stacked)) for i in range(len(weights))]
    return Modes(stack_metrics(each), weights)


class Window(NamedTuple):
    """A part of a warm-up, at the end of which coordinates are refined, or the draws after it."""

    start: int
    end: int
    is_warmup: bool
    refines: bool


def warmup_windows(num_warmup: int) -> list[Window]:
    ends = sorted({round(share * num_warmup) for share in WINDOWS} - {0})
    result, start = [], 0
    for end in ends:
        result.append(Window(start, end, is_warmup=True, refines=True))
        start = end
    if start < num_warmup:
        result.append(Window(start, num_warmup, is_warmup=True, refines=False))
    return result


def draw_windows(plan: Plan) -> list[Window]:
    """Draws, by the looks at them that decide whether there are to be more."""
    ends = range(FEWEST_DRAWS, MOST_DRAWS + 1, MORE_DRAWS)
    ends = ends if plan.num_samples is None else (plan.num_samples,)
    starts = (0, *ends[:-1])
    return [
        Window(plan.num_warmup + start, plan.num_warmup + end, is_warmup=False, refines=False)
        for start, end in zip(starts, ends, strict=True)
    ]


def remaining_blocks(window: Window, done: int) -> Iterator[tuple[int, int]]:
    """Where the blocks of a window begin that are still to be done, and their lengths."""
    for start in range(window.start, window.end, BLOCK):
        if start >= done:
            yield start, min(BLOCK, window.end - start)


class ChainsState(NamedTuple):
    """How far chains have come: of a warm-up only the window that is not over is kept."""

    chains: list[Chain]
    modes: Modes
    rows: Rows = ()  # leaves of what was seen, by chain
    done: int = 0
    num_gradients: int = 0

    def snapshot(self) -> dict[str, Any]:
        """As a checkpoint keeps it."""
        return {
            "chains": tuple(map(leaves_of, self.chains)),
            "peaks": leaves_of(self.modes),
            "rows": self.rows,
            "done": self.done,
            "num_gradients": self.num_gradients,
        }

    def restore(self, stored: Any) -> "ChainsState":
        chains = zip(self.chains, stored["chains"], strict=True)
        return ChainsState(
            [with_leaves(chain, own) for chain, own in chains],
            restore_modes(stored["peaks"]),
            *(stored["rows"], stored["done"], stored["num_gradients"]),
        )


def run_chains(
    density: AbstractDensity, run: ChainsState, plan: Plan, work: Work
) -> tuple[HMCTransition, ChainsState, tuple[Note, ...]]:
    """The draws of all chains, where they ended, and a note where they were cut short."""
    stored = work.checkpoint.restore(STAGE)
    run = run if stored is None else run.restore(stored)
    warmup, draws = warmup_windows(plan.num_warmup), draw_windows(plan)
    wanted, notes = jnp.asarray(plan.target_accept), ()
    with progress_bar(work.progress) as shown, pool_for(density, run.chains[0].position) as pool:
        total = plan.num_warmup + (plan.num_samples or 2 * FEWEST_DRAWS)
        task = shown.add_task(f"{len(run.chains)} chains", total=total, terms="")
        shown.advance(task, run.done)
        for window in (*warmup, *draws):
            learning = jnp.asarray(window.is_warmup)
            for start, count in remaining_blocks(window, run.done):
                how = (wanted, learning, jnp.asarray(count))
                try:
                    with work.deadline.enforce("in a block"):
                        result = step_chains(pool, density, run, how, work.devices)
                        run = after_block(run, result, start + count, window)
                except OutOfTimeError:
                    notes = (note_on_time(run.done - plan.num_warmup, len(run.chains)),)
                    break
                work.checkpoint.keep(STAGE, run.snapshot())
                shown.update(task, advance=count, terms=format_levels(progress_terms(run)))
            if notes or (window in draws and run.done == window.end and is_enough(run)):
                break
        shown.update(task, total=run.done)
    structure = jax.tree.structure(transition_shapes(density, run))
    return jax.tree.unflatten(structure, run.rows), run, notes


def is_enough(run: ChainsState) -> bool:
    """Whether chains agree and are worth enough, in directions that data tell of and elsewhere."""
    draws, directions = run.rows[0], np.asarray(run.modes.metrics.directions[0])
    size = draws.shape[-1]
    some = np.unique(np.linspace(0, size - 1, min(size, NUM_LOOKED_AT)).round().astype(int))
    looked_at = [draws[:, :, some]]
    if directions.shape[1] < size:
        looked_at.append(draws @ directions)
    for numbers in looked_at:
        result = agreement(numbers)
        fewest = np.minimum(result.effective_draws, result.tail_draws)
        if not ((result.r_hat <= R_HAT.good).all() and (fewest >= ENOUGH).all()):
            return False
    return True


def note_on_time(num_draws: int, num_chains: int) -> Note:
    """What a run that is out of time has; nothing that could be shown is an error."""
    if num_draws < FEWEST_IN_TIME:
        result = "in the warm-up" if num_draws <= 0 else f"after {num_draws} draws of each chain"
        raise OutOfTimeError(
            f"the time was over {result}, too early for a posterior: allow more, or ask for less "
            "warm-up."
        )
    return Note("time_in_chains", num_draws=num_draws, num_chains=num_chains)


def step_chains(
    pool: ThreadPoolExecutor,
    density: AbstractDensity,
    run: ChainsState,
    how: tuple[Array, ...],
    devices: Devices | None,
) -> list[tuple[Chain, HMCTransition]]:
    """Each chain by a block: in threads on a host, a batch on an accelerator, or by devices."""
    if devices is not None:
        return map_each(step_one, (density, run.modes, how), run.chains, devices)
    if jax.default_backend() == "cpu":
        return list(pool.map(lambda chain: step(density, run.modes, chain, *how), run.chains))
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *run.chains)
    result = step_all(density, run.modes, stacked, *how)
    return [jax.tree.map(lambda leaf, i=i: leaf[i], result) for i in range(len(run.chains))]


def step_one(
    density: AbstractDensity, modes: Modes, how: tuple[Array, ...], chain: Chain
) -> tuple[Chain, HMCTransition]:
    return step(density, modes, chain, *how)


@eqx.filter_jit
def step_all(density: AbstractDensity, modes: Modes, chains: Chain, *how: Array):
    return eqx.filter_vmap(lambda chain: step(density, modes, chain, *how))(chains)


def transition_shapes(density: AbstractDensity, run: ChainsState) -> HMCTransition:
    """The shapes of what is seen in a transition."""
    flag = jnp.zeros((), bool)
    chain = run.chains[0]
    return eqx.filter_eval_shape(transition, density, run.modes, chain, chain.log_density, flag)[1]


def after_block(
    run: ChainsState, blocks_of_chains: list[tuple[Chain, HMCTransition]], done: int, window: Window
) -> ChainsState:
    """With what was seen, and with refined coordinates at the end of a window."""
    count, chains = done - run.done, [chain for chain, _ in blocks_of_chains]
    transitions = [rows for _, rows in blocks_of_chains]
    if not window.refines:
        empty = [rows.gradient[:, :0] for rows in transitions]
        transitions = eqx.tree_at(lambda each: [t.gradient for t in each], transitions, empty)
    leaves = zip(*map(jax.tree.leaves, transitions), strict=True)
    block = tuple(np.stack([np.asarray(leaf)[:count] for leaf in each]) for each in leaves)
    rows = block
    if run.rows:
        rows = tuple(np.concatenate(both, axis=1) for both in zip(run.rows, block, strict=True))
    steps = sum(int(np.sum(np.asarray(s.transition.num_steps)[:count])) for s in transitions)
    modes = run.modes
    if window.is_warmup and done == window.end:
        if window.refines:
            settled = round(SETTLING * window.end) if window.start == 0 else 0
            structure = jax.tree.structure(transitions[0])
            later = jax.tree.unflatten(structure, [r[:, settled:] for r in rows])
            modes = refine_modes(modes, later)
            chains = [restart_step_size(chain) for chain in chains]
        rows = ()
    return ChainsState(chains, modes, rows, done, run.num_gradients + steps)


def restart_step_size(chain: Chain) -> Chain:
    """The length of steps is learnt anew, from what it was."""
    step_size = init_step_size(jnp.exp(chain.step_size.log_mean))
    return eqx.tree_at(lambda chain: chain.step_size, chain, step_size)


def refine_modes(modes: Modes, transitions: HMCTransition) -> Modes:
    """Coordinates about each mode by the draws that lie there, of all chains."""
    points, gradients = (
        np.asarray(rows).reshape(-1, rows.shape[-1])
        for rows in (transitions.transition.coordinates, transitions.gradient)
    )
    owner, metrics = np.asarray(transitions.mode).ravel(), []
    for number in range(modes.count):
        metric, here = modes.metric(number), owner == number
        if here.sum() > 1:
            metric = refine_metric(metric, points[here], gradients[here])
        metrics.append(metric)
    return Modes(stack_metrics(metrics), modes.log_weights)


def progress_terms(run: ChainsState) -> dict[str, float]:
    logs = [float(chain.step_size.log_mean) for chain in run.chains]
    return {"step": float(np.exp(np.mean(logs)))}
