"""Lists and hints for messages about names that are not known."""

from collections.abc import Iterable
from difflib import get_close_matches


def listed(names: Iterable[str]) -> str:
    """All names, as in "one, two or three"."""
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint at the spelling that may have been meant, or nothing."""
    close = get_close_matches(name, list(known), n=1)
    return f"did you mean {close[0]!r}? " if close else ""
