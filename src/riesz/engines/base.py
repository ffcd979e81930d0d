"""What an engine is: an immutable value that holds its settings, and leads from a problem to a
posterior.

Settings are checked where a value is made, whether in Python or by a problem file: what an engine
does not have, or would not read, is refused. Each kind of setting says in words what it may be.
Engines that chains or searches start from are run first.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    TypeVar,
    get_args,
    get_origin,
)

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, ValidationError

from riesz.deadline import Deadline
from riesz.density.exact import ExactDensity
from riesz.devices import Devices, Wanted, devices_of
from riesz.engines.checkpoint import NO_CHECKPOINT, AbstractCheckpoint
from riesz.errors import RieszError, any_of, nearest
from riesz.fem.linear.linear_solve import (
    AbstractLinearSolver,
    Automatic,
    ConjugateGradients,
    Dense,
    SparseLU,
)
from riesz.fem.linear.multigrid.solver import Multigrid
from riesz.fem.root import require_float64
from riesz.penalty.gram import Gram
from riesz.posterior.family import EmpiricalDraws
from riesz.posterior.posterior import ExactStates, Posterior
from riesz.problem.problem import Coordinates, InverseProblem

Tree = TypeVar("Tree")
AnyArray = Array | np.ndarray

GRADIENT = 3.0
"""Solves that a log-density with its gradient costs."""

SOLVERS = {
    "auto": Automatic,
    "sparse-lu": SparseLU,
    "dense": Dense,
    "conjugate-gradients": ConjugateGradients,
}

Own = TypeVar("Own", bound="Settings")

InverseMass = Float[Array, "coordinate coordinate"] | Float[Array, " coordinate"]
"""All of a matrix, or its diagonal."""


class Work(NamedTuple):
    """How a fit is run: its seed, bars or not, kept where, until when, and on which devices."""

    seed: int = 0
    progress: bool = False
    checkpoint: AbstractCheckpoint = NO_CHECKPOINT
    deadline: Deadline = Deadline()
    devices: Devices | None = None  # where there are several


def as_number(value: Any) -> Any:
    """NumPy's numbers as Python's."""
    return value.item() if isinstance(value, np.generic) else value


def as_solver(value: Any) -> AbstractLinearSolver:
    if isinstance(value, AbstractLinearSolver):
        return value
    if isinstance(value, str) and value in SOLVERS:
        return SOLVERS[value]()
    raise ValueError(value)


def exact_density(problem: InverseProblem, linear_solver: Any, *, num_rhs: int = 1) -> ExactDensity:
    """By the solver that was asked for, or the one that suits so many right-hand sides."""
    solver = problem.default_solver(as_solver(linear_solver), num_rhs=num_rhs)
    return ExactDensity(problem, solver)


def states_by(solver: Any) -> ExactStates:
    """Exact states by a solver; the tables of multigrid are made again rather than kept."""
    own = as_solver(solver)
    return ExactStates(Automatic() if isinstance(own, Multigrid) else own)


def as_gram(value: Any) -> Gram | None:
    if value is None or isinstance(value, Gram):
        return value
    if isinstance(value, Mapping) and set(value) <= {"diffusivity", "reaction"}:
        numbers = {name: float(number) for name, number in value.items()}
        if all(0 <= number < np.inf for number in numbers.values()):
            return Gram(**numbers)
    raise ValueError(value)


def as_start(value: Any) -> Any:
    """Coordinates, a posterior, or the engine whose posterior is taken."""
    if value is None or isinstance(value, Posterior | AbstractEngine):
        return value
    numbers = np.asarray(value, dtype=float)
    if numbers.ndim != 1 or not np.isfinite(numbers).all():
        raise ValueError(value)
    return numbers


Count = Annotated[
    int,
    BeforeValidator(as_number),
    Field(strict=True, ge=1, description="a whole number of at least 1"),
]
CountOrZero = Annotated[
    int,
    BeforeValidator(as_number),
    Field(strict=True, ge=0, description="a whole number of at least 0"),
]
Share = Annotated[
    float,
    BeforeValidator(as_number),
    Field(strict=True, gt=0, lt=1, description="a number between 0 and 1"),
]
CountOrNone = Annotated[Count | None, Field(description="a whole number of at least 1, or nothing")]
ShareOrZero = Annotated[
    float,
    BeforeValidator(as_number),
    Field(strict=True, ge=0, lt=1, description="0, or a number below 1"),
]
Flag = Annotated[bool, BeforeValidator(as_number), Field(strict=True, description="true or false")]
Solver = Annotated[
    AbstractLinearSolver | Literal["auto", "sparse-lu", "dense", "conjugate-gradients"],
    PlainValidator(as_solver),
    Field(description=f"{any_of(SOLVERS)}, or in Python a linear solver"),
]
InnerProduct = Annotated[
    Gram | Mapping[str, float] | None,
    PlainValidator(as_gram),
    Field(
        description="diffusivity and reaction, numbers that are not negative, as in rz.penalty.Gram"
    ),
]
Start = Annotated[
    Any,
    PlainValidator(as_start),
    Field(
        description="a list of standard normal coordinates, or the engine whose posterior is "
        "taken: its name in a problem file, a value of it or a posterior in Python"
    ),
]


class Settings(BaseModel):
    """Settings by name, checked where they are given."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    name: ClassVar[str]

    if not TYPE_CHECKING:  # editors are to see the settings themselves

        def __init__(self, **settings: Any):
            known = type(self).model_fields
            for name in settings:
                if name not in known:
                    raise RieszError(
                        f"{self.name} has no setting {name!r}: {nearest(name, known)}It has "
                        f"{any_of(known)}."
                    )
            try:
                super().__init__(**settings)
            except ValidationError as error:
                setting = str(error.errors()[0]["loc"][0])
                raise RieszError(
                    f"the setting {setting} of {self.name} is {settings[setting]!r}: give "
                    f"{known[setting].description}."
                ) from None
            for name, why in self.inert().items():
                if name in self.model_fields_set:
                    raise RieszError(
                        f"the setting {name} of {self.name} would do nothing: {why}. Leave it out."
                    )

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """What `help` shows are the kinds of settings, without how they are checked."""
        super().__pydantic_init_subclass__(**kwargs)
        shown = inspect.signature(cls)
        bare = [
            one.replace(annotation=get_args(one.annotation)[0])
            if get_origin(one.annotation) is Annotated
            else one
            for one in shown.parameters.values()
        ]
        setattr(cls, "__signature__", shown.replace(parameters=bare))  # noqa: B010

    def with_settings(self: Own, **settings: Any) -> Own:
        """The same with other settings."""
        return type(self)(**{name: getattr(self, name) for name in self.model_fields_set}
                          | settings)  # fmt: skip

    def inert(self) -> dict[str, str]:
        """Settings that the others leave without effect, and why."""
        return {}


class AbstractEngine(Settings, ABC):
    """A way to a posterior, with its settings."""

    is_exact: ClassVar[bool]  # solves the equation on the whole mesh, which needs float64
    compiling: ClassVar[float]  # seconds, roughly, in which nothing is computed yet
    is_normal: ClassVar[bool] = False  # its q has one mode
    is_timed: ClassVar[bool] = False  # ends with what it has when its time is over
    takes_time: ClassVar[bool] = False  # equations in time

    def settings(self) -> dict[str, Any]:
        """All settings by name, as they identify a fit."""
        return {name: getattr(self, name) for name in type(self).model_fields}

    def check(self, problem: InverseProblem) -> None:
        """Raise, before any work is done, where the engine cannot do the problem."""
        if self.is_exact:
            require_float64(problem.forward)
        if problem.time is not None and not self.takes_time:
            raise RieszError(
                f"{self.name} takes steady states, and this equation is one in time: use "
                "conditional, laplace, variational, sample, nuts, emulate or relax."
            )

    @abstractmethod
    def cost(self, solve: float, problem: InverseProblem) -> float:
        """Seconds of computing, roughly, where an exact solve takes `solve` of them."""

    def run(
        self,
        problem: InverseProblem,
        *,
        seed: int = 0,
        progress: bool = False,
        checkpoint: AbstractCheckpoint = NO_CHECKPOINT,
        deadline: Deadline = Deadline(),  # noqa: B008 (immutable)
        devices: Wanted | None = None,
    ) -> Posterior:
        """The posterior; `progress` draws bars on the error stream.

        Engines end at the `deadline`: with what they have, and a note, or with an error that says
        what they lack. Those that have rows of work, draws or chains for instance, share it among
        `devices`.
        """
        own = devices_of(devices)
        with deadline.enforce(f"before {self.name} had a posterior"):
            return self.posterior(problem, Work(seed, progress, checkpoint, deadline, own))

    @abstractmethod
    def posterior(self, problem: InverseProblem, work: Work) -> Posterior:
        """The posterior, whose notes say what a reader must know."""


def require_plain_data(problem: InverseProblem, engine: str) -> None:
    """Raise where data are not a linear function of one state at nodes with noise added."""
    why = None
    if problem.forward.space.element.degree != 1:
        why = "takes states that are linear in each cell, and these are quadratic"
    elif problem.others:
        why = f"takes one experiment, and there are {len(problem.forwards)}"
    elif problem.linear is None:
        what = problem.observations.what.describe()
        why = f"takes observations that are linear in the state, and there are {what}"
    elif not problem.likelihood.is_additive:
        why = f"takes noise that is added to the state, and it is {problem.likelihood.describe()}"
    if why is not None:
        raise RieszError(f"{engine} {why}: use laplace or nuts.")


def resolve_start(problem: InverseProblem, start: Any, work: Work) -> Any:
    """Coordinates or a posterior: where an engine was given, its posterior."""
    if not isinstance(start, AbstractEngine):
        return start
    start.check(problem)
    return start.run(problem, seed=work.seed, progress=work.progress, devices=work.devices)


def start_of_chains(
    problem: InverseProblem, start: ArrayLike | Posterior | None, *, dense: bool
) -> tuple[Coordinates, InverseMass | None]:
    """Where chains start, and their inverse mass where it is known."""
    if not isinstance(start, Posterior):
        origin = jnp.zeros(problem.num_coordinates) if start is None else jnp.asarray(start)
        check_start_shape(problem, origin)
        return origin, None
    origin = start.coordinate_mean()
    check_start_shape(problem, origin)
    if not dense:
        return origin, start.distribution.variances()
    covariance = start.coordinate_covariance()
    if isinstance(start.distribution, EmpiricalDraws):
        covariance = shrink_correlations(covariance, start.distribution.num_draws)
    return origin, covariance


def search_start(problem: InverseProblem, start: Any, work: Work) -> Coordinates:
    """Where a search for the mode begins: of a posterior only the mean matters."""
    result = resolve_start(problem, start, work)
    mean = result.coordinate_mean() if isinstance(result, Posterior) else result
    return start_of_chains(problem, mean, dense=False)[0]


def shrink_correlations(covariance: Float[Array, "n n"], num_draws: int) -> Float[Array, "n n"]:
    """A covariance of few draws with its correlations made smaller.

    By the share that the unknowns have in unknowns and draws: of few draws most of them are chance,
    and directions in which none of the draws went would get no variance at all.
    """
    share = len(covariance) / (len(covariance) + num_draws)
    return (1 - share) * covariance + share * jnp.diag(jnp.diagonal(covariance))


def check_start_shape(problem: InverseProblem, start: Float[Array, "..."]) -> None:
    if start.shape != (problem.num_coordinates,):
        raise RieszError(
            f"start has shape {start.shape}, but the problem has {problem.num_coordinates} "
            "coordinates."
        )
