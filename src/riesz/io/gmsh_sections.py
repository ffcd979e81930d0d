"""The frame of a Gmsh file: sections between `$Name` and `$EndName`, and tables of numbers."""

from itertools import pairwise
from pathlib import Path

import equinox as eqx
import numpy as np

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
    lines = section.lines[start : start + count]
    if len(lines) < count:
        raise section.error(start, f"{count} lines should follow, but there are {len(lines)}.")
    try:
        return np.array(" ".join(lines).split(), dtype=dtype).reshape(count, width)
    except (ValueError, OverflowError):
        raise first_bad_line(section, start, lines, width, dtype) from None


def first_bad_line(
    section: Section, start: int, lines: list[str], width: int, dtype: type
) -> FileFormatError:
    for position, line in enumerate(lines, start):
        try:
            np.array(line.split(), dtype=dtype).reshape(width)
        except (ValueError, OverflowError):
            kind = "integer" if dtype is int else "number"
            return section.error(position, f"expected {width} {kind}(s), found {line[:60]!r}.")
    return section.error(start, f"the {len(lines)} lines from here do not hold {width} each.")
