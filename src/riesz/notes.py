"""What a reader of a result should know: notes with a code, values and a severity.

Decisions are taken by code and severity; `riesz.wording` has the sentences.
"""

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from riesz.errors import FileFormatError
from riesz.wording import INFORMATION, TEXT, WARNINGS


class Severity(StrEnum):
    """A warning is a reason to doubt the result; information is none."""

    INFO = "info"
    WARNING = "warning"


WORDINGS = WARNINGS | INFORMATION
SEVERITIES = {code: Severity.INFO if code in INFORMATION else Severity.WARNING for code in WORDINGS}

NOT_PLACED = "maps will not say where on Earth they are"
"""In sentences that earlier versions wrote."""

NO_NUMBERS = {"nan", "inf", "-inf"}
"""Floats that JSON lacks, as strings."""


@dataclass(frozen=True, init=False)
class Note:
    """A note such as `Note("r_hat", value=1.2, limit=1.01, unknown="k")`; `str` gives its sentence.

    The severity is that of the code, or another. Values are numbers, strings, notes, or sequences
    of these.
    """

    code: str
    severity: Severity
    values: Mapping[str, Any]

    def __init__(self, code: str, severity: Severity | None = None, /, **values: Any):
        object.__setattr__(self, "code", code)
        object.__setattr__(self, "severity", severity or SEVERITIES[code])
        plain = {name: to_python(value) for name, value in values.items()}
        object.__setattr__(self, "values", plain)  # a plain one: it can be copied and pickled

    def __str__(self) -> str:
        words = WORDINGS[self.code]
        return words.format(**self.values) if isinstance(words, str) else words(**self.values)

    def __repr__(self) -> str:
        values = "".join(f", {name}={value!r}" for name, value in self.values.items())
        return f"Note({self.code!r}{values})"

    def __hash__(self) -> int:
        return hash((self.code, self.severity, frozenset(self.values.items())))

    def with_severity(self, severity: Severity) -> "Note":
        return Note(self.code, severity, **self.values)


class NoteWarning(UserWarning):
    """A note that is warned of, and what it is about."""

    def __init__(self, note: Note, about: str = ""):
        super().__init__(note, about)  # what a copy is made of
        self.note, self.about = note, about

    def __str__(self) -> str:
        return f"{self.about}: {self.note}" if self.about else str(self.note)


def text_note(words: object) -> Note:
    """What libraries say, and what was written before notes had codes."""
    return Note(TEXT, words=str(words))


def note_of_warning(message: Warning | str) -> Note:
    return message.note if isinstance(message, NoteWarning) else text_note(message)


def doubts(notes: Iterable[Note]) -> tuple[Note, ...]:
    """Those that are a reason to doubt the result."""
    return tuple(note for note in notes if note.severity is Severity.WARNING)


def warn_of(notes: Iterable[Note], about: str = "") -> None:
    """Warnings of these notes, at the line that called the caller."""
    for note in notes:
        warnings.warn(NoteWarning(note, about), stacklevel=3)


def to_python(value: Any) -> Any:
    """Numbers of NumPy and JAX as Python's own."""
    value = value.tolist() if hasattr(value, "tolist") else value
    return tuple(map(to_python, value)) if isinstance(value, list | tuple) else value


def to_json(value: Any) -> Any:
    """A note as `{"code", "severity", "values"}`, and what may be one of its values."""
    if isinstance(value, Note):
        values = {name: to_json(one) for name, one in value.values.items()}
        return {"code": value.code, "severity": value.severity.value, "values": values}
    if isinstance(value, list | tuple):
        return list(map(to_json, value))
    is_lacking = isinstance(value, float) and not math.isfinite(value)
    return str(value) if is_lacking else value


def read_notes(content: Any, where: object) -> tuple[Note, ...]:
    """Notes from JSON; earlier versions wrote sentences."""
    try:
        is_plain = all(isinstance(one, str) for one in content)
        notes = plain_notes(content) if is_plain else tuple(map(read_note, content))
        list(map(str, notes))  # also the values must be those of the code
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        raise FileFormatError(
            f"{where} is damaged: notes missing or wrong, or of a later riesz."
        ) from None
    return notes


def plain_notes(sentences: Sequence[str]) -> tuple[Note, ...]:
    """Of earlier versions. What `auto` did on its way to an adequate engine is no doubt, nor is a
    map without a place on Earth."""
    first = next((i for i, one in enumerate(sentences) if one.startswith("auto took ")), -1)
    last = max((i for i, one in enumerate(sentences) if one.endswith(" will do")), default=-1)
    harmless = [0 <= first <= i <= last or NOT_PLACED in one for i, one in enumerate(sentences)]
    severities = (Severity.INFO if one else Severity.WARNING for one in harmless)
    return tuple(map(Note.with_severity, map(text_note, sentences), severities))


def read_note(content: Mapping[str, Any]) -> Note:
    values = {name: value_from_json(one) for name, one in content["values"].items()}
    return Note(content["code"], Severity(content["severity"]), **values)


def value_from_json(content: Any) -> Any:
    if isinstance(content, dict):
        return read_note(content)
    if isinstance(content, str) and content in NO_NUMBERS:
        return float(content)
    return content
