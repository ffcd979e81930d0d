"""The Hanford Site: a real outline with wells, and a transmissivity to be found again.

Zong, Barajas-Solano & Tartakovsky (2024, J. Comput. Phys. 519, 113395) and Yeung, Barajas-Solano
& Tartakovsky (2022, Water Resour. Res. 58) take a calibrated log-transmissivity of the aquifer as
the truth, on quadrilaterals of two sizes, and find it again from some of its values and from heads.
"""

from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from jaxtyping import Float, Int

from riesz.errors import FileFormatError, RieszError, any_of
from riesz_paper.data.library import data_folder

MESHES = ("1x", "4x")
NO_FLOW, HELD, INFLOW = 0, 1, 2
"""What a face of the boundary is: closed, at a known head, or one that lets in a known amount."""

HEADS = {"1x": "head_tpfa_rf1", "4x": "head_tpfa_rf1_conserving"}
CHILDREN = 4
"""Cells of the finer mesh in one of the coarser, which follow each other there."""


@dataclass(frozen=True, eq=False)
class Site:
    """One of the meshes with all that is known on it, and the truth."""

    mesh: str
    nodes: Float[np.ndarray, "node 2"]  # in units of 60 km
    cells: Int[np.ndarray, "cell 4"]  # counter-clockwise
    centroids: Float[np.ndarray, "cell 2"]
    faces: Int[np.ndarray, "face 2"]  # of the boundary
    kinds: Int[np.ndarray, " face"]
    values: Float[np.ndarray, " face"]  # head, m, or the inflow through the whole face
    log_transmissivity: Float[np.ndarray, " cell"]  # the truth
    finite_volume_heads: Float[np.ndarray, " cell"]  # of the truth, by two-point fluxes
    wells: Int[np.ndarray, " well"]  # their cells
    parents: Int[np.ndarray, " cell"]  # on the coarser mesh
    value_sets: dict[int, Int[np.ndarray, "set value"]]  # cells whose value is known

    @property
    def num_cells(self) -> int:
        return len(self.cells)

    def known_cells(self, number: int, which: int) -> Int[np.ndarray, " value"]:
        """The cells of a set of so many values."""
        sets = self.value_sets
        if number not in sets:
            known = any_of(map(str, sets))
            raise RieszError(f"there are no sets of {number} values: there are those of {known}.")
        if not 0 <= which < len(sets[number]):
            raise RieszError(f"there is no set {which}: they go from 0 to {len(sets[number]) - 1}.")
        return sets[number][which]


def hanford(mesh: str, folder: Path | None = None) -> Site:
    """The site on one of its meshes, from `$RIESZ_DATA/hanford` or another folder."""
    if mesh not in MESHES:
        raise RieszError(f"there is no mesh {mesh!r}: there is {any_of(MESHES)}.")
    path = (data_folder("hanford") if folder is None else folder) / f"hanford_{mesh}.npz"
    if not path.is_file():
        raise RieszError(
            f"{path} is not there: put hanford_1x.npz and hanford_4x.npz of the data set into a "
            "folder hanford, and name the folder above it by RIESZ_DATA."
        )
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (OSError, ValueError, BadZipFile) as error:
        raise FileFormatError(f"{path} cannot be read as arrays: {error}.") from None
    return site_of(mesh, arrays, str(path))


def site_of(mesh: str, arrays: dict[str, np.ndarray], where: str) -> Site:
    """The site from its arrays, found to fit together."""

    def array(name: str) -> np.ndarray:
        if name not in arrays:
            raise FileFormatError(f"{where} has no array {name!r}: is it a file of this data set?")
        return arrays[name]

    cells = array("cells").astype(np.int64)
    for name in ("cell_centroid", "log_T_rf1", HEADS[mesh]):
        if len(array(name)) != len(cells):
            raise FileFormatError(f"{where}: {name} has {len(array(name))} of {len(cells)} cells.")
    parents = array("parent_1x") if mesh == "4x" else np.arange(len(cells))
    site = Site(
        mesh=mesh,
        nodes=array("nodes").astype(float),
        cells=cells,
        centroids=array("cell_centroid").astype(float),
        faces=array("boundary_face_nodes").astype(np.int64),
        kinds=array("boundary_face_tag").astype(np.int64),
        values=array("boundary_face_value_conserving").astype(float),
        log_transmissivity=array("log_T_rf1").astype(float),
        finite_volume_heads=array(HEADS[mesh]).astype(float),
        wells=array("well_cells").astype(np.int64),
        parents=np.asarray(parents, np.int64),
        value_sets={
            number: np.atleast_2d(array(f"y_cells_{number}")).astype(np.int64)
            for number in (25, 50, 100)
        },
    )
    check_site(site, where)
    return site


def check_site(site: Site, where: str) -> None:
    """Raise where numbers name what is not there, or cells are not nested."""
    numbers = {
        "cells": (site.cells, len(site.nodes)),
        "boundary faces": (site.faces, len(site.nodes)),
        "wells": (site.wells, site.num_cells),
        **{f"sets of {n} values": (sets, site.num_cells) for n, sets in site.value_sets.items()},
    }
    for name, (own, count) in numbers.items():
        if own.size and not (own.min() >= 0 and own.max() < count):
            raise FileFormatError(
                f"{where}: {name} have numbers from {own.min()} to {own.max()}, but there are "
                f"{count} to name."
            )
    nested = np.arange(site.num_cells) // (CHILDREN if site.mesh == "4x" else 1)
    if not np.array_equal(site.parents, nested):
        raise FileFormatError(
            f"{where}: cells of one parent do not follow each other, {CHILDREN} at a time."
        )
    if not set(np.unique(site.kinds)) <= {NO_FLOW, HELD, INFLOW}:
        raise FileFormatError(f"{where}: kinds of faces are {np.unique(site.kinds)}, not 0 to 2.")
