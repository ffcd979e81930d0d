"""How strongly the equation is held during a training, in units of the noise.

`epsilon_rel` says how far errors of the equation may move the state at the sensors, relative to the
noise there. Large values let a surrogate follow the data first and the equation later (annealing).
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

import equinox as eqx
import numpy as np
import scipy.special
from jaxtyping import Float
from pydantic import Field, PlainValidator

from riesz.errors import RieszError

LEARNED = "learned"

LEAST, MOST = 0.05, 100.0
"""Where a learned `epsilon_rel` is looked for: below it the equation is as good as exact."""

GRID = 64
"""Values between, an eighth apart: the data seldom tell the scale of an error that closely."""

TENFOLD = 0.9
"""How sure one is, before the data are seen, that a learned value is not ten times off."""


class Scales(NamedTuple):
    """Values of `epsilon_rel`, and logarithms of their weights before the data are seen."""

    values: Float[np.ndarray, " scale"]
    log_weights: Float[np.ndarray, " scale"]


class AbstractSchedule(eqx.Module):
    """Values of `epsilon_rel` over a training; the last one gives the posterior its meaning."""

    @abstractmethod
    def path(self, num_steps: int) -> Float[np.ndarray, " step"]:
        """One value a step, before the last part of the training, which is all at the end value."""

    @property
    @abstractmethod
    def last(self) -> float:
        """The value at the end; where it is learned, the first guess."""

    def scales(self) -> Scales:
        """What it is in the posterior."""
        return Scales(np.array([self.last]), np.zeros(1))


class Fixed(AbstractSchedule):
    """One value throughout."""

    epsilon_rel: float = eqx.field(static=True)

    def __check_init__(self):
        check_epsilon(self.epsilon_rel)

    def path(self, num_steps: int) -> Float[np.ndarray, " step"]:
        return np.full(num_steps, self.epsilon_rel)

    @property
    def last(self) -> float:
        return self.epsilon_rel


class Annealed(AbstractSchedule):
    """Geometrically from a loose start to the end value, once or in several cycles.

    Each cycle starts anew from the loose value and rests at the end value for its last third, so
    that a surrogate caught in a poor fit can leave it.
    """

    epsilon_rel: float = eqx.field(static=True)
    start: float = eqx.field(static=True, default=1.0)
    cycles: int = eqx.field(static=True, default=1)

    def __check_init__(self):
        check_epsilon(self.epsilon_rel)
        if self.start < self.epsilon_rel:
            raise RieszError(
                f"annealing from {self.start} to {self.epsilon_rel} would loosen the equation: "
                "give a start above the end value, or use Fixed."
            )
        if self.cycles < 1:
            raise RieszError(f"cycles is {self.cycles}: anneal at least once.")

    def path(self, num_steps: int) -> Float[np.ndarray, " step"]:
        through = np.arange(num_steps) * self.cycles / max(num_steps, 1) % 1.0
        done = np.minimum(1.5 * through, 1.0)
        return self.start ** (1 - done) * self.epsilon_rel**done

    @property
    def last(self) -> float:
        return self.epsilon_rel


class Learned(AbstractSchedule):
    """Found from the data, with a log-normal prior about `start`, tenfold to both sides.

    Training takes the value that makes the data most likely, refreshed after each block. The
    posterior is averaged over all values, as likely as the data leave them.
    """

    start: float = eqx.field(static=True, default=1.0)

    def __check_init__(self):
        check_epsilon(self.start)

    def path(self, num_steps: int) -> Float[np.ndarray, " step"]:
        return np.full(num_steps, self.start)

    @property
    def last(self) -> float:
        return self.start

    def scales(self) -> Scales:
        logs = np.linspace(np.log(LEAST), np.log(MOST), GRID)
        sd = np.log(10) / scipy.special.ndtri((1 + TENFOLD) / 2)
        weights = -0.5 * ((logs - np.log(self.start)) / sd) ** 2
        return Scales(np.exp(logs), scipy.special.log_softmax(weights))


def check_epsilon(epsilon_rel: float) -> None:
    if not 0 < epsilon_rel < np.inf:
        raise RieszError(
            f"epsilon_rel is {epsilon_rel}: it must be positive and finite. The limit of zero is "
            "the engine emulate."
        )


def as_schedule(value: Any) -> AbstractSchedule:
    """A number stands for itself throughout; problem files have words for the others."""
    if isinstance(value, AbstractSchedule):
        return value
    if value == LEARNED:
        return Learned()
    if isinstance(value, Mapping) and set(value) <= {"last", "start", "cycles"} and "last" in value:
        others = {name: number for name, number in value.items() if name != "last"}
        return Annealed(float(value["last"]), **others)
    if isinstance(value, bool | str | Mapping):
        raise RieszError(f"epsilon_rel is {value!r}.")
    return Fixed(float(value))


Epsilon = Annotated[
    float | AbstractSchedule | Mapping[str, float] | Literal["learned"],
    PlainValidator(as_schedule),
    Field(
        description="a positive number, 'learned', or last, start and cycles of an annealing; in "
        "Python rz.inference.Annealed or rz.inference.Learned too"
    ),
]
"""How wrong the equation may be."""
