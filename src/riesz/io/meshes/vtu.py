"""VTK's XML files of unstructured grids, with inline data.

Regions are arrays `region:NAME` over the cells, one inside and zero outside; facets are arrays
`facets:NAME` of node indices in the field data, which viewers pass over.
"""

from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

import numpy as np
from jaxtyping import Bool, Int

from riesz.errors import FileFormatError
from riesz.io.meshes.assemble import assemble_mesh
from riesz.io.meshes.vtk_arrays import Encoding, decode, encode_array, encoding_of
from riesz.io.store.files import read_bytes, replacing
from riesz.mesh.mesh import Mesh

CORNERS = {1: 1, 3: 2, 5: 3, 10: 4}  # simplices, by VTK's number
CELL_TYPES = {1: 3, 2: 5, 3: 10}  # by dimension
OTHER_TYPES = {
    8: "pixels",
    9: "quadrilaterals",
    11: "voxels",
    12: "hexahedra",
    13: "wedges",
    14: "pyramids",
    21: "second-order lines",
    22: "second-order triangles",
    24: "second-order tetrahedra",
}


class NoDoctype(ElementTree.TreeBuilder):
    """Refuses a document type, which is where entities that expand without end are declared."""

    def doctype(self, name: str, pubid: str | None, system: str | None) -> None:
        raise FileFormatError(f"it declares a document type {name!r}, which no VTK file needs.")


def read_vtu(path: Path) -> Mesh:
    data = read_bytes(path)
    try:
        root = parse(data)
        points, cells, facets, regions = read_grid(root)
    except FileFormatError as error:
        raise FileFormatError(f"{path}: {error}") from error
    return assemble_mesh(path, points, cells, facets, regions)


def parse(data: bytes) -> Element:
    if b"<AppendedData" in data:
        raise FileFormatError("its data are appended: save with inline data, ascii or binary.")
    try:
        root = ElementTree.fromstring(data, ElementTree.XMLParser(target=NoDoctype()))
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"it is not XML, or is cut short: {error}.") from error
    if root.tag != "VTKFile" or root.get("type") != "UnstructuredGrid":
        raise FileFormatError(
            f"it holds {root.tag} of type {root.get('type')!r}, not a VTKFile of type "
            "'UnstructuredGrid'."
        )
    return root


def read_grid(
    root: Element,
) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Points, cells, facets and regions of a file with one piece."""
    encoding = encoding_of(root)
    pieces = root.findall("UnstructuredGrid/Piece")
    if len(pieces) != 1:
        raise FileFormatError(f"it has {len(pieces)} pieces: save the mesh in one piece.")
    (piece,) = pieces
    points = decode(only(piece, "Points/DataArray"), encoding).astype(float)
    connectivity, offsets, types = (
        whole_numbers(decode(only(piece, f"Cells/DataArray[@Name='{name}']"), encoding), name)
        for name in ("connectivity", "offsets", "types")
    )
    if points.ndim != 2:
        raise FileFormatError("its points do not have several coordinates each.")
    cells, is_cell = simplices(connectivity, offsets, types)
    regions = {
        name: members_of(values, is_cell, name)
        for name, values in arrays_by_tag(piece, "CellData", "region:", encoding).items()
    }
    grid = only(root, "UnstructuredGrid")
    facets = {
        name: facet_rows(values, cells.shape[1] - 1, name)
        for name, values in arrays_by_tag(grid, "FieldData", "facets:", encoding).items()
    }
    return points, cells, facets, regions


def only(parent: Element, place: str) -> Element:
    result = parent.find(place)
    if result is None:
        raise FileFormatError(f"it has no {place}: it is damaged.")
    return result


def whole_numbers(values: np.ndarray, name: str) -> Int[np.ndarray, "..."]:
    if values.dtype.kind not in "iu":
        raise FileFormatError(f"array {name!r} holds {values.dtype}, not integers.")
    return values.astype(np.int64)


def simplices(
    connectivity: Int[np.ndarray, "..."],
    offsets: Int[np.ndarray, "..."],
    types: Int[np.ndarray, "..."],
) -> tuple[Int[np.ndarray, "cell corner"], Bool[np.ndarray, " element"]]:
    """Cells of the highest dimension, and which of the file's elements they are."""
    if not len(types) or offsets.shape != types.shape or types.ndim + connectivity.ndim != 2:
        raise FileFormatError(
            f"it has {offsets.size} cell offsets and {types.size} cell types: there must be as "
            "many of one as of the other, and some."
        )
    for kind in np.unique(types).tolist():
        if kind not in CORNERS:
            raise FileFormatError(
                f"it has {OTHER_TYPES.get(kind, f'cells of VTK type {kind}')}: only lines, "
                "triangles and tetrahedra of first order are read."
            )
    corners = np.array([CORNERS[kind] for kind in types.tolist()])
    num_corners = int(corners.max())
    if num_corners == 1:
        raise FileFormatError("it holds points alone: there are no cells.")
    ends = np.cumsum(corners)
    if not (offsets == ends).all() or len(connectivity) != ends[-1]:
        raise FileFormatError("its cell offsets do not fit its cell types: it is damaged.")
    is_cell = corners == num_corners
    starts = ends[is_cell] - num_corners
    return connectivity[starts[:, None] + np.arange(num_corners)], is_cell


def arrays_by_tag(parent: Element, place: str, prefix: str, encoding: Encoding) -> dict:
    """Integer arrays whose names start with the prefix, by the rest of their names."""
    return {
        name.removeprefix(prefix): whole_numbers(decode(array, encoding), name)
        for array in parent.findall(f"{place}/DataArray")
        if (name := array.get("Name", "")).startswith(prefix)
    }


def members_of(
    values: Int[np.ndarray, "..."], is_cell: Bool[np.ndarray, " element"], name: str
) -> Int[np.ndarray, " member"]:
    if values.shape != is_cell.shape:
        raise FileFormatError(
            f"region {name!r} has {values.shape} values for {is_cell.shape} cells."
        )
    return np.flatnonzero(values[is_cell])


def facet_rows(values: Int[np.ndarray, "..."], dim: int, name: str) -> Int[np.ndarray, "facet dim"]:
    if values.size % dim:
        raise FileFormatError(f"facets {name!r} do not have {dim} corners each.")
    return values.reshape(-1, dim)


def write_vtu(
    path: Path,
    mesh: Mesh,
    point_data: Mapping[str, np.ndarray],
    cell_data: Mapping[str, np.ndarray],
) -> None:
    for name in [*mesh.facets, *mesh.regions, *point_data, *cell_data]:
        if not name.isprintable():
            raise FileFormatError(f"{path}: XML cannot hold the name {name!r}: use plain letters.")
    attributes = {
        "type": "UnstructuredGrid",
        "version": "1.0",
        "byte_order": "LittleEndian",
        "header_type": "UInt64",
    }
    root = Element("VTKFile", attributes)
    grid = SubElement(root, "UnstructuredGrid")
    add_facets(grid, mesh)
    add_piece(grid, mesh, point_data, cell_data)
    with replacing(path) as file:
        ElementTree.ElementTree(root).write(file, encoding="utf-8", xml_declaration=True)


def add_facets(grid: Element, mesh: Mesh) -> None:
    fields = SubElement(grid, "FieldData")
    for name, rows in mesh.facets.items():
        array = encode_array(f"facets:{name}", rows)
        array.set("NumberOfTuples", str(len(rows)))
        fields.append(array)


def add_piece(
    grid: Element,
    mesh: Mesh,
    point_data: Mapping[str, np.ndarray],
    cell_data: Mapping[str, np.ndarray],
) -> None:
    counts = {"NumberOfPoints": str(mesh.num_nodes), "NumberOfCells": str(mesh.num_cells)}
    piece = SubElement(grid, "Piece", counts)
    points = np.zeros((mesh.num_nodes, 3))
    points[:, : mesh.dim] = mesh.nodes
    num_corners = mesh.dim + 1
    types = np.full(mesh.num_cells, CELL_TYPES[mesh.dim], dtype=np.uint8)
    every = np.arange(mesh.num_cells)
    cells = {
        "connectivity": mesh.cells.ravel(),
        "offsets": np.arange(num_corners, mesh.cells.size + 1, num_corners),
        "types": types,
    }
    regions = {f"region:{n}": np.isin(every, members) for n, members in mesh.regions.items()}
    for place, arrays in {
        "Points": {"Points": points},
        "Cells": cells,
        "PointData": point_data,
        "CellData": {**cell_data, **regions},
    }.items():
        SubElement(piece, place).extend(
            encode_array(name, values) for name, values in arrays.items()
        )
