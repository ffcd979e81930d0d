"""One door to all methods and densities: `fit`, and a check of what comes out.

`auto` starts cheap, looks whether that will do, and climbs where it will not. Unknowns
that can be integrated out are; a normal distribution about the most likely unknowns takes some
hundred solves however many unknowns and nodes there are, and the one nearest to the posterior some
thousand. Each is weighed by exact solves, and searches from elsewhere look for other modes. What
does not pass is sampled, from where the last fit ended.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple, get_args

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from riesz.deadline import Deadline
from riesz.density.base import AbstractDensityKind
from riesz.density.engine import AbstractEngine
from riesz.density.exact import ExactDensity
from riesz.devices import Devices, Wanted, devices_of
from riesz.errors import OutOfTimeError, RieszError, any_of, error_sentence
from riesz.fem.default_solver import estimate_seconds
from riesz.fem.terms.series import HELD, Series
from riesz.fem.time.scheme import EULER
from riesz.inference.run import (
    FAILURES,
    RunSettings,
    correct,
    run_checked,
    with_mesh_shift,
    with_notes,
)
from riesz.inference.table import AUTO, DensityName, MeshErrorUse, MethodName, engine_of
from riesz.method.base import AbstractMethod
from riesz.method.checkpoint import NO_CHECKPOINT, AbstractCheckpoint, SecondRunCheckpoint
from riesz.method.newton import NEGLIGIBLE, find_modes
from riesz.notes import Note, Severity, warn_of
from riesz.posterior.checks import FAIR, K_HAT, R_HAT, ImportanceCheck
from riesz.posterior.density import linearize_at
from riesz.posterior.posterior import Posterior
from riesz.problem.linearity import linear_parts, without_derivative
from riesz.problem.problem import Coordinates, InverseProblem

FEW_UNKNOWNS = 10
"""Coordinates that may be left where all others are integrated out."""

NUM_MODES = 50
"""Directions that the curvature is looked at, as `Laplace` has it: what is compiled is shared."""

NUM_SEARCHES, MORE_SEARCHES = 5, 17
"""From the mean, and from pairs of opposite draws of the prior; more where all take no time."""

SOLVES_OF_A_SEARCH, SHORT_SEARCHES, LONGEST_SEARCHES = 300, 10.0, 240.0
"""Solves of a search for another mode, roughly, and seconds that all may take together."""


ASKED_FOR = Note("asked_for")


@dataclass(frozen=True, eq=False)
class Choice:
    """A method and a density, why they were taken, and what follows where that will not do."""

    engine: AbstractEngine
    why: Note
    then: tuple[AbstractEngine, ...] = ()


def choose_engine(problem: InverseProblem) -> Choice:
    """The engine to begin with, with its default settings, and those to go on to."""
    size = problem.num_coordinates
    if problem.forward.dtype != jnp.dtype(jnp.float64) and problem.hierarchy is not None:
        return Choice(engine_of("gaussian-vi", "surrogate"), Note("float32"))
    left, chains = num_nonlinear(problem), engine_of("mcmc")
    if left == 0:
        return Choice(engine_of("laplace", "marginal"), Note("all_linear", size=size), (chains,))
    if left <= FEW_UNKNOWNS < size:
        why = Note("few_left", left=left, size=size)
        return Choice(engine_of("laplace", "marginal"), why, (chains,))
    why = Note("normal_first", size=size)
    return Choice(engine_of("laplace"), why, (engine_of("gaussian-vi"), chains))


def num_nonlinear(problem: InverseProblem) -> int:
    """Unknowns that cannot be integrated out."""
    try:
        return len(linear_parts(problem).others)
    except RieszError:
        return problem.num_coordinates


def engine_seconds(engine: AbstractEngine, problem: InverseProblem) -> float:
    """What an engine will take, roughly."""
    solver = problem.default_solver(num_rhs=min(NUM_MODES, problem.num_coordinates))
    solve = estimate_seconds(problem.forward, solver) * problem.num_solves
    return engine.compiling + engine.cost(solve, problem)


class Inadequacy(NamedTuple):
    """Why a posterior will not do."""

    why: Note
    is_multimodal: bool = False  # what no normal distribution can mend
    higher_mode: Coordinates | None = None  # the mode on which it should be


def find_inadequacy(posterior: Posterior, seed: int) -> Inadequacy | None:
    """Nothing where a posterior will do, or where nobody can say."""
    if posterior.check is not None:
        return importance_inadequacy(posterior.check) or other_modes(posterior, seed)
    if "k_hat" in posterior.history and float(posterior.history["k_hat"]) > K_HAT.bad:
        k_hat = float(posterior.history["k_hat"])
        return Inadequacy(Note("hyper_k_hat_high", value=k_hat))
    if "r_hat" in posterior.history:
        worst = float(np.nanmax(np.asarray(posterior.history["r_hat"])))
        return None if worst <= R_HAT.good else Inadequacy(Note("r_hat_high", value=worst))
    return None


def importance_inadequacy(check: ImportanceCheck) -> Inadequacy | None:
    """What importance sampling finds missing."""
    if not check.k_hat <= check.good:
        return Inadequacy(Note("k_hat_high", value=check.k_hat))
    if check.effective_draws < min(FAIR, check.num_draws / 3):
        return Inadequacy(Note("few_effective", value=check.effective_draws))
    return None


def other_modes(posterior: Posterior, seed: int) -> Inadequacy | None:
    """Whether searches from draws of the prior end at another mode.

    One that is far higher is where the posterior is: q then tells of a lower one, and its weights
    cannot know.
    """
    problem = posterior.problem
    solver = problem.default_solver(num_rhs=min(NUM_MODES, problem.num_coordinates))
    density = ExactDensity(problem, solver)
    solve = density.seconds()
    if NUM_SEARCHES * SOLVES_OF_A_SEARCH * solve > LONGEST_SEARCHES:
        return None
    is_quick = MORE_SEARCHES * SOLVES_OF_A_SEARCH * solve <= SHORT_SEARCHES
    count = MORE_SEARCHES if is_quick else NUM_SEARCHES
    middle = posterior.coordinate_mean()
    ends = find_modes(density, middle, count, jr.key(seed))
    below = float(linearize_at(density, middle).cost) - float(ends[0].cost)
    if not below <= NEGLIGIBLE:
        return Inadequacy(Note("higher_mode", log_ratio=below), higher_mode=ends[0].coordinates)
    high = [end for end in ends if float(end.cost) < float(ends[0].cost) + NEGLIGIBLE]
    if len(high) == 1:
        return None
    return Inadequacy(Note("separate_modes", count=len(high)), is_multimodal=True)


def fit(
    problem: InverseProblem,
    method: AbstractMethod | AbstractEngine | Choice | MethodName | str = AUTO,
    *,
    density: AbstractDensityKind | DensityName | str | None = None,
    seed: int = 0,
    progress: bool = True,
    check: bool | None = None,
    checkpoint: AbstractCheckpoint = NO_CHECKPOINT,
    time_limit: float | None = None,
    devices: Wanted | None = None,
    mesh_error: MeshErrorUse | str = "off",
) -> Posterior:
    """The posterior by a method, such as `rz.MCMC(num_chains=4)`, or by those that suit.

    `density` is what the method works on: the posterior by exact solves unless said otherwise, as
    by `rz.Surrogate()`. Names stand for both with default settings; with `"auto"`, the posterior of
    a cheap method is checked, and others follow where it will not do: a note says which and why.
    A q is checked by importance sampling with exact solves afterwards, a thousand of them, or fewer
    where each takes long, and the check says so; where even the fewest would take more than some
    minutes a note says that there is none. `check` asks for it there too, or leaves it out
    everywhere. `progress` draws bars on the error stream. With a `checkpoint` a fit that was
    stopped goes on from the last one that was written, to the same numbers. `time_limit` is in
    seconds, with compilation and checks: when they are over, the fit ends with what it has, and a
    note says so, or with an `OutOfTimeError` where that is no posterior yet. `devices` share draws,
    chains, directions and batches: a number of JAX's devices, `"all"`, or a sequence of them; the
    numbers are the same with any.
    The error of mesh and steps is looked at with `mesh_error="report"`, by a finer solve at the
    posterior mean; with `"correct"`, where it is notable, it is added to what is predicted, the fit
    goes on from there with that, and states that are shown have it, too.
    What a reader must know is in the posterior's notes, and warned of.
    """
    if not isinstance(problem, InverseProblem):
        raise RieszError(f"found a {type(problem).__name__}: give rz.inverse_problem(...).")
    check_time(time_limit)
    if mesh_error not in get_args(MeshErrorUse):
        raise RieszError(f"mesh_error is {mesh_error!r}: give {any_of(get_args(MeshErrorUse))}.")
    shared = devices_of(devices)
    check_processes(shared, time_limit)
    deadline = Deadline.after(time_limit)
    how = RunSettings(seed, progress, check, checkpoint, deadline, shared, mesh_error)
    choice = method if isinstance(method, Choice) else choice_of(problem, method, density)
    choice.engine.check(problem)
    checkpoint.begin(problem, choice.engine.name, seed, choice.engine.settings())
    posterior, steps = escalate(problem, choice, how)
    if mesh_error != "off" and posterior.mesh_shift is None:
        posterior = with_mesh_shift(posterior, how)
    # Gradients do not see these: they lead every engine, so that each must be told.
    if lost := without_derivative(problem):
        posterior = with_notes(posterior, Note("no_derivative", names=lost))
    shift = posterior.mesh_shift
    if shift is not None and not shift.is_corrected and problem.time is not None:
        # of all times only the largest: a map of the error needs no more
        shift = replace(shift, states=np.abs(shift.states).max(axis=0, keepdims=True))
        posterior = replace(posterior, mesh_shift=shift)
    told = () if shift is None else (shift.note(),)
    bad = (note for note in told if note.severity is Severity.WARNING)
    warn_of((*posterior.notes, *bad), posterior.engine)
    return with_notes(posterior, *steps, *note_on_first_order(problem), *told)


def note_on_first_order(problem: InverseProblem) -> tuple[Note, ...]:
    """Steps of Euler's as long as what drives the equation is held err all alike."""
    if problem.record.scheme != EULER:
        return ()
    parts = jax.tree.leaves(problem.forward, is_leaf=lambda part: isinstance(part, Series))
    held = [part.times for part in parts if isinstance(part, Series) and part.kind == HELD]
    periods = [float(np.median(np.diff(part))) for part in held if len(part) > 1]
    step = float(problem.in_time.axis.steps.max())
    if step < min(periods, default=np.inf) / 2:
        return ()
    return (Note("first_order", step=step, period=min(periods)),)


def choice_of(
    problem: InverseProblem,
    method: AbstractMethod | AbstractEngine | str,
    density: AbstractDensityKind | str | None = None,
) -> Choice:
    if method != AUTO:
        return Choice(engine_of(method, density), ASKED_FOR)
    if density is not None:
        raise RieszError("auto chooses the density, too: name a method, or leave density out.")
    return choose_engine(problem)


def check_time(time_limit: float | None) -> None:
    if time_limit is not None and not 0 < time_limit < math.inf:
        raise RieszError(f"time_limit is {time_limit}: give seconds, a positive number.")


def check_processes(devices: Devices | None, time_limit: float | None) -> None:
    if time_limit is not None and devices is not None and devices.num_processes > 1:
        raise RieszError(
            "the clocks of several processes do not agree on when the time is over: leave "
            "time_limit out, or set less to do."
        )


def escalate(
    problem: InverseProblem, choice: Choice, how: RunSettings
) -> tuple[Posterior, tuple[Note, ...]]:
    """The posterior of the first engine that will do, or else the last one; and what was done.

    Each engine starts from what the one before it has found. One that fails is passed over, but
    for lack of time, and one that ended on a lower mode starts once more from the higher one.
    """
    if not choice.then:
        return correct(run_checked(problem, choice.engine, how), choice.engine, how), ()
    best, failed, inadequacy, start, is_moved = None, None, None, None, False
    stated, before = problem, None  # without what the mesh misses, and a posterior with it
    notes = [Note("auto_started", engine=choice.engine.name, reason=choice.why)]
    waiting = [choice.engine, *choice.then]
    while waiting:
        engine = waiting.pop(0)
        if inadequacy is not None and inadequacy.is_multimodal and engine.is_normal:
            continue
        if how.deadline.is_over() and best is not None:
            notes.append(Note("time_before_engine", engine=engine.name))
            break
        is_long = best is not None and not engine.is_timed
        if is_long and how.deadline.is_over(engine_seconds(engine, problem)):
            notes.append(Note("engine_left_out", engine=engine.name))
            continue
        own = engine if start is None else engine.with_start(start)
        try:
            posterior = run_checked(problem, own, how)
        except RieszError as error:
            failed, inadequacy = error, Inadequacy(Note("engine_failed", error=str(error)))
        else:
            best = start = before = correct(posterior, engine, how, before)
            problem = best.problem
            inadequacy = try_inadequacy(best, how)
            if inadequacy is not None and inadequacy.higher_mode is not None and not is_moved:
                waiting.insert(0, engine)
                start, is_moved = inadequacy.higher_mode, True
                problem, before = stated, None
                how = how._replace(checkpoint=SecondRunCheckpoint(how.checkpoint))
        if inadequacy is None:
            notes.append(Note("engine_adequate", engine=engine.name))
            notes = [note.with_severity(Severity.INFO) for note in notes]
            break
        notes.append(Note("engine_inadequate", engine=engine.name, reason=inadequacy.why))
        if isinstance(failed, OutOfTimeError):  # what follows takes longer, to compile alone
            break
    if best is None:
        assert failed is not None
        raise failed
    return best, tuple(notes)


def try_inadequacy(posterior: Posterior, how: RunSettings) -> Inadequacy | None:
    """What is missing; a look that fails must not cost the posterior."""
    try:
        with how.deadline.enforce("before anybody looked for other peaks"):
            return find_inadequacy(posterior, how.seed)
    except (RieszError, *FAILURES) as error:
        return Inadequacy(Note("adequacy_unknown", error=error_sentence(error)))
