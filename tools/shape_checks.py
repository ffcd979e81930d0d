"""Shapes and types are checked at run time where tests begin to use a function.

By jaxtyping and beartype, which write and compile a checking function for each function there is:
here when it is first called, as many never are. A function inside another one is made anew with
every call of that; it is checked the first times.
"""

import functools
from collections import Counter
from collections.abc import Callable
from typing import Any

from beartype import beartype

OFTEN_ENOUGH = 8
"""Of a function that is made anew; jaxtyping asks twice for each, with its result and without."""

made: Counter[tuple[str, str]] = Counter()


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with what it is given and returns checked."""
    place = function.__module__, function.__qualname__
    made[place] += 1
    if "<locals>" in function.__qualname__ and made[place] > OFTEN_ENOUGH:
        return function
    by_beartype = None

    @functools.wraps(function)
    def when_called(*args: Any, **kwargs: Any) -> Any:
        nonlocal by_beartype
        if by_beartype is None:
            by_beartype = beartype(function)
        return by_beartype(*args, **kwargs)

    return when_called
