"""What a method is: an immutable value that holds its settings, and leads from a density to a
distribution of its coordinates.

A method knows nothing of equations: a density is a function of standard normal coordinates, with
derivatives. Which density of a problem it is, and what belongs to its states, is the business of
`riesz.density`.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from riesz.deadline import Deadline
from riesz.devices import Devices
from riesz.errors import RieszError
from riesz.method.checkpoint import NO_CHECKPOINT, AbstractCheckpoint
from riesz.method.settings import Settings, Start
from riesz.notes import Note
from riesz.posterior.density import AbstractDensity
from riesz.posterior.family import AbstractGaussian, EmpiricalDraws
from riesz.posterior.posterior import Posterior
from riesz.problem.problem import Coordinates

GRADIENT = 3.0
"""Values that a log-density with its gradient costs."""

Distribution = AbstractGaussian | EmpiricalDraws

InverseMass = Float[Array, "coordinate coordinate"] | Float[Array, " coordinate"]
"""All of a matrix, or its diagonal."""


class Work(NamedTuple):
    """How a fit is run: its seed, bars or not, kept where, until when, and on which devices."""

    seed: int = 0
    progress: bool = False
    checkpoint: AbstractCheckpoint = NO_CHECKPOINT
    deadline: Deadline = Deadline()
    devices: Devices | None = None  # where there are several


class TargetDensity(NamedTuple):
    """What a method works on: a density, and what is known of where its mass lies."""

    density: AbstractDensity
    names: tuple[str, ...]  # of its coordinates
    near: Distribution | Coordinates | None = None
    chains: Any = None  # where short chains ended to which the density was adapted

    @property
    def size(self) -> int:
        return len(self.names)


class Inferred(NamedTuple):
    """The distribution that a method ends with, how it went, and what a reader must know."""

    distribution: Distribution
    history: dict[str, Array]
    notes: tuple[Note, ...] = ()


class AbstractMethod(Settings, ABC):
    """A way from a density to a distribution, with its settings."""

    compiling: ClassVar[float] = 60.0  # seconds, roughly, in which nothing is computed yet
    is_normal: ClassVar[bool] = False  # its q has one mode
    is_timed: ClassVar[bool] = False  # ends with what it has when its time is over

    start: Start = None

    def num_directions(self, size: int, num_data: int) -> int:
        """Directions that are looked at together, for which solvers have one matrix."""
        return 1

    @abstractmethod
    def cost(self, value: float, size: int, num_data: int) -> float:
        """Seconds of computing, roughly, where a value of the density takes so many."""

    @abstractmethod
    def infer(self, target: TargetDensity, work: Work) -> Inferred:
        """The distribution of a density's coordinates."""


def resolve_start(
    target: TargetDensity, start: Any, work: Work
) -> Distribution | Coordinates | None:
    """Where a method begins: coordinates or a distribution, such as another method's."""
    if isinstance(start, AbstractMethod):
        alone = Work(work.seed, work.progress, deadline=work.deadline, devices=work.devices)
        return start.infer(target, alone).distribution
    if start is None:
        return target.near
    result = start.distribution if isinstance(start, Posterior) else jnp.asarray(start)
    if (shape := mean_of(result).shape) != (target.size,):
        raise RieszError(f"start has shape {shape}, but the problem has {target.size} coordinates.")
    return result


def mean_of(start: Distribution | Coordinates) -> Coordinates:
    return start.mean if isinstance(start, Distribution) else start
