"""Files below one folder, and no others: what a page asks for is a name, never a path."""

import gzip
import re
import tomllib
import zipfile
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from riesz.errors import RieszError

TABLES = (".csv", ".csv.gz", ".tsv", ".txt", ".xlsx")
OUTLINES = (".geojson", ".json")
MAPS = (".gpkg",)
"""Which may hold a table or an outline."""

PROBLEMS = (".toml",)
TAKEN = (*TABLES, *OUTLINES, *MAPS, *PROBLEMS)
NAME = re.compile(r"[^\W_][\w .()+,@-]{0,99}")
"""Letters of any language; nothing that a shell, a path or a hidden file begins with."""

LARGEST, LARGEST_UNPACKED = 200_000_000, 1_000_000_000
"""Bytes of a file that is taken, and of what it holds."""


@dataclass(frozen=True)
class Folder:
    """The folder that a window is about."""

    root: Path

    def path(self, name: str) -> Path:
        """Where a file or a run of that name lies, which need not be there."""
        if not NAME.fullmatch(name) or name != name.rstrip(". "):
            raise RieszError(
                f"{name!r} is no name for a file here: letters and digits, and between them blanks "
                "or any of _ . ( ) + , @ -"
            )
        path = self.root / name
        if path.is_symlink() or path.resolve().parent != self.root:
            raise RieszError(
                f"{name} leads out of {self.root}: copy what it names into the folder."
            )
        return path

    def file(self, name: str) -> Path:
        """Of a file that is there."""
        path = self.path(name)
        if not path.is_file():
            raise RieszError(f"there is no file {name} in {self.root}.")
        return path

    def problem(self, name: str) -> Path:
        """Of a problem file that names no file elsewhere: others may have written it."""
        path = self.file(name)
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            return path  # `riesz check` says what is wrong with it
        for text in strings_in(content):
            named = self.root / text
            if is_there(named) and not named.resolve().is_relative_to(self.root):
                raise RieszError(
                    f"{name} names {text}, which is not in {self.root}: copy it there."
                )
        return path

    def names(self, endings: tuple[str, ...]) -> list[str]:
        """Of files that end so, and that may be asked for."""
        return sorted(
            one.name
            for one in self.root.iterdir()
            if one.name.lower().endswith(endings) and self.may_name(one.name) and one.is_file()
        )

    def may_name(self, name: str) -> bool:
        """Whether a page may ask for what has that name."""
        try:
            return bool(self.path(name))
        except RieszError:
            return False

    async def save(self, name: str, content: AsyncIterator[bytes]) -> None:
        """Take a file, which is there whole or not at all."""
        path = self.path(name)
        if not name.lower().endswith(TAKEN):
            raise RieszError(f"{name} is none of the files that are taken: {', '.join(TAKEN)}.")
        if path.exists():
            raise RieszError(f"{name} is there already: give the file another name.")
        partial, size = self.root / f".{uuid4().hex}.partial", 0
        try:
            with partial.open("xb") as file:
                async for part in content:
                    size += len(part)
                    if size > LARGEST:
                        raise RieszError(f"{name} has more than {LARGEST // 10**6} MB.")
                    file.write(part)
            check_unpacked(partial, name)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)


def strings_in(content: Any) -> Iterator[str]:
    """All texts of a parsed file, at any depth."""
    if isinstance(content, str):
        yield content
    elif isinstance(content, dict | list):
        for part in content.values() if isinstance(content, dict) else content:
            yield from strings_in(part)


def is_there(path: Path) -> bool:
    """Whether a text is a path at all, and leads to something."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def check_unpacked(path: Path, name: str) -> None:
    """Raise where a small file holds more than a machine can read."""
    size = 0
    try:
        if name.lower().endswith(".xlsx"):
            with zipfile.ZipFile(path) as archive:
                size = sum(one.file_size for one in archive.infolist())
        elif name.lower().endswith(".gz"):
            with closing(gzip.open(path)) as file:
                while size <= LARGEST_UNPACKED and (part := file.read(1 << 20)):
                    size += len(part)
    except (zipfile.BadZipFile, EOFError, OSError, zlib.error) as error:
        raise RieszError(f"{name} is damaged: {error}.") from error
    if size > LARGEST_UNPACKED:
        raise RieszError(
            f"{name} holds more than {LARGEST_UNPACKED // 10**6} MB: take a part of it."
        )
