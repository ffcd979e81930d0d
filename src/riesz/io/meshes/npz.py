"""Meshes in NumPy archives: nodes, cells, and an array for each tag. Nothing is ever unpickled."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from riesz.errors import FileFormatError
from riesz.io.meshes.assemble import assemble
from riesz.io.store.files import read_arrays, replacing
from riesz.mesh.mesh import Mesh


def read_npz(path: Path) -> Mesh:
    arrays = read_arrays(path)
    for name in ("nodes", "cells"):
        if name not in arrays:
            raise FileFormatError(f"{path} has no array {name!r}: it is not a mesh archive.")
    nodes = checked_array(path, arrays, "nodes", "f", 2)
    cells = checked_array(path, arrays, "cells", "i", 2)
    facets = {
        name.removeprefix("facets/"): checked_array(path, arrays, name, "i", 2)
        for name in arrays
        if name.startswith("facets/")
    }
    for name, rows in facets.items():
        if rows.shape[1] != cells.shape[1] - 1:
            raise FileFormatError(
                f"{path}: facets {name!r} have {rows.shape[1]} corners, but facets of these cells "
                f"have {cells.shape[1] - 1}."
            )
    regions = {
        name.removeprefix("regions/"): checked_array(path, arrays, name, "i", 1)
        for name in arrays
        if name.startswith("regions/")
    }
    return assemble(path, nodes, cells, facets, regions)


def write_npz(
    path: Path,
    mesh: Mesh,
    point_data: Mapping[str, np.ndarray],
    cell_data: Mapping[str, np.ndarray],
) -> None:
    arrays = {"nodes": mesh.nodes, "cells": mesh.cells}
    groups = {
        "facets": mesh.facets,
        "regions": mesh.regions,
        "point_data": point_data,
        "cell_data": cell_data,
    }
    for group, members in groups.items():
        arrays |= {f"{group}/{name}": values for name, values in members.items()}
    with replacing(path) as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


def checked_array(
    path: Path, arrays: Mapping[str, np.ndarray], name: str, kind: str, ndim: int
) -> np.ndarray:
    array = arrays[name]
    if not isinstance(array, np.ndarray) or array.dtype.kind != kind or array.ndim != ndim:
        what = "real numbers" if kind == "f" else "integers"
        raise FileFormatError(
            f"{path}: array {name!r} must hold {what} in {ndim} dimension(s), but is "
            f"{getattr(array, 'dtype', type(array))} with shape {np.shape(array)}."
        )
    return array
