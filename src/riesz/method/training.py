"""How costs are made small: by L-BFGS, or by gradients in compiled blocks of steps.

Blocks have a progress bar, curves, and a guard against NaN. No Python runs inside one and none
depends on the clock: the same key gives the same numbers.
"""

from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import scipy
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Key, PRNGKeyArray, PyTree

from riesz.deadline import check_clock
from riesz.errors import EngineError
from riesz.method.checkpoint import NO_CHECKPOINT, AbstractCheckpoint, leaves_of, with_leaves
from riesz.progress import format_levels, progress_bar

Terms = Mapping[str, Float[Array, ""]]
Step = Callable[[Any, PRNGKeyArray, Any], tuple[Any, Terms]]  # (state, key, data) -> state, terms
History = dict[str, Float[np.ndarray, " step"]]
Tree = TypeVar("Tree")

MAX_STEPS, LEAST_GAIN = 200, 2.2e-9
"""Of L-BFGS, as SciPy has them but for the number of steps."""

SMOOTHED = 0.5
"""The share of a block's steps, at its end, over which a term is averaged for the bar."""


def minimise(
    tree: Tree, cost, *arguments, max_steps: int = MAX_STEPS, gain: float = LEAST_GAIN
) -> Tree:
    """The parameters, few in any tree, that minimise a smooth cost, which returns its slope too.

    The search ends where a step gains less than the share `gain` of the cost.
    """
    start, rebuild = ravel_pytree(tree)

    def flat_cost(flat: np.ndarray) -> tuple[float, np.ndarray]:
        check_clock()
        value, slope = cost(rebuild(jnp.asarray(flat, start.dtype)), *arguments)
        return float(value), np.asarray(ravel_pytree(slope)[0], dtype=float)

    result = scipy.optimize.minimize(
        flat_cost,
        np.asarray(start, dtype=float),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": max_steps, "ftol": gain},
    )
    return rebuild(jnp.asarray(result.x, start.dtype))


class TrainingError(EngineError):
    """A term of the objective became NaN or infinite; `state` is the last good one."""

    def __init__(self, message: str, state: Any):
        super().__init__(message)
        self.state = state


def train(
    step: Step,
    state: Any,
    key: PRNGKeyArray,
    data: Any,
    *,
    num_steps: int,
    block_steps: int,
    label: str,
    progress: bool = False,
    patience: int | None = None,
    watched: str = "",
    checkpoint: AbstractCheckpoint = NO_CHECKPOINT,
    stage: str = "training",
) -> tuple[Any, History]:
    """Repeat a step; stop early when the watched term has not fallen for `patience` blocks.

    `data` is what the step reads and does not change; it is an argument of the compiled block, so
    that nothing as large as a mesh is folded into the code.
    """
    curves: dict[str, np.ndarray] = {}
    done, best, waited, took = 0, np.inf, 0, 0.0
    stored = checkpoint.restore(stage)
    if stored is not None:
        state, curves = with_leaves(state, stored["state"]), stored["curves"]
        done, best, waited = stored["done"], float(stored["best"]), stored["waited"]
    with progress_bar(progress) as shown:
        task = shown.add_task(label, total=num_steps, completed=done, terms="compiling")
        for start in range(0, num_steps, block_steps):
            key, block_key = jr.split(key)
            if start < done:
                continue
            if patience is not None and waited >= patience:
                break
            check_clock(took)
            start_time = perf_counter()
            keys = jr.split(block_key, min(block_steps, num_steps - start))
            after, terms = run_block(step, state, keys, data)
            terms = {name: np.asarray(values) for name, values in terms.items()}
            check_terms_finite(terms, start, label, state)
            state, took = after, perf_counter() - start_time
            curves = {
                name: np.concatenate([*([curves[name]] if curves else []), values])
                for name, values in terms.items()
            }
            last = max(1, int(SMOOTHED * len(keys)))
            levels = {name: float(values[-last:].mean()) for name, values in terms.items()}
            shown.update(task, advance=len(keys), terms=format_levels(levels))
            waited = 0 if watched and levels[watched] < 0.99 * best else waited + 1
            best = min(best, levels[watched]) if watched else best
            done = start + len(keys)
            progress_so_far = {"done": done, "best": np.asarray(best), "waited": waited}
            checkpoint.keep(stage, {"state": leaves_of(state), "curves": curves, **progress_so_far})
    return state, curves


@eqx.filter_jit
def run_block(
    step: Step, state: Any, keys: Key[Array, " step"], data: Any
) -> tuple[Any, dict[str, Float[Array, " step"]]]:
    moving, still = eqx.partition(state, eqx.is_array)

    def body(moving: PyTree, key: PRNGKeyArray):
        after, terms = step(eqx.combine(moving, still), key, data)
        return eqx.filter(after, eqx.is_array), dict(terms)

    moving, terms = jax.lax.scan(body, moving, keys)
    return eqx.combine(moving, still), terms


def check_terms_finite(
    terms: Mapping[str, Float[np.ndarray, " step"]], start: int, label: str, state: Any
) -> None:
    broken = [
        (int(np.nonzero(~np.isfinite(values))[0][0]), name)
        for name, values in terms.items()
        if not np.isfinite(values).all()
    ]
    if broken:
        step, name = min(broken)
        raise TrainingError(
            f"{label}: the term {name!r} became NaN or infinite at step {start + step}: lower the "
            f"learning rate, or look for priors that allow impossible coefficients. The state "
            f"before step {start} is kept.",
            state,
        )
