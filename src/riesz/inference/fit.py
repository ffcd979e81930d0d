"""One door to all engines, the choice among them, and a check of what comes out.

`auto` takes the exact engine where it is cheap: few unknowns on a mesh whose sparse solve takes
milliseconds. There NUTS beats everything that has to be trained first; beyond, `emulate` does.
"""

import dataclasses
import inspect
import math
import warnings
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any, get_args

import jax.numpy as jnp

from riesz.diagnose.importance import with_importance_check
from riesz.diagnose.surrogate_error import with_surrogate_error
from riesz.engines.checkpoint import NO_CHECKPOINT, AbstractCheckpoint
from riesz.engines.conditional.engine import ConditionalSettings, Over, conditional
from riesz.engines.emulate.engine import emulate
from riesz.engines.emulate.settings import EmulateSettings
from riesz.engines.emulate.states import SurrogateStates
from riesz.engines.laplace.engine import LaplaceSettings, laplace
from riesz.engines.nuts.engine import nuts
from riesz.engines.relax.engine import RelaxSettings, relax
from riesz.engines.relax.schedule import AbstractSchedule
from riesz.engines.relax.setup import check_problem
from riesz.errors import RieszError
from riesz.fem.solve import require_float64
from riesz.posterior.family import AbstractFamily
from riesz.posterior.posterior import Posterior
from riesz.problem.linearity import linear_parts, prescribed_values
from riesz.problem.problem import InverseProblem
from riesz.spelling import listed, nearest

AUTO, EPSILON = "auto", "epsilon_rel"

FEW_UNKNOWNS = 10
"""Coordinates up to which NUTS needs few gradients for an independent draw."""

SMALL_MESH = 65**2
"""Nodes up to which, measured on the transport problem, exact solves are the faster way."""


CHECKED_MESH = {1: 129**2, 2: 129**2, 3: 16**3}
"""Nodes, by dimension, up to which a thousand exact solves follow a fit to check it, half a minute
there. In three dimensions factors fill up far sooner."""


@dataclasses.dataclass(frozen=True)
class Choice:
    """An engine, and why it was taken."""

    engine: str
    why: str


@dataclasses.dataclass(frozen=True)
class Job:
    """What every engine is given."""

    problem: InverseProblem
    seed: int
    quiet: bool
    settings: Mapping[str, Any]
    checkpoint: AbstractCheckpoint


@dataclasses.dataclass(frozen=True)
class Engine:
    """How an engine is run, and what may be set: names and their defaults."""

    run: Callable[[Job], Posterior]
    defaults: Mapping[str, Any]


def run_emulate(job: Job) -> Posterior:
    return emulate(
        job.problem,
        seed=job.seed,
        settings=EmulateSettings(**job.settings),
        quiet=job.quiet,
        checkpoint=job.checkpoint,
    )


def run_nuts(job: Job) -> Posterior:
    return nuts(
        job.problem,
        seed=job.seed,
        progress=not job.quiet,
        checkpoint=job.checkpoint,
        **job.settings,
    )


def run_relax(job: Job) -> Posterior:
    own = {name: value for name, value in job.settings.items() if name != EPSILON}
    return relax(
        job.problem,
        epsilon_rel=job.settings.get(EPSILON, RELAX_DEFAULTS[EPSILON]),
        seed=job.seed,
        settings=RelaxSettings(**own),
        quiet=job.quiet,
        checkpoint=job.checkpoint,
    )


def run_laplace(job: Job) -> Posterior:
    return laplace(
        job.problem,
        seed=job.seed,
        settings=LaplaceSettings(**job.settings),
        progress=not job.quiet,
        checkpoint=job.checkpoint,
    )


def run_conditional(job: Job) -> Posterior:
    return conditional(
        job.problem,
        seed=job.seed,
        settings=ConditionalSettings(**job.settings),
        progress=not job.quiet,
        checkpoint=job.checkpoint,
    )


def fields_of(settings: type) -> dict[str, Any]:
    return {field.name: field.default for field in dataclasses.fields(settings)}


def defaults_of(function: Callable[..., Any], *names: str) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters
    return {name: parameters[name].default for name in names}


RELAX_DEFAULTS = fields_of(RelaxSettings) | defaults_of(relax, EPSILON)

ENGINES = {
    "emulate": Engine(run_emulate, fields_of(EmulateSettings)),
    "relax": Engine(run_relax, RELAX_DEFAULTS),
    "laplace": Engine(run_laplace, fields_of(LaplaceSettings)),
    "conditional": Engine(run_conditional, fields_of(ConditionalSettings)),
    "nuts": Engine(
        run_nuts,
        defaults_of(
            nuts,
            *("num_warmup", "num_samples", "num_chains"),
            *("target_accept", "dense_mass", "max_tree_depth"),
        ),
    ),
}

MAY_BE_ZERO = ("prior_steps", "num_bends", "polishing_rounds", "num_warmup", "gauss_newton_steps")


def fit(
    problem: InverseProblem,
    engine: str = AUTO,
    *,
    seed: int = 0,
    quiet: bool = False,
    check: bool | None = None,
    checkpoint: AbstractCheckpoint = NO_CHECKPOINT,
    **settings: Any,
) -> Posterior:
    """The posterior by an engine, of those in `ENGINES`, or by the one that suits (auto).

    `settings` are the engine's own, by name; with `"auto"` there are none to give, and a note of
    the posterior says which engine was taken and why. A q is checked by importance sampling with
    exact solves afterwards: always or never as `check` says, and without it on meshes where that
    takes no more than about half a minute.
    With a `checkpoint` a fit that was stopped goes on from the last one that was written, to the
    same numbers.
    """
    if engine == AUTO and settings:
        raise RieszError(
            f"settings were given ({', '.join(settings)}) without an engine: name the one whose "
            f"settings they are, {listed(ENGINES)}."
        )
    if not isinstance(problem, InverseProblem):
        raise RieszError(f"found a {type(problem).__name__}: give rz.inverse_problem(...).")
    choice = choose_engine(problem) if engine == AUTO else Choice(engine, "it was asked for")
    check_settings(choice.engine, settings)
    check_suits(choice.engine, problem)
    own = ENGINES[choice.engine]
    checkpoint.begin(problem, choice.engine, seed, {**own.defaults, **settings})
    try:
        posterior = own.run(Job(problem, seed, quiet, settings, checkpoint))
    except KeyboardInterrupt:
        checkpoint.flush()
        raise
    checkpoint.flush()
    posterior = checked(posterior, check, seed)
    if engine != AUTO:
        return posterior
    note = f"auto took the engine {choice.engine}: {choice.why}"
    return dataclasses.replace(posterior, notes=(*posterior.notes, note))


def checked(posterior: Posterior, check: bool | None, seed: int) -> Posterior:
    """With an importance check, where one is wanted and there is a density to weigh.

    A check that fails is told: the fit before it may have taken hours.
    """
    mesh = posterior.problem.forward.space.mesh
    wanted = mesh.num_nodes <= CHECKED_MESH[mesh.dim] if check is None else check
    if not (wanted and isinstance(posterior.distribution, AbstractFamily)):
        return posterior
    if isinstance(posterior.states, SurrogateStates):
        posterior = tried(with_surrogate_error, posterior, seed, "the surrogate")
    return tried(with_importance_check, posterior, seed, "q")


def tried(check: Callable[..., Posterior], posterior: Posterior, seed: int, what: str) -> Posterior:
    """The posterior after a check, or with a note of why there is none."""
    try:
        return check(posterior, seed=seed)
    except RieszError as error:
        note = f"{what} could not be checked: {error}"
        warnings.warn(f"{posterior.engine}: {note}", stacklevel=4)
        return dataclasses.replace(posterior, notes=(*posterior.notes, note))


def choose_engine(problem: InverseProblem) -> Choice:
    """The engine for a problem: exact where that is cheap or nothing else applies."""
    size = problem.num_coordinates
    unknowns = f"{size} unknown number{'' if size == 1 else 's'}"
    if problem.forward.dtype != jnp.dtype(jnp.float64):
        return Choice("emulate", "exact solves need float64, and the problem is in float32")
    left = num_others(problem) if size > FEW_UNKNOWNS else size
    if size > FEW_UNKNOWNS and left == 0:
        return Choice("conditional", f"the state is linear in all of {unknowns}: nothing is left")
    if problem.hierarchy is None or len(problem.hierarchy.meshes) == 1:
        single = "a single mesh has no coarser levels, which emulate trains on"
        if not left <= FEW_UNKNOWNS < size:
            return Choice("nuts", single)
        why = f"{single}, and all but {left} of {unknowns} can be integrated out"
        return Choice("conditional", why)
    return on_nested_meshes(problem, unknowns)


def on_nested_meshes(problem: InverseProblem, unknowns: str) -> Choice:
    """Between exact solves and what is trained on mini-patches."""
    size, nodes = problem.num_coordinates, problem.forward.space.mesh.num_nodes
    try:
        prescribed_values(problem)
    except RieszError:
        return Choice("nuts", "the Dirichlet values depend on unknowns in a way emulate cannot")
    if size <= FEW_UNKNOWNS and nodes <= SMALL_MESH:
        return Choice(
            "nuts", f"with {unknowns} and {nodes} nodes, exact solves are cheap and sampling sure"
        )
    reasons = [f"{unknowns}, more than {FEW_UNKNOWNS}"] if size > FEW_UNKNOWNS else []
    reasons += [f"{nodes} nodes, more than {SMALL_MESH}"] if nodes > SMALL_MESH else []
    return Choice("emulate", f"with {' and '.join(reasons)}, sampling by exact solves is slow")


def num_others(problem: InverseProblem) -> int:
    """Unknowns that cannot be integrated out."""
    try:
        return len(linear_parts(problem).others)
    except RieszError:
        return problem.num_coordinates


def check_suits(engine: str, problem: InverseProblem) -> None:
    """Raise where an engine cannot do a problem, before any work is done for it."""
    if engine in ("nuts", "laplace", "conditional"):
        require_float64(problem.forward)
        if engine == "conditional":
            linear_parts(problem)
    elif problem.hierarchy is None:
        raise RieszError(
            f"{engine} works on mini-patches of a hierarchy of meshes, and the problem has only "
            "one: build it on rz.hierarchy(coarse_mesh, levels), set levels to 2 or more in a "
            "problem file, or use nuts."
        )
    else:
        prescribed_values(problem)
    if engine == "relax":
        check_problem(problem)


def check_engine(name: str) -> None:
    """Raise where there is no such engine."""
    if not isinstance(name, str):
        raise RieszError(f"the engine is {name!r}: give its name, {listed((AUTO, *ENGINES))}.")
    if name not in (AUTO, *ENGINES):
        known = (AUTO, *ENGINES)
        raise RieszError(
            f"there is no engine {name!r}: {nearest(name, known)}It may be {listed(known)}."
        )


def check_settings(engine: str, settings: Mapping[str, Any]) -> None:
    """Raise where an engine has no such setting, or it is of the wrong kind."""
    check_engine(engine)
    defaults = ENGINES[engine].defaults
    for name, value in settings.items():
        if name not in defaults:
            raise RieszError(
                f"the engine {engine} has no setting {name!r}: {nearest(name, defaults)}It has "
                f"{listed(defaults)}."
            )
        wanted = expected(name, defaults[name])
        if not suits(name, value, defaults[name]):
            raise RieszError(f"the setting {name} of {engine} is {value!r}: give {wanted}.")


def expected(name: str, default: Any) -> str:
    if isinstance(default, bool):
        return "true or false"
    if isinstance(default, str):
        return listed(get_args(Over))
    if isinstance(default, float):
        return "a positive number" if name == EPSILON else "a number between 0 and 1"
    return f"a whole number of at least {0 if name in MAY_BE_ZERO else 1}"


def suits(name: str, value: Any, default: Any) -> bool:
    """Whether a value is of the kind of the default; where that is None, a whole number is."""
    if name == EPSILON and isinstance(value, AbstractSchedule):
        return True
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(default, bool) and isinstance(value, bool)
    if isinstance(default, str):
        return value in get_args(Over)
    if isinstance(default, float):
        limit = math.inf if name == EPSILON else 1
        return isinstance(value, Real) and 0 < float(value) < limit
    return isinstance(value, Integral) and int(value) >= (0 if name in MAY_BE_ZERO else 1)
