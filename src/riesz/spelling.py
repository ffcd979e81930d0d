"""Lists and hints for messages about names that are not known."""

from collections.abc import Iterable
from difflib import get_close_matches


def listed(names: Iterable[str]) -> str:
    """All names, as in "one, two or three"."""
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint at the spelling that may have been meant, or nothing."""
    spelt = {other.casefold(): other for other in known}
    close = get_close_matches(name.casefold(), list(spelt), n=1)
    return f"did you mean {spelt[close[0]]!r}? " if close else ""
