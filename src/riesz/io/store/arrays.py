"""NumPy archives, read without ever unpickling anything."""

import io
import zipfile
from pathlib import Path

import numpy as np

from riesz.errors import FileFormatError
from riesz.io.store.files import read_bytes


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    return arrays_in(path, read_bytes(path))


def arrays_in(path: Path, data: bytes) -> dict[str, np.ndarray]:
    """The arrays of an archive, whose file an error names."""
    if not zipfile.is_zipfile(io.BytesIO(data)):
        raise FileFormatError(f"{path} is not a NumPy archive, or is cut short.")
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    # Damage inside an archive surfaces as almost anything: zlib, CRC, header or memory errors.
    except Exception as error:
        raise FileFormatError(f"{path} is a damaged NumPy archive: {error}") from error
