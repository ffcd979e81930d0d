"""Domains from files: an outline in GeoJSON is meshed, a mesh file is read."""

from pathlib import Path
from typing import Any

from riesz.errors import MeshError
from riesz.geometry.geojson import geojson_in
from riesz.geometry.outline import outline_from
from riesz.io.meshes.files import read_mesh
from riesz.io.store.files import read_bytes
from riesz.mesh.mesh import Mesh
from riesz.mesher.polygon import mesh_from_polygon

OUTLINE_SUFFIXES = (".geojson", ".json")
EDGES_ACROSS = 50
"""How many edges of the longest length fit along the domain, unless told otherwise."""


def read_outline(path: Path) -> dict[str, Any]:
    """The GeoJSON object in a file."""
    return geojson_in(read_bytes(path), str(path))


def read_domain(path: Path, *, max_edge: float | None = None) -> Mesh:
    """A plane mesh from an outline or a mesh file."""
    if path.suffix.lower() not in OUTLINE_SUFFIXES:
        mesh = read_mesh(path)
        if mesh.dim != 2:
            raise MeshError(f"{path} holds a mesh in {mesh.dim} dimensions, not in the plane.")
        return mesh
    content = read_outline(path)
    try:
        if max_edge is None:
            max_edge = float(outline_from(content).extent) / EDGES_ACROSS
        return mesh_from_polygon(content, max_edge=max_edge)
    except MeshError as error:
        raise MeshError(f"{path}: {error}") from None
