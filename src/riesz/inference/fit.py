"""One door to all engines: `fit`, the choice of `auto`, and a check of what comes out.

`auto` is exact where that is cheap or nothing else applies: few unknowns on a mesh whose sparse
solve takes milliseconds. There NUTS beats everything that has to be trained first; beyond,
`emulate` does.
"""

import dataclasses
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from riesz.diagnose.importance import effort, with_importance_check
from riesz.diagnose.surrogate import with_surrogate_error
from riesz.engines.base import NO_CHECKPOINT, AbstractCheckpoint, AbstractEngine
from riesz.engines.table import AUTO, check_engine, engine_of
from riesz.errors import EngineError, RieszError
from riesz.posterior.family import AbstractGaussian
from riesz.posterior.posterior import Posterior, SurrogateStates
from riesz.problem.linearity import linear_parts
from riesz.problem.problem import InverseProblem

FEW_UNKNOWNS = 10
"""Coordinates up to which NUTS needs few gradients for an independent draw."""

SMALL_MESH = 65**2
"""Nodes up to which, measured on the transport problem, exact solves are the faster way."""


@dataclass(frozen=True, eq=False)
class Choice:
    """An engine, and why it was taken."""

    engine: AbstractEngine
    why: str


def chosen(name: str, why: str) -> Choice:
    return Choice(engine_of(name), why)


FAILURES = (
    jax.errors.JaxRuntimeError,
    eqx.EquinoxRuntimeError,
    np.linalg.LinAlgError,
    ArithmeticError,
    MemoryError,
)
"""What numbers do: solves without a solution, overflow, matrices that have no factor. Others are
mistakes in the code, and keep their traceback."""

RAISED = re.compile(r"^[\w.]*Error: (.+)", re.MULTILINE)
"""The line of a traceback that says what is wrong."""


def reason(error: BaseException) -> str:
    """What an error says, as a sentence; compiled code puts pages around it."""
    text = str(error).strip() or type(error).__name__
    raised = RAISED.search(text)
    told = raised[1] if raised else text.splitlines()[0]
    return f"{told.rstrip('. ')}."


def choose_engine(problem: InverseProblem) -> Choice:
    """The engine for a problem, with its default settings."""
    size = problem.num_coordinates
    unknowns = f"{size} unknown number{'' if size == 1 else 's'}"
    if problem.forward.dtype != jnp.dtype(jnp.float64):
        return Choice(
            engine_of("emulate"), "exact solves need float64, and the problem is in float32"
        )
    left = num_others(problem) if size > FEW_UNKNOWNS else size
    if size > FEW_UNKNOWNS and left == 0:
        return Choice(
            engine_of("conditional"), f"the state is linear in all of {unknowns}: nothing is left"
        )
    if problem.hierarchy is None or len(problem.hierarchy.meshes) == 1:
        single = "a single mesh has no coarser levels, which emulate trains on"
        if not left <= FEW_UNKNOWNS < size:
            return chosen("nuts", single)
        why = f"{single}, and all but {left} of {unknowns} can be integrated out"
        return chosen("conditional", why)
    return on_nested_meshes(problem, unknowns)


def on_nested_meshes(problem: InverseProblem, unknowns: str) -> Choice:
    """Between exact solves and what is trained on mini-patches."""
    size, nodes = problem.num_coordinates, problem.forward.space.mesh.num_nodes
    try:
        engine_of("emulate").check(problem)
    except RieszError as refused:
        return chosen("nuts", f"emulate cannot: {str(refused).partition(':')[0]}")
    if size <= FEW_UNKNOWNS and nodes <= SMALL_MESH:
        return Choice(
            engine_of("nuts"),
            f"with {unknowns} and {nodes} nodes, exact solves are cheap and sampling sure",
        )
    reasons = [f"{unknowns}, more than {FEW_UNKNOWNS}"] if size > FEW_UNKNOWNS else []
    reasons += [f"{nodes} nodes, more than {SMALL_MESH}"] if nodes > SMALL_MESH else []
    return Choice(
        engine_of("emulate"), f"with {' and '.join(reasons)}, sampling by exact solves is slow"
    )


def num_others(problem: InverseProblem) -> int:
    """Unknowns that cannot be integrated out."""
    try:
        return len(linear_parts(problem).others)
    except RieszError:
        return problem.num_coordinates


def fit(
    problem: InverseProblem,
    engine: AbstractEngine | str = AUTO,
    *,
    seed: int = 0,
    progress: bool = True,
    check: bool | None = None,
    checkpoint: AbstractCheckpoint = NO_CHECKPOINT,
) -> Posterior:
    """The posterior by an engine, `rz.Nuts(num_chains=4)` for instance, or by the one that suits.

    An engine's name stands for it with its default settings; with `"auto"`, a note of the
    posterior says which engine was taken and why. A q is checked by importance sampling with
    exact solves afterwards, a thousand of them, or fewer where each takes long, and the check says
    so; where even the fewest would take more than some minutes a note says that there is none.
    `check` asks for it there too, or leaves it out everywhere. `progress` draws bars on the error
    stream. With a `checkpoint` a fit that was stopped goes on from the last one that was written,
    to the same numbers. What a reader must know is in the posterior's notes, and warned of.
    """
    if not isinstance(problem, InverseProblem):
        raise RieszError(f"found a {type(problem).__name__}: give rz.inverse_problem(...).")
    notes = ()
    if not isinstance(engine, AbstractEngine):
        check_engine(engine)
        if engine == AUTO:
            choice = choose_engine(problem)
            engine = choice.engine
            notes = (f"auto took the engine {engine.name}: {choice.why}",)
        else:
            engine = engine_of(engine)
    engine.check(problem)
    checkpoint.begin(problem, engine.name, seed, engine.settings())
    try:
        posterior = engine.run(problem, seed=seed, progress=progress, checkpoint=checkpoint)
    except KeyboardInterrupt:
        checkpoint.flush()
        raise
    except FAILURES as error:
        raise EngineError(
            f"the engine {engine.name} failed: {reason(error)} Look for priors that allow "
            "impossible coefficients and for noise that is far too small, or take another engine."
        ) from error
    checkpoint.flush()
    posterior = checked(posterior, check, seed)
    for note in posterior.notes:
        warnings.warn(f"{engine.name}: {note}", stacklevel=2)
    return dataclasses.replace(posterior, notes=(*posterior.notes, *notes))


def checked(posterior: Posterior, check: bool | None, seed: int) -> Posterior:
    """With an importance check, where one is wanted and there is a density to weigh.

    A check that fails is told: the fit before it may have taken hours; so is one that was left out
    because it would take long.
    """
    if check is False or not isinstance(posterior.distribution, AbstractGaussian):
        return posterior
    if check is None and not (needed := effort(posterior)).is_affordable:
        return noted(
            posterior,
            f"not checked against exact solves: {needed.num_draws} draws, the fewest, would take "
            f"about {needed.seconds / 60:.0f} minutes. Ask for it by check=True, or riesz fit "
            "--check.",
        )
    if isinstance(posterior.states, SurrogateStates):
        posterior = tried(with_surrogate_error, posterior, seed, "the surrogate")
    return tried(with_importance_check, posterior, seed, "q")


def tried(check: Callable[..., Posterior], posterior: Posterior, seed: int, what: str) -> Posterior:
    """The posterior after a check, or with a note of why there is none."""
    try:
        return check(posterior, seed=seed)
    except (RieszError, *FAILURES) as error:
        return noted(posterior, f"{what} could not be checked: {reason(error)}")


def noted(posterior: Posterior, note: str) -> Posterior:
    return dataclasses.replace(posterior, notes=(*posterior.notes, note))
