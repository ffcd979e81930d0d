"""What Riesz raises when its input is wrong, or an engine gives up.

Every message says what was found, where, and what to do. The command line turns each of these
into one line and exit status 2, that of an engine into 1, so nothing else may derive from
`RieszError`. Messages about names that are not known list those that are, and hint at the nearest.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path

RAISED = re.compile(r"^[\w.]*Error: (.+)", re.MULTILINE)
"""The line of a traceback that says what is wrong."""


class RieszError(ValueError):
    """The input is wrong; the message says how to mend it."""


class MeshError(RieszError):
    """A mesh, an outline or a tag does not describe a domain."""


class FormError(RieszError):
    """An equation, a coefficient or a boundary condition is not well posed."""


class SolveError(RieszError):
    """The discrete equations have no solution that the solver could find."""


class EngineError(RieszError):
    """An engine failed in the middle of a fit that it had accepted."""


class OutOfTimeError(EngineError):
    """The time that an engine was given is over, and it has nothing to show."""


class FileFormatError(RieszError):
    """A file is not what its name says, or is damaged."""


@contextmanager
def error_context(what: Path | str) -> Iterator[None]:
    """What is raised inside begins with what it is about, such as a file."""
    try:
        yield
    except RieszError as error:
        raise type(error)(f"{what}: {error}") from None


class LostProcessError(RuntimeError):
    """One of several processes has ended before its time: no engine and no check can go on.

    Not a `RieszError`, which a check that fails or the next engine would make up for.
    """


def error_sentence(error: BaseException) -> str:
    """What an error says, as a sentence; compiled code puts pages around it."""
    text = str(error).strip() or type(error).__name__
    raised = RAISED.search(text)
    notes = raised[1] if raised else text.splitlines()[0]
    return f"{notes.rstrip('. ')}."


def any_of(names: Iterable[str]) -> str:
    """All names, as in "one, two or three"."""
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint at the spelling that may have been meant, or nothing."""
    spelt = {other.casefold(): other for other in known}
    close = get_close_matches(name.casefold(), list(spelt), n=1)
    return f"did you mean {spelt[close[0]]!r}? " if close else ""
