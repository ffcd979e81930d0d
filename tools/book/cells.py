"""Scripts in the percent format, as lists of cells."""

from dataclasses import dataclass
from typing import Literal

MARKER = "# %%"
MARKDOWN = "# %% [markdown]"


@dataclass(frozen=True)
class Cell:
    """A piece of a script: prose without its comment signs, or code."""

    kind: Literal["markdown", "code"]
    text: str


def cells_of(script: str) -> tuple[Cell, ...]:
    """The cells of a script that begins with a marker; empty ones are left out."""
    if not script.startswith(MARKER):
        raise ValueError(f"a tutorial begins with the line {MARKDOWN!r} or {MARKER!r}.")
    groups: list[list[str]] = []
    for line in script.splitlines():
        if line.rstrip() in (MARKER, MARKDOWN):
            groups.append([line.rstrip()])
        elif line.startswith(MARKER):
            raise ValueError(f"a cell is marked by {MARKER!r} or {MARKDOWN!r}, not by {line!r}.")
        else:
            groups[-1].append(line)
    cells = (cell_of(marker, lines) for marker, *lines in groups)
    return tuple(cell for cell in cells if cell.text)


def cell_of(marker: str, lines: list[str]) -> Cell:
    if marker == MARKER:
        return Cell("code", "\n".join(lines).strip())
    return Cell("markdown", "\n".join(uncommented(line) for line in lines).strip())


def uncommented(line: str) -> str:
    if line and not line.startswith("#"):
        raise ValueError(f"every line of a cell of prose begins with #, and not as {line!r}.")
    return line.removeprefix("#").removeprefix(" ")


def title_of(cells: tuple[Cell, ...]) -> str:
    """The heading that a tutorial begins with."""
    first = cells[0].text.splitlines()[0] if cells else ""
    if not first.startswith("# "):
        raise ValueError(f"a tutorial begins with a heading, '# ...', and not with {first!r}.")
    return first.removeprefix("# ")
