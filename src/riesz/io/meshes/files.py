"""Meshes on disk: one way in and one way out, whatever the format."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from riesz.errors import FileFormatError
from riesz.io.meshes.assemble import assemble_mesh
from riesz.io.meshes.gmsh import read_gmsh
from riesz.io.meshes.vtu import read_vtu, write_vtu
from riesz.io.store.files import read_arrays, replacing
from riesz.mesh.mesh import Mesh


def read_npz(path: Path) -> Mesh:
    arrays = read_arrays(path)
    for name in ("nodes", "cells"):
        if name not in arrays:
            raise FileFormatError(f"{path} has no array {name!r}: it is not a mesh archive.")
    nodes = require_array(path, arrays, "nodes", "f", 2)
    cells = require_array(path, arrays, "cells", "i", 2)
    facets = {
        name.removeprefix("facets/"): require_array(path, arrays, name, "i", 2)
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
        name.removeprefix("regions/"): require_array(path, arrays, name, "i", 1)
        for name in arrays
        if name.startswith("regions/")
    }
    return assemble_mesh(path, nodes, cells, facets, regions)


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


def require_array(
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


READERS = {".msh": read_gmsh, ".npz": read_npz, ".vtu": read_vtu}
WRITERS = {".npz": write_npz, ".vtu": write_vtu}


def read_mesh(path: Path | str) -> Mesh:
    """Read a mesh from a Gmsh (.msh), VTK (.vtu) or NumPy (.npz) file, with its tags."""
    path = Path(path)
    return READERS[suffix_of(path)](path)


def write_mesh(
    path: Path | str,
    mesh: Mesh,
    point_data: Mapping[str, Any] | None = None,
    cell_data: Mapping[str, Any] | None = None,
) -> None:
    """Write a mesh and its tags to a .vtu or .npz file, which appears only once it is complete.

    Values at nodes and cells are arrays with one row each.
    """
    path = Path(path)
    suffix = suffix_of(path)
    if suffix not in WRITERS:
        raise FileFormatError(f"{path}: {suffix} files are only read: write a .vtu or .npz file.")
    at_nodes = check_data(path, "point", point_data or {}, mesh.num_nodes)
    in_cells = check_data(path, "cell", cell_data or {}, mesh.num_cells)
    WRITERS[suffix](path, mesh, at_nodes, in_cells)


def suffix_of(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in READERS:
        raise FileFormatError(
            f"{path}: mesh files end in {', '.join(READERS)}, not in {path.suffix!r}: rename or "
            "convert it."
        )
    return suffix


def check_data(
    path: Path, where: str, data: Mapping[str, Any], count: int
) -> dict[str, np.ndarray]:
    arrays = {name: np.asarray(values) for name, values in data.items()}
    for name, values in arrays.items():
        if values.dtype.kind not in "biuf":
            raise FileFormatError(
                f"{path}: {where} data {name!r} are of type {values.dtype}: write real numbers."
            )
        if values.ndim not in (1, 2) or len(values) != count:
            raise FileFormatError(
                f"{path}: {where} data {name!r} have shape {values.shape}: give {count} rows, one "
                f"a {'node' if where == 'point' else 'cell'}."
            )
    return arrays
