"""The frame of a Gmsh file: sections between `$Name` and `$EndName`, and tables of numbers."""

from itertools import pairwise
from pathlib import Path

import equinox as eqx
import numpy as np
from jaxtyping import Int

from riesz.errors import FileFormatError


class Section(eqx.Module):
    """The lines between `$Name` and `$EndName`."""

    path: Path
    name: str
    first_line: int  # number in the file, from one, of the first of `lines`
    lines: list[str]

    def error(self, position: int, what: str) -> FileFormatError:
        line = self.first_line + position
        return FileFormatError(f"{self.path}, line {line} (${self.name}): {what}")


def split_sections(path: Path, text: str) -> dict[str, Section]:
    """Sections by name; of several with one name, the first."""
    lines = text.split("\n")
    marks = [i for i, line in enumerate(lines) if line.startswith("$")]
    sections = {}
    for start, stop in pairwise([*marks, len(lines)]):
        name = lines[start].strip()[1:]
        if name.startswith("End"):
            continue
        if stop == len(lines) or lines[stop].strip() != f"$End{name}":
            raise FileFormatError(
                f"{path}, line {start + 1}: ${name} is not closed by $End{name}: the file is "
                "cut short or damaged."
            )
        sections.setdefault(name, Section(path, name, start + 2, lines[start + 1 : stop]))
    return sections


def words(section: Section, position: int) -> list[str]:
    if position >= len(section.lines):
        raise section.error(position, "the section ends too early: the file is damaged.")
    return section.lines[position].split()


def integers(section: Section, position: int, count: int) -> list[int]:
    """The first `count` integers, none negative, of one line."""
    found = words(section, position)[:count]
    if len(found) < count or not all(word.isascii() and word.isdigit() for word in found):
        raise section.error(position, f"expected {count} counting number(s), found {found}.")
    return [int(word) for word in found]


def table(section: Section, start: int, count: int, width: int, dtype: type) -> np.ndarray:
    """`count` lines of `width` numbers each."""
    lines = lines_of_table(section, start, count)
    try:
        return np.array(" ".join(lines).split(), dtype=dtype).reshape(count, width)
    except (ValueError, OverflowError):
        raise first_bad_line(section, start, lines, width, dtype) from None


def ragged_table(
    section: Section, start: int, count: int, least: int
) -> tuple[Int[np.ndarray, " number"], Int[np.ndarray, " line_and_end"]]:
    """All integers of `count` lines with at least `least` each, and where each line starts."""
    lines = lines_of_table(section, start, count)
    lengths = np.array([len(line.split()) for line in lines], dtype=np.int64)
    if (lengths < least).any():
        position = start + int((lengths < least).argmax())
        raise section.error(position, f"expected at least {least} integers.")
    try:
        numbers = np.array(" ".join(lines).split(), dtype=np.int64)
    except (ValueError, OverflowError):
        raise first_bad_line(section, start, lines, None, np.int64) from None
    return numbers, np.concatenate([[0], np.cumsum(lengths)])


def lines_of_table(section: Section, start: int, count: int) -> list[str]:
    lines = section.lines[start : start + count]
    if len(lines) < count:
        raise section.error(start, f"{count} lines should follow, but there are {len(lines)}.")
    return lines


def first_bad_line(
    section: Section, start: int, lines: list[str], width: int | None, dtype: type
) -> FileFormatError:
    """The error at the first line that is not `width` numbers, or not all numbers."""
    kind = "real numbers" if dtype is float else "integers"
    amount = "only" if width is None else width
    wrong = next(i for i, line in enumerate(lines) if not is_row(line, width, dtype))
    return section.error(start + wrong, f"expected {amount} {kind}, found {lines[wrong][:60]!r}.")


def is_row(line: str, width: int | None, dtype: type) -> bool:
    try:
        row = np.array(line.split(), dtype=dtype)
    except (ValueError, OverflowError):
        return False
    return width is None or len(row) == width
