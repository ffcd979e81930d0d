"""Reading and writing whole files, with errors that name the file."""

import csv
import io
import os
import uuid
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from riesz.errors import FileFormatError, RieszError, any_of, nearest


def read_bytes(path: Path | str) -> bytes:
    """The content of a file."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise FileFormatError(f"{path} cannot be read: {error.strerror}.") from error


def remove_partials(path: Path | str) -> None:
    """What is left of a process that was killed while it wrote this file."""
    path = Path(path)
    for partial in path.parent.glob(f".{path.name}.*.partial"):
        partial.unlink(missing_ok=True)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write; it takes the name `path` only when all has been written."""
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}.partial")
    try:
        with partial.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # or a power cut could leave the name without the content
        partial.replace(path)
    except OSError as error:
        raise FileFormatError(f"{path} cannot be written: {error.strerror}.") from error
    finally:
        partial.unlink(missing_ok=True)


def write_bytes(path: Path | str, content: bytes) -> None:
    """Write a file, which is there with all of its content or not at all."""
    with replacing(Path(path)) as file:
        file.write(content)


def check_target(path: Path, what: str = "", endings: Sequence[str] = ()) -> None:
    """Raise, before any work, where a file could not be written, or ends as none of its kind."""
    suffix = path.suffix.lower()
    if endings and suffix not in endings:
        hint = nearest(suffix, endings)
        raise FileFormatError(
            f"{path}: {what} written to files that end in {any_of(endings)}, not in "
            f"{path.suffix!r}: {hint}".rstrip(": ")
        )
    folder = path.absolute().parent
    if not folder.is_dir():
        raise FileFormatError(f"{path} cannot be written: there is no folder {path.parent}.")
    if path.is_dir():
        raise FileFormatError(f"{path} is a folder: give the name of a file.")
    if not os.access(folder, os.W_OK):
        raise FileFormatError(f"{path} cannot be written: you may not write to {path.parent}.")


def csv_content(header: Iterable[Any], rows: Iterable[Iterable[Any]], end: str = "\n") -> bytes:
    """A table of text, whose first line names its columns."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator=end).writerows([header, *rows])
    return text.getvalue().encode()


def settle(folder: Path) -> None:
    """Wait until the names in a folder are on the disk, where the system can say so."""
    with suppress(OSError):
        place = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(place)
        finally:
            os.close(place)


def make_folder(out: Path | str) -> Path:
    """The folder, made where it is not there yet."""
    out = Path(out)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RieszError(f"the folder {out} cannot be made: {error.strerror}.") from None
    return out


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """A NumPy archive, read without ever unpickling anything."""
    return archive_arrays(path, read_bytes(path))


def archive_arrays(path: Path, data: bytes) -> dict[str, np.ndarray]:
    """The arrays of an archive, whose file an error names."""
    if not zipfile.is_zipfile(io.BytesIO(data)):
        raise FileFormatError(f"{path} is not a NumPy archive, or is cut short.")
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    # Damage inside an archive surfaces as almost anything: zlib, CRC, header or memory errors.
    except Exception as error:
        raise FileFormatError(f"{path} is a damaged NumPy archive: {error}") from error
