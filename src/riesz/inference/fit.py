"""One door to all engines: `fit`, the choice of `auto`, and a check of what comes out.

`auto` solves exactly: by NUTS for few unknowns on a mesh whose solve takes milliseconds, beyond by
the curvature about the most likely unknowns, which takes some hundred solves however many unknowns
and nodes there are. What comes out of that is checked, and the check says whether it will do.
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

SMALL_MESH = {1: 65**2, 2: 65**2, 3: 13**3}
"""Nodes, by dimension, up to which the tens of thousands of solves of NUTS take a minute or two."""


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
        return chosen("emulate", "exact solves need float64, and the problem is in float32")
    if size > FEW_UNKNOWNS:
        left = num_others(problem)
        if left == 0:
            why = f"the state is linear in all of {unknowns}: nothing is left"
            return chosen("conditional", why)
        if left <= FEW_UNKNOWNS:
            return chosen("conditional", f"all but {left} of {unknowns} can be integrated out")
    mesh = problem.forward.space.mesh
    nodes, few_nodes = mesh.num_nodes, SMALL_MESH[mesh.dim]
    if size <= FEW_UNKNOWNS and nodes <= few_nodes:
        why = f"with {unknowns} and {nodes} nodes, exact solves are cheap and sampling sure"
        return chosen("nuts", why)
    reasons = [f"{unknowns}, more than {FEW_UNKNOWNS}"] if size > FEW_UNKNOWNS else []
    reasons += [f"{nodes} nodes, more than {few_nodes}"] if nodes > few_nodes else []
    return chosen(
        "laplace",
        f"with {' and '.join(reasons)}, sampling takes long; where the check finds that the "
        "posterior is not normal, nuts can start from it (start = 'laplace')",
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
