"""The engine `sample`: the exact posterior with many unknowns, by exact solves.

Searches from several places find the peaks, their curvature the coordinates in which the posterior
is nearly round; chains start apart around the peaks, and a warm-up refines the coordinates from
draws and gradients together. The number of gradients for an independent draw does not grow with
that of unknowns.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from riesz.engines.base import (
    GRADIENT,
    AbstractEngine,
    Count,
    Share,
    Solver,
    Start,
    Work,
    as_solver,
    beginning,
    leaves_of,
    started,
    states_by,
    with_leaves,
)
from riesz.engines.nuts.engine import (
    AbstractDensity,
    ExactDensity,
    Transition,
    history_of,
    warnings_of,
)
from riesz.engines.sample.hamiltonian import (
    BLOCK,
    Chain,
    Peaks,
    Seen,
    advance,
    begun,
    pace_from,
    transition,
)
from riesz.engines.sample.metric import Metric, refined, together
from riesz.engines.sample.peaks import peaks_of
from riesz.engines.training import bar, spoken
from riesz.fem.linear.linear_solve import Automatic
from riesz.posterior.chains import agreement
from riesz.posterior.family import EmpiricalDraws
from riesz.posterior.posterior import Posterior
from riesz.problem.problem import InverseProblem

WIDER = 2.0
"""Chains start so much farther from the peaks than draws lie, where data tell something."""

NEARER, MAX_TRIES = 0.7, 20
"""Places without a density are drawn towards the peak, so often at most."""

WINDOWS = (0.2, 0.4, 0.8)
"""Shares of the warm-up after which coordinates are refined; the rest finds the step alone."""

SETTLING = 0.3
"""The share of the first window that is not looked at: chains come from far away."""

STAGE = "chains"
"""Its name in checkpoints."""

Rows = tuple[np.ndarray, ...]

NUM_TRIED, ENOUGH = 50, 0.1
"""Draws of the mixture of peaks that are weighed, and the share of them that must count."""

RARE = 20
"""Jumps between peaks that must have been taken for their weights to be known."""


def peaks_from(arrays: tuple[Any, ...]) -> Peaks:
    """From the leaves that a checkpoint has kept."""
    *stacked, weights = map(jnp.asarray, arrays)
    each = [Metric(*(array[i] for array in stacked)) for i in range(len(weights))]
    return Peaks(together(each), weights)


def begun_apart(
    density: AbstractDensity, peaks: Peaks, num_chains: int, key: PRNGKeyArray, own: PRNGKeyArray
) -> list[Chain]:
    """Chains around the peaks, each of which has one if there are enough, and then by weight."""
    weights, held = np.exp(np.asarray(peaks.log_weights)), np.zeros(peaks.count)
    chains = []
    keys = zip(jr.split(key, num_chains), jr.split(own, num_chains), strict=True)
    for place_key, chain_key in keys:
        free = np.flatnonzero(held == 0)
        peak = int(free[np.argmax(weights[free])]) if len(free) else int(np.argmax(weights / held))
        held[peak] += 1
        metric = peaks.metric(peak)
        normals = jr.normal(place_key, metric.centre.shape)
        along = metric.directions @ (metric.directions.T @ normals)
        offset = normals + (WIDER - 1) * along
        chain, tried = begun(density, chain_key, metric.place(offset)), 0
        while not bool(jnp.isfinite(chain.log_density)):
            tried += 1
            if tried == MAX_TRIES:
                density.explain(metric.centre)
            chain = begun(density, chain_key, metric.place(NEARER**tried * offset))
        chains.append(chain)
    return chains


def workable(density: AbstractDensity, peaks: Peaks, key: PRNGKeyArray) -> Peaks:
    """All peaks, where draws of their mixture are near enough to the posterior to jump by them.

    Else the heaviest one alone: chains still start at each of them, and go where they can. To keep
    them apart without jumps would keep them from ever agreeing.
    """
    if peaks.count == 1:
        return peaks
    logs = []
    for own in jr.split(key, NUM_TRIED):
        which, normal = jr.split(own)
        metric = peaks.metric(int(jr.categorical(which, peaks.log_weights)))
        place = metric.place(jr.normal(normal, metric.centre.shape))
        mixture = jax.scipy.special.logsumexp(peaks.log_densities(place))
        logs.append(float(begun(density, own, place).log_density - mixture))
    weights = np.exp(np.array(logs) - np.max(logs))
    if weights.sum() ** 2 / np.sum(weights**2) >= ENOUGH * NUM_TRIED:
        return peaks
    heaviest = int(np.argmax(np.asarray(peaks.log_weights)))
    return Peaks(together([peaks.metric(heaviest)]), jnp.zeros(1))


class Window(NamedTuple):
    """A part of a warm-up, at the end of which coordinates are refined, or the draws after it."""

    start: int
    end: int
    is_warmup: bool
    refines: bool


def windows(num_warmup: int, num_samples: int) -> list[Window]:
    ends = sorted({round(share * num_warmup) for share in WINDOWS} - {0})
    found, start = [], 0
    for end in ends:
        found.append(Window(start, end, is_warmup=True, refines=True))
        start = end
    if start < num_warmup:
        found.append(Window(start, num_warmup, is_warmup=True, refines=False))
    return [*found, Window(num_warmup, num_warmup + num_samples, is_warmup=False, refines=False)]


def blocks(window: Window, done: int) -> Iterator[tuple[int, int]]:
    """Where the blocks of a window begin that are still to be done, and their lengths."""
    for start in range(window.start, window.end, BLOCK):
        if start >= done:
            yield start, min(BLOCK, window.end - start)


class Run(NamedTuple):
    """How far chains have come: of a warm-up only the window that is not over is kept."""

    chains: list[Chain]
    peaks: Peaks
    rows: Rows = ()  # leaves of what was seen, by chain
    done: int = 0
    num_gradients: int = 0

    def stored(self) -> dict[str, Any]:
        """As a checkpoint keeps it."""
        return {
            "chains": tuple(map(leaves_of, self.chains)),
            "peaks": leaves_of(self.peaks),
            "rows": self.rows,
            "done": self.done,
            "num_gradients": self.num_gradients,
        }

    def resumed(self, kept: Any) -> "Run":
        chains = zip(self.chains, kept["chains"], strict=True)
        return Run(
            [with_leaves(chain, own) for chain, own in chains],
            peaks_from(kept["peaks"]),
            *(kept["rows"], kept["done"], kept["num_gradients"]),
        )


def sampled(density: AbstractDensity, run: Run, engine: "Sample", work: Work) -> tuple[Seen, Run]:
    """The draws of all chains, which move side by side, and where they ended."""
    kept = work.checkpoint.stored(STAGE)
    run = run if kept is None else run.resumed(kept)
    total, wanted = engine.num_warmup + engine.num_samples, jnp.asarray(engine.target_accept)
    with bar(work.progress) as shown, ThreadPoolExecutor(num_threads(len(run.chains))) as pool:
        task = shown.add_task(f"{len(run.chains)} chains", total=total, terms="")
        shown.advance(task, run.done)
        for window in windows(engine.num_warmup, engine.num_samples):
            learning = jnp.asarray(window.is_warmup)
            for start, count in blocks(window, run.done):
                how = (wanted, learning, jnp.asarray(count))
                found = moved(pool, density, run, how)
                run = after_block(run, found, start + count, window)
                work.checkpoint.keep(STAGE, run.stored())
                shown.update(task, advance=count, terms=spoken(told_of(run)))
    return jax.tree.unflatten(jax.tree.structure(seen_by(density, run)), run.rows), run


def num_threads(num_chains: int) -> int:
    return min(num_chains, os.cpu_count() or 1)


def moved(
    pool: ThreadPoolExecutor, density: AbstractDensity, run: Run, how: tuple[Array, ...]
) -> list[tuple[Chain, Seen]]:
    """Each chain by a block: in threads on a host, and as one batch on an accelerator."""
    if jax.default_backend() == "cpu":
        return list(pool.map(lambda chain: advance(density, run.peaks, chain, *how), run.chains))
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *run.chains)
    found = advance_all(density, run.peaks, stacked, *how)
    return [jax.tree.map(lambda leaf, i=i: leaf[i], found) for i in range(len(run.chains))]


@eqx.filter_jit
def advance_all(density: AbstractDensity, peaks: Peaks, chains: Chain, *how: Array):
    return eqx.filter_vmap(lambda chain: advance(density, peaks, chain, *how))(chains)


def seen_by(density: AbstractDensity, run: Run) -> Seen:
    """The shapes of what is seen in a transition."""
    flag = jnp.zeros((), bool)
    chain = run.chains[0]
    return eqx.filter_eval_shape(transition, density, run.peaks, chain, chain.log_density, flag)[1]


def after_block(run: Run, found: list[tuple[Chain, Seen]], done: int, window: Window) -> Run:
    """With what was seen, and with refined coordinates at the end of a window."""
    count, chains = done - run.done, [chain for chain, _ in found]
    seen = [
        seen if window.refines else eqx.tree_at(lambda s: s.slope, seen, seen.slope[:, :0])
        for _, seen in found
    ]
    leaves = zip(*map(jax.tree.leaves, seen), strict=True)
    block = tuple(np.stack([np.asarray(leaf)[:count] for leaf in one]) for one in leaves)
    rows = block
    if run.rows:
        rows = tuple(np.concatenate(one, axis=1) for one in zip(run.rows, block, strict=True))
    steps = sum(int(np.sum(np.asarray(s.transition.num_steps)[:count])) for s in seen)
    peaks = run.peaks
    if window.is_warmup and done == window.end:
        if window.refines:
            settled = round(SETTLING * window.end) if window.start == 0 else 0
            every = jax.tree.unflatten(jax.tree.structure(seen[0]), [r[:, settled:] for r in rows])
            peaks = refined_peaks(peaks, every)
            chains = [rested(chain) for chain in chains]
        rows = ()
    return Run(chains, peaks, rows, done, run.num_gradients + steps)


def rested(chain: Chain) -> Chain:
    """The length of steps is learnt anew, from what it was."""
    return eqx.tree_at(lambda one: one.pace, chain, pace_from(jnp.exp(chain.pace.log_mean)))


def refined_peaks(peaks: Peaks, seen: Seen) -> Peaks:
    """Coordinates about each peak by the draws that lie there, of all chains."""
    places, slopes = (
        np.asarray(rows).reshape(-1, rows.shape[-1])
        for rows in (seen.transition.coordinates, seen.slope)
    )
    owner, metrics = np.asarray(seen.peak).ravel(), []
    for number in range(peaks.count):
        metric, own = peaks.metric(number), owner == number
        metrics.append(refined(metric, places[own], slopes[own]) if own.sum() > 1 else metric)
    return Peaks(together(metrics), peaks.log_weights)


def told_of(run: Run) -> dict[str, float]:
    return {"step": float(np.exp(np.mean([float(one.pace.log_mean) for one in run.chains])))}


def along(
    draws: Float[np.ndarray, "chain draw coordinate"],
    directions: Float[np.ndarray, "coordinate direction"],
) -> tuple[dict[str, Array], tuple[str, ...]]:
    """Agreement along the directions in which data tell something, and what to warn of.

    Each has a small part in each of many coordinates, where it would not be seen.
    """
    measured = agreement(draws @ directions)._asdict()
    found = {name: jnp.asarray(rows) for name, rows in measured.items()}
    names = tuple(f"direction {i + 1} that data tell of" for i in range(directions.shape[1]))
    notes = warnings_of(found | {"diverging": jnp.zeros(draws.shape[:2], bool)}, names)
    return {f"{name}_along": rows for name, rows in found.items()}, notes


def about_peaks(owner: Int[np.ndarray, "chain draw"], count: int) -> tuple[str, ...]:
    """That there is more than one, and whether their weights can be relied on."""
    if count == 1:
        return ()
    shares = ", ".join(f"{np.mean(owner == number):.0%}" for number in range(count))
    changes = int(np.sum(owner[:, 1:] != owner[:, :-1]))
    note = (
        f"the posterior has {count} separate peaks, with {shares} of the draws: means and standard "
        "deviations tell little of it, look at its distribution"
    )
    if changes >= RARE:
        return (f"{note}. Chains went from one to another {changes} times.",)
    return (
        f"{note}. Chains went from one to another only {changes} times, so that these shares are "
        "not to be relied on: where chains were started has made them.",
    )


class Sample(AbstractEngine):
    """The exact posterior, also with many unknowns, in coordinates that are made round.

    `num_searches` look for peaks, from `start` or the priors' medians and from draws of the prior.
    The history tells what that of `nuts` does, and of each draw its `peak`; where unknowns are
    many, how chains agree `..._along` the directions in which data tell something as well.
    """

    name: ClassVar[str] = "sample"
    is_exact: ClassVar[bool] = True
    compiling: ClassVar[float] = 60.0

    num_warmup: Count = 300
    num_samples: Count = 500
    num_chains: Count = 4
    num_searches: Count = 6
    target_accept: Share = 0.8
    start: Start = None
    linear_solver: Solver = Automatic()

    def cost(self, solve: float, problem: InverseProblem) -> float:
        """Trajectories of about six steps."""
        return solve * GRADIENT * 6 * self.num_chains * (self.num_warmup + self.num_samples)

    def posterior(self, problem: InverseProblem, work: Work) -> Posterior:
        self.check(problem)
        solver = problem.suited(as_solver(self.linear_solver))
        density, key = ExactDensity(problem, solver), jr.key(work.seed)
        searching, starting, own = jr.split(key, 3)
        kept = work.checkpoint.stored("peaks")
        if kept is None:
            origin, _ = beginning(problem, self.origin(problem, work), dense=False)
            found = peaks_of(problem, solver, origin, self.num_searches, searching)
            work.checkpoint.keep("peaks", {"arrays": leaves_of(found)})
        else:
            found = peaks_from(kept["arrays"])
        chains = begun_apart(density, found, self.num_chains, starting, own)
        used = workable(density, found, jr.fold_in(searching, 1))
        first = Run(chains, used, num_gradients=len(chains))
        seen, run = sampled(density, first, self, work)
        return self.told(problem, seen, run, work)

    def origin(self, problem: InverseProblem, work: Work) -> Any:
        """Where the first search begins: of a posterior only the mean matters."""
        start = started(problem, self.start, work)
        return start.coordinate_mean() if isinstance(start, Posterior) else start

    def told(self, problem: InverseProblem, seen: Seen, run: Run, work: Work) -> Posterior:
        moves: Transition = jax.tree.map(jnp.asarray, seen.transition)
        history = history_of(moves) | {
            "num_gradients": jnp.asarray(run.num_gradients),
            "peak": jnp.asarray(seen.peak),
        }
        notes = warnings_of(history, problem.latents.coordinate_names())
        directions = np.asarray(run.peaks.metrics.directions[0])
        if directions.shape[1] < directions.shape[0]:
            found, own = along(np.asarray(moves.coordinates), directions)
            history, notes = history | found, (*notes, *own)
        return Posterior(
            problem=problem,
            distribution=EmpiricalDraws(moves.coordinates),
            states=states_by(self.linear_solver),
            history=history,
            engine=self.name,
            seed=work.seed,
            notes=(*about_peaks(np.asarray(seen.peak), run.peaks.count), *notes),
        )
