"""One engine, with its check, and with what the mesh misses added to what is predicted."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np

from riesz.deadline import Deadline
from riesz.density.engine import AbstractEngine
from riesz.devices import Devices
from riesz.diagnose.discretisation import mesh_error
from riesz.diagnose.importance import effort, with_importance_check, with_surrogate_error
from riesz.errors import EngineError, RieszError, error_sentence
from riesz.inference.table import AMORTISE
from riesz.method.checkpoint import NO_CHECKPOINT, AbstractCheckpoint, SecondRunCheckpoint
from riesz.notes import Note
from riesz.posterior.family import AbstractGaussian
from riesz.posterior.mesh_shift import with_mesh_error
from riesz.posterior.posterior import Posterior, SurrogateStates
from riesz.problem.problem import InverseProblem

FAILURES = (
    jax.errors.JaxRuntimeError,
    eqx.EquinoxRuntimeError,
    np.linalg.LinAlgError,
    ArithmeticError,
    MemoryError,
)
"""What numbers do: solves without a solution, overflow, matrices that have no factor. Others are
mistakes in the code, and keep their traceback."""


class RunSettings(NamedTuple):
    """How a fit is run, whichever engines it takes."""

    seed: int
    progress: bool
    check: bool | None
    checkpoint: AbstractCheckpoint = NO_CHECKPOINT
    deadline: Deadline = Deadline()
    devices: Devices | None = None
    mesh_error: str = "off"


def run_checked(problem: InverseProblem, engine: AbstractEngine, how: RunSettings) -> Posterior:
    """The posterior of one engine, with its check."""
    try:
        posterior = engine.run(
            problem,
            seed=how.seed,
            progress=how.progress,
            checkpoint=how.checkpoint,
            deadline=how.deadline,
            devices=how.devices,
        )
    except KeyboardInterrupt:
        how.checkpoint.flush()
        raise
    except FAILURES as error:
        raise EngineError(
            f"the engine {engine.name} failed: {error_sentence(error)} Look for priors that allow "
            "impossible coefficients and for noise that is far too small, or take another engine."
        ) from error
    how.checkpoint.flush()
    return check_posterior(posterior, how)


def check_posterior(posterior: Posterior, how: RunSettings) -> Posterior:
    """With an importance check, where one is wanted and there is a density to weigh.

    A check that fails is told: the fit before it may have taken hours; so is one that was left out
    because it would take long.
    """
    if how.check is False or not isinstance(posterior.distribution, AbstractGaussian):
        return posterior
    if how.check is None and not (needed := effort(posterior)).is_affordable:
        size = {"num_draws": needed.num_draws, "minutes": needed.seconds / 60}
        return with_notes(posterior, Note("not_checked", **size))
    if isinstance(posterior.states, SurrogateStates) and posterior.problem.time is None:
        posterior = try_check(with_surrogate_error, posterior, how, "the surrogate")
    weigh = partial(with_importance_check, devices=how.devices)
    return try_check(weigh, posterior, how, "q")


def try_check(
    check: Callable[..., Posterior], posterior: Posterior, how: RunSettings, what: str
) -> Posterior:
    """The posterior after a check, or with a note of why there is none."""
    try:
        with how.deadline.enforce("before the end of the check"):
            return check(posterior, seed=how.seed)
    except (RieszError, *FAILURES) as error:
        note = Note("check_failed", what=what, error=error_sentence(error))
        return with_notes(posterior, note)


def with_notes(posterior: Posterior, *notes: Note) -> Posterior:
    return dataclasses.replace(posterior, notes=(*posterior.notes, *notes))


def correct(
    posterior: Posterior, engine: AbstractEngine, how: RunSettings, before: Posterior | None = None
) -> Posterior:
    """What the mesh misses is added, and the engine goes on from there, where that is wanted,
    notable and to be trusted; with an equation that holds only roughly, data correct the state.

    It is added once: a posterior `before` has it already.
    """
    if before is not None and before.mesh_shift is not None:
        return dataclasses.replace(posterior, mesh_shift=before.mesh_shift)
    if how.mesh_error != "correct" or engine.name == AMORTISE or posterior.density == "relaxed":
        return posterior
    posterior = with_mesh_shift(posterior, how)
    shift = posterior.mesh_shift
    if shift is None or not (shift.is_notable and shift.is_trusted):
        return posterior
    again = how._replace(checkpoint=SecondRunCheckpoint(SecondRunCheckpoint(how.checkpoint)))
    try:
        own = engine.with_start(posterior)
        result = run_checked(with_mesh_error(posterior.problem, shift), own, again)
    except RieszError as error:
        note = Note("check_failed", what="a correction of the mesh", error=error_sentence(error))
        return with_notes(posterior, note)
    return dataclasses.replace(result, mesh_shift=dataclasses.replace(shift, is_corrected=True))


def with_mesh_shift(posterior: Posterior, how: RunSettings) -> Posterior:
    """With what a finer discretisation adds, or a note of why that is not known."""
    try:
        with how.deadline.enforce("before the mesh was checked"):
            shift = mesh_error(posterior)
    except (RieszError, *FAILURES) as error:
        note = Note("check_failed", what="the mesh", error=error_sentence(error))
        return with_notes(posterior, note)
    return dataclasses.replace(posterior, mesh_shift=shift)
