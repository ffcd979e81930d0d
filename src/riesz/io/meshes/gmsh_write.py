"""Writing Gmsh files in ASCII, versions 2.2 and 4.1.

Elements are numbered in the order of the mesh's cells, whatever groups they are in, so that a
reader which sorts by number gets the same mesh back.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import equinox as eqx
import numpy as np
from jaxtyping import Bool, Float, Int

from riesz.errors import FileFormatError
from riesz.io.store.files import replacing
from riesz.mesh.mesh import Mesh

ELEMENT_TYPES = {0: 15, 1: 1, 2: 2, 3: 4}  # by dimension


class Elements(eqx.Module):
    """Cells, or all tagged facets, with the physical groups that each is in."""

    dim: int
    first_tag: int
    rows: Int[np.ndarray, "element corner"]
    in_group: Bool[np.ndarray, "element group"]
    names: list[str]


def write_gmsh(path: Path, mesh: Mesh, version: Literal["2.2", "4.1"] = "2.2") -> None:
    """Facets and regions become physical groups.

    Version 2.2 is what most programs read, but it repeats a cell for each region that it is in.
    Version 4.1 does not; meshio reads it only where every cell is in some region.
    """
    for name in [*mesh.facets, *mesh.regions]:
        if '"' in name or not name.isprintable():
            raise FileFormatError(
                f"{path}: Gmsh cannot hold the tag {name!r}: leave out quotes and line breaks."
            )
    points = np.zeros((mesh.num_nodes, 3))
    points[:, : mesh.dim] = mesh.nodes
    cells = Elements(mesh.dim, 1, mesh.cells, *membership(mesh.num_cells, mesh.regions))
    facets = tagged_facets(mesh)
    lines = ["$MeshFormat", f"{version} 0 8", "$EndMeshFormat", *name_lines([facets, cells])]
    if version == "4.1":
        lines += lines_4(points, [facets, cells])
    else:
        lines += lines_2(points, [facets, cells])
    with replacing(path) as file:
        file.write(("\n".join(lines) + "\n").encode())


def membership(
    count: int, groups: Mapping[str, Int[np.ndarray, " _"]]
) -> tuple[Bool[np.ndarray, "element group"], list[str]]:
    in_group = np.zeros((count, len(groups)), dtype=bool)
    for column, members in enumerate(groups.values()):
        in_group[members, column] = True
    return in_group, list(groups)


def tagged_facets(mesh: Mesh) -> Elements:
    """Every tagged facet once, however many tags it has."""
    all_rows = [np.empty((0, mesh.dim), dtype=np.int64), *mesh.facets.values()]
    stacked = np.sort(np.concatenate(all_rows), axis=1)
    rows, place = np.unique(stacked, axis=0, return_inverse=True)
    ends = np.cumsum([len(facets) for facets in all_rows])
    members = np.split(place.ravel(), ends)[1:-1]
    groups = dict(zip(mesh.facets, members, strict=True))
    return Elements(mesh.dim - 1, mesh.num_cells + 1, rows, *membership(len(rows), groups))


def name_lines(parts: list[Elements]) -> list[str]:
    names = [
        f'{part.dim} {group} "{name}"'
        for part in parts
        for group, name in enumerate(part.names, start=1)
    ]
    return ["$PhysicalNames", str(len(names)), *names, "$EndPhysicalNames"]


def rows_of(*columns: np.ndarray) -> list[str]:
    """Lines of numbers; `repr` keeps every digit of a float."""
    return [" ".join(map(repr, row)) for row in zip(*(c.tolist() for c in columns), strict=True)]


def coordinate_lines(points: Float[np.ndarray, "point 3"]) -> list[str]:
    return rows_of(*points.T)


def lines_2(points: Float[np.ndarray, "point 3"], parts: list[Elements]) -> list[str]:
    tags = np.arange(1, len(points) + 1)
    elements, next_tag = [], max(part.first_tag + len(part.rows) for part in parts)
    for part in parts:
        own = np.arange(part.first_tag, part.first_tag + len(part.rows))
        groups = np.where(part.in_group.any(axis=1), first_group(part.in_group), 0)
        elements += element_lines_2(part, own, np.arange(len(part.rows)), groups)
        # An element in several groups is written again for each one after the first.
        again, group = np.nonzero(part.in_group & (np.cumsum(part.in_group, axis=1) > 1))
        own = np.arange(next_tag, next_tag + len(again))
        elements += element_lines_2(part, own, again, group + 1)
        next_tag += len(again)
    return [
        "$Nodes",
        str(len(points)),
        *rows_of(tags, *points.T),
        "$EndNodes",
        "$Elements",
        str(len(elements)),
        *elements,
        "$EndElements",
    ]


def first_group(in_group: Bool[np.ndarray, "element group"]) -> Int[np.ndarray, " element"]:
    """Number, from one, of each element's first group; zero where it is in none."""
    if not in_group.shape[1]:
        return np.zeros(len(in_group), dtype=np.int64)
    return np.where(in_group.any(axis=1), in_group.argmax(axis=1) + 1, 0)


def element_lines_2(
    part: Elements,
    tags: Int[np.ndarray, " chosen"],
    chosen: Int[np.ndarray, " chosen"],
    groups: Int[np.ndarray, " chosen"],
) -> list[str]:
    kind = np.full(len(chosen), ELEMENT_TYPES[part.dim])
    two, entity = np.full(len(chosen), 2), np.maximum(groups, 1)
    return rows_of(tags, kind, two, groups, entity, *(part.rows[chosen].T + 1))


def lines_4(points: Float[np.ndarray, "point 3"], parts: list[Elements]) -> list[str]:
    count = len(points)
    dim = max(part.dim for part in parts)
    entities = {part.dim: distinct_memberships(part) for part in parts}
    blocks = [line for part in parts for line in block_lines(part, entities[part.dim][1])]
    num_blocks = sum(len(np.unique(entity)) for _, entity in entities.values())
    num_elements = sum(len(part.rows) for part in parts)
    node_tags = rows_of(np.arange(1, count + 1))
    return [
        "$Entities",
        " ".join(str(len(entities[d][0]) if d in entities else 0) for d in range(4)),
        *(line for d in sorted(entities) for line in entity_lines(d, entities[d][0], points)),
        "$EndEntities",
        "$Nodes",
        f"1 {count} 1 {count}",
        f"{dim} 1 0 {count}",
        *node_tags,
        *coordinate_lines(points),
        "$EndNodes",
        "$Elements",
        f"{num_blocks} {num_elements} 1 {num_elements}",
        *blocks,
        "$EndElements",
    ]


def distinct_memberships(
    part: Elements,
) -> tuple[Bool[np.ndarray, "entity group"], Int[np.ndarray, " element"]]:
    """An entity for each set of groups that some element is in, and every element's entity."""
    # Rows as bytes sort fast and need no limit on the number of groups.
    packed = (
        np.packbits(part.in_group, axis=1) if part.names else np.zeros((len(part.rows), 1), "u1")
    )
    _, first, entity = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    return part.in_group[first], entity.ravel()


def entity_lines(
    dim: int, groups: Bool[np.ndarray, "entity group"], points: Float[np.ndarray, "point 3"]
) -> list[str]:
    """Each entity with its physical groups; the whole mesh's bounding box stands for its own."""
    box = points[0] if dim == 0 else np.concatenate([points.min(axis=0), points.max(axis=0)])
    place = " ".join(map(repr, box.tolist()))
    lines = []
    for tag, row in enumerate(groups, start=1):
        members = (np.flatnonzero(row) + 1).tolist()
        bounds = [] if dim == 0 else [0]
        numbers = [len(members), *members, *bounds]
        lines.append(f"{tag} {place} " + " ".join(map(str, numbers)))
    return lines


def block_lines(part: Elements, entity: Int[np.ndarray, " element"]) -> list[str]:
    lines = []
    for number in np.unique(entity).tolist():
        (chosen,) = np.nonzero(entity == number)
        lines.append(f"{part.dim} {number + 1} {ELEMENT_TYPES[part.dim]} {len(chosen)}")
        lines += rows_of(part.first_tag + chosen, *(part.rows[chosen].T + 1))
    return lines
