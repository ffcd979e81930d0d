"""What a fit is made by: a method and a density, or one training for many data sets."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from riesz.deadline import Deadline
from riesz.density.base import AbstractDensityKind
from riesz.density.exact import Exact
from riesz.devices import Wanted, devices_of
from riesz.errors import RieszError
from riesz.method.base import AbstractMethod, Work
from riesz.method.checkpoint import NO_CHECKPOINT, AbstractCheckpoint
from riesz.posterior.posterior import Posterior, engine_label
from riesz.problem.problem import InverseProblem


class AbstractEngine(ABC):
    """A way from an inverse problem to a posterior, with its settings."""

    # Class variables of some, and properties of others.
    name: Any
    compiling: Any  # seconds, roughly, in which nothing is computed yet
    is_normal: Any  # whether its q has one mode
    is_timed: Any  # whether it ends with what it has when its time is over

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """All settings by name, as they identify a fit."""

    @abstractmethod
    def check(self, problem: InverseProblem) -> None:
        """Raise, before any work is done, where the problem cannot be done."""

    @abstractmethod
    def cost(self, solve: float, problem: InverseProblem) -> float:
        """Seconds of computing, roughly, where an exact solve takes `solve` of them."""

    def with_start(self, start: Any) -> "AbstractEngine":
        """Begin elsewhere, at coordinates or at a posterior, where that can be."""
        return self

    @abstractmethod
    def posterior(self, problem: InverseProblem, work: Work) -> Posterior:
        """The posterior, whose notes say what a reader must know."""

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


EXACTLY = Exact()


@dataclass(frozen=True)
class Engine(AbstractEngine):
    """A method on a density."""

    method: AbstractMethod
    density: AbstractDensityKind = EXACTLY

    @property
    def name(self) -> str:
        return engine_label(self.method.name, self.density.name)

    @property
    def compiling(self) -> float:
        return self.method.compiling + self.density.compiling

    @property
    def is_normal(self) -> bool:
        return self.method.is_normal

    @property
    def is_timed(self) -> bool:
        return self.method.is_timed

    def settings(self) -> dict[str, Any]:
        return {
            f"{part.name}.{name}": getattr(part, name)
            for part in (self.method, self.density)
            for name in type(part).model_fields
        }

    def with_settings(self, **settings: Any) -> "Engine":
        """The same with other settings, each of the method or of the density."""
        parts = {}
        for part in (self.method, self.density):
            own = {name: settings[name] for name in settings if name in type(part).model_fields}
            parts[part.name] = part.with_settings(**own)
            settings = {name: value for name, value in settings.items() if name not in own}
        if settings:
            raise RieszError(f"neither part of {self.name} has the settings {', '.join(settings)}.")
        return Engine(*parts.values())

    def with_start(self, start: Any) -> "Engine":
        return self.with_settings(start=start)

    def check(self, problem: InverseProblem) -> None:
        self.density.check_method(self.method)
        self.density.check(problem)

    def cost(self, solve: float, problem: InverseProblem) -> float:
        return self.density.cost(solve, problem, self.method)

    def posterior(self, problem: InverseProblem, work: Work) -> Posterior:
        self.check(problem)
        return self.density.posterior(problem, self.method, work)
