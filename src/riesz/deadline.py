"""Until when work may go on: one clock for engines, checks and solves inside compiled programs.

A compiled program cannot be stopped from outside. Its sparse solves are by the host, though, which
looks at the clock before each of them: work that is out of time ends there, and not hours later.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import get_ident
from time import perf_counter

from riesz.errors import OutOfTimeError

OVER = "the time was over"

_watched: dict[int, list[float]] = {}
"""Moments at which work of each thread must end, and parts of it before."""


@dataclass(frozen=True)
class Deadline:
    """A moment of `time.perf_counter`; by default there is none."""

    at: float = math.inf

    @staticmethod
    def after(seconds: float | None) -> "Deadline":
        return Deadline() if seconds is None else Deadline(perf_counter() + seconds)

    def remaining(self) -> float:
        return self.at - perf_counter()

    def is_over(self, needed: float = 0.0) -> bool:
        """Whether fewer seconds are left than what comes next will take."""
        return self.remaining() < needed

    def sooner(self, share: float) -> "Deadline":
        """When this share of the time that is left will be over."""
        left = self.remaining()
        return self if math.isinf(left) else Deadline(self.at - (1 - share) * max(left, 0.0))

    @contextmanager
    def enforce(self, doing: str) -> Iterator[None]:
        """Work that must end by then; the error says what was being done."""
        own = _watched.setdefault(get_ident(), [])
        own.append(self.at)
        try:
            check_clock()
            yield
        except Exception as error:
            # JAX raises what a host's solve has raised as something else, with a long traceback.
            if KeyboardInterrupt.__name__ in str(error):
                raise KeyboardInterrupt from None
            is_told = isinstance(error, OutOfTimeError) and str(error) != OVER
            if is_told or OVER not in str(error):
                raise
            raise OutOfTimeError(f"{OVER} {doing}: allow more, or ask for less.") from None
        finally:
            own.pop()
            if not own:
                del _watched[get_ident()]


def check_clock(needed: float = 0.0) -> None:
    """Raise where work that is being done has no time left, or less than its next step needs.

    The host does not know whose solve it is: with several fits at once it is the last that counts.
    """
    last = max((min(own) for own in list(_watched.values()) if own), default=math.inf)
    if perf_counter() + needed > last:
        raise OutOfTimeError(OVER)
