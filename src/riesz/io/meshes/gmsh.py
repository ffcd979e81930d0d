"""Gmsh files, versions 2.2 and 4.1 in ASCII; physical groups name facets and regions.

The frame of a file are sections between `$Name` and `$EndName`, and tables of numbers in them.
"""

from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int

from riesz.errors import FileFormatError
from riesz.io.meshes.assemble import assemble_mesh
from riesz.io.store.files import read_bytes
from riesz.mesh.mesh import Mesh
from riesz.mesh.rows import find_rows, sort_columns

CORNERS = {15: 1, 1: 2, 2: 3, 4: 4}
"""Element types that are simplices, and how many corners they have."""

OTHER_TYPES = {
    3: "quadrilaterals",
    5: "hexahedra",
    6: "prisms",
    7: "pyramids",
    8: "second-order lines",
    9: "second-order triangles",
    10: "second-order quadrilaterals",
    11: "second-order tetrahedra",
}


class Section(eqx.Module):
    """The lines between `$Name` and `$EndName`."""

    path: Path
    name: str
    first_line: int  # number in the file, from one, of the first of `lines`
    lines: list[str]

    def error(self, position: int, what: str) -> FileFormatError:
        line = self.first_line + position
        return FileFormatError(f"{self.path}, line {line} (${self.name}): {what}")


def split_sections(path: Path, text: str) -> dict[str, Section]:
    """Sections by name; of several with one name, the first."""
    lines = text.split("\n")
    marks = [i for i, line in enumerate(lines) if line.startswith("$")]
    sections = {}
    for start, stop in pairwise([*marks, len(lines)]):
        name = lines[start].strip()[1:]
        if name.startswith("End"):
            continue
        if stop == len(lines) or lines[stop].strip() != f"$End{name}":
            raise FileFormatError(
                f"{path}, line {start + 1}: ${name} is not closed by $End{name}: the file is "
                "cut short or damaged."
            )
        sections.setdefault(name, Section(path, name, start + 2, lines[start + 1 : stop]))
    return sections


def words(section: Section, position: int) -> list[str]:
    if position >= len(section.lines):
        raise section.error(position, "the section ends too early: the file is damaged.")
    return section.lines[position].split()


def integers(section: Section, position: int, count: int) -> list[int]:
    """The first `count` integers, none negative, of one line."""
    result = words(section, position)[:count]
    if len(result) < count or not all(word.isascii() and word.isdigit() for word in result):
        raise section.error(position, f"expected {count} counting number(s), found {result}.")
    return [int(word) for word in result]


def number_table(section: Section, start: int, count: int, width: int, dtype: type) -> np.ndarray:
    """`count` lines of `width` numbers each."""
    lines = lines_of_table(section, start, count)
    try:
        return np.array(" ".join(lines).split(), dtype=dtype).reshape(count, width)
    except (ValueError, OverflowError):
        raise first_bad_line(section, start, lines, width, dtype) from None


def ragged_table(
    section: Section, start: int, count: int, least: int
) -> tuple[Int[np.ndarray, " number"], Int[np.ndarray, " line_and_end"]]:
    """All integers of `count` lines with at least `least` each, and where each line starts."""
    lines = lines_of_table(section, start, count)
    lengths = np.array([len(line.split()) for line in lines], dtype=np.int64)
    if (lengths < least).any():
        position = start + int((lengths < least).argmax())
        raise section.error(position, f"expected at least {least} integers.")
    try:
        numbers = np.array(" ".join(lines).split(), dtype=np.int64)
    except (ValueError, OverflowError):
        raise first_bad_line(section, start, lines, None, np.int64) from None
    return numbers, np.concatenate([[0], np.cumsum(lengths)])


def lines_of_table(section: Section, start: int, count: int) -> list[str]:
    lines = section.lines[start : start + count]
    if len(lines) < count:
        raise section.error(start, f"{count} lines should follow, but there are {len(lines)}.")
    return lines


def first_bad_line(
    section: Section, start: int, lines: list[str], width: int | None, dtype: type
) -> FileFormatError:
    """The error at the first line that is not `width` numbers, or not all numbers."""
    kind = "real numbers" if dtype is float else "integers"
    amount = "only" if width is None else width
    wrong = next(i for i, line in enumerate(lines) if not is_row(line, width, dtype))
    return section.error(start + wrong, f"expected {amount} {kind}, found {lines[wrong][:60]!r}.")


def is_row(line: str, width: int | None, dtype: type) -> bool:
    try:
        row = np.array(line.split(), dtype=dtype)
    except (ValueError, OverflowError):
        return False
    return width is None or len(row) == width


class Block(eqx.Module):
    """Elements of one type in the same physical groups."""

    dim: int
    tags: Int[np.ndarray, " element"]  # the file's numbers of the elements
    nodes: Int[np.ndarray, "element corner"]  # the file's numbers of the nodes
    groups: tuple[int, ...]


def read_gmsh(path: Path) -> Mesh:
    sections = read_sections(path)
    version = sections["MeshFormat"].lines[0].split()[0]
    names = physical_names(sections.get("PhysicalNames"))
    if version.startswith("2"):
        points, point_tags = nodes_2(sections["Nodes"])
        blocks = blocks_2(sections["Elements"])
    else:
        points, point_tags = nodes_4(sections["Nodes"])
        blocks = blocks_4(sections["Elements"], entity_groups(sections.get("Entities")))
    return mesh_from_blocks(path, points, point_tags, blocks, names)


def read_sections(path: Path) -> dict[str, Section]:
    """All sections of an ASCII file of a version that we know, with nodes and elements."""
    data = read_bytes(path)
    # Binary files open with readable lines; look at those before decoding the rest.
    start = data.find(b"$MeshFormat")
    if start < 0:
        raise FileFormatError(f"{path} is not a Gmsh file: it has no $MeshFormat section.")
    header = data[start : start + 80].split(b"\n")[1:2] or [b""]
    check_header(path, header[0].decode("latin-1").split())
    try:
        sections = split_sections(path, data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{path} has bytes that are not text, at {error.start}.") from None
    for name in ("MeshFormat", "Nodes", "Elements"):
        if name not in sections:
            raise FileFormatError(f"{path} has no ${name} section: it is cut short or damaged.")
    if "PartitionedEntities" in sections:
        raise FileFormatError(f"{path} is a partitioned mesh: save it from Gmsh in one part.")
    return sections


def check_header(path: Path, header: list[str]) -> None:
    if len(header) != 3:
        raise FileFormatError(f"{path}: $MeshFormat is cut short or damaged.")
    if header[0] not in ("2", "2.1", "2.2", "4.1"):
        raise FileFormatError(
            f"{path} has Gmsh format {header[0]!r}: save it from Gmsh as version 4.1 or 2.2."
        )
    if header[1] != "0":
        raise FileFormatError(
            f"{path} is a binary Gmsh file: save as ASCII (Mesh.Binary = 0, or without -bin)."
        )


def physical_names(section: Section | None) -> dict[tuple[int, int], str]:
    """Name of each physical group, by dimension and number."""
    if section is None:
        return {}
    (count,) = integers(section, 0, 1)
    names = {}
    for position in range(1, count + 1):
        dim, tag = integers(section, position, 2)
        rest = section.lines[position].split(maxsplit=2)[2:]
        if not rest or len(rest[0].strip().split('"')) != 3:
            raise section.error(position, 'expected a name in double quotes, "like this".')
        names[dim, tag] = rest[0].split('"')[1]
    return names


def nodes_2(section: Section) -> tuple[Float[np.ndarray, "point 3"], Int[np.ndarray, " point"]]:
    (count,) = integers(section, 0, 1)
    rows = number_table(section, 1, count, 4, float)
    return rows[:, 1:], integer_tags(section, rows[:, 0])


def nodes_4(section: Section) -> tuple[Float[np.ndarray, "point 3"], Int[np.ndarray, " point"]]:
    (num_blocks,) = integers(section, 0, 1)
    points, tags, position = [np.empty((0, 3))], [np.empty(0)], 1
    for _ in range(num_blocks):
        dim, _, parametric, count = integers(section, position, 4)
        width = 3 + dim if parametric else 3
        tags.append(number_table(section, position + 1, count, 1, float)[:, 0])
        points.append(number_table(section, position + 1 + count, count, width, float)[:, :3])
        position += 1 + 2 * count
    return np.concatenate(points), integer_tags(section, np.concatenate(tags))


def integer_tags(section: Section, tags: Float[np.ndarray, " point"]) -> Int[np.ndarray, " point"]:
    (bad,) = np.nonzero(~((tags > 0) & (tags < 2.0**53) & (tags % 1 == 0)))
    if bad.size:
        raise section.error(0, f"a node has number {tags[bad[0]]:g}: nodes count from one.")
    return tags.astype(np.int64)


def check_type(section: Section, position: int, kind: int) -> None:
    if kind not in CORNERS:
        what = OTHER_TYPES.get(kind, f"elements of type {kind}")
        raise section.error(
            position,
            f"the mesh has {what}: only points, lines, triangles and tetrahedra of first order "
            "are read; mesh the domain with simplices.",
        )


def blocks_2(section: Section) -> list[Block]:
    """Lines read `number type num_tags tag... node...`; the first tag is the physical group."""
    (count,) = integers(section, 0, 1)
    numbers, starts = ragged_table(section, 1, count, 3)
    kind, num_tags = numbers[starts[:-1] + 1], numbers[starts[:-1] + 2]
    for one in np.unique(kind).tolist():
        check_type(section, 1 + int((kind == one).argmax()), one)
    corners = np.array([CORNERS.get(one, 0) for one in range(max(CORNERS) + 1)])[kind]
    (bad,) = np.nonzero((num_tags < 0) | (np.diff(starts) != 3 + num_tags + corners))
    if bad.size:
        position = 1 + int(bad[0])
        raise section.error(position, f"an element of type {kind[bad[0]]} has the wrong length.")
    # Gmsh marks reversed orientation by a minus sign.
    group = np.where(num_tags > 0, np.abs(numbers[starts[:-1] + np.minimum(num_tags, 1) + 2]), 0)
    blocks = []
    for one, tag in np.unique(np.stack([kind, group], axis=1), axis=0).tolist():
        (chosen,) = np.nonzero((kind == one) & (group == tag))
        first_node = starts[chosen + 1] - CORNERS[one]
        nodes = numbers[first_node[:, None] + np.arange(CORNERS[one])]
        groups = (tag,) if tag else ()
        blocks.append(Block(CORNERS[one] - 1, numbers[starts[chosen]], nodes, groups))
    return blocks


def entity_groups(section: Section | None) -> dict[tuple[int, int], tuple[int, ...]]:
    """Physical groups of each entity, by dimension and number."""
    if section is None:
        return {}
    groups, position = {}, 1
    for dim, count in enumerate(integers(section, 0, 4)):
        skip = 4 if dim == 0 else 7  # number and position, or number and bounding box
        for _ in range(count):
            row = words(section, position)
            try:
                num_groups = int(row[skip])
                result = [abs(int(word)) for word in row[skip + 1 : skip + 1 + num_groups]]
                groups[dim, int(row[0])] = tuple(result)
            except (IndexError, ValueError):
                raise section.error(position, "expected an entity and its groups.") from None
            position += 1
    return groups


def blocks_4(section: Section, groups: dict[tuple[int, int], tuple[int, ...]]) -> list[Block]:
    (num_blocks,) = integers(section, 0, 1)
    blocks, position = [], 1
    for _ in range(num_blocks):
        dim, entity, kind, count = integers(section, position, 4)
        check_type(section, position, kind)
        rows = number_table(section, position + 1, count, 1 + CORNERS[kind], np.int64)
        result = groups.get((dim, entity), ())
        blocks.append(Block(CORNERS[kind] - 1, rows[:, 0], rows[:, 1:], result))
        position += 1 + count
    return blocks


def mesh_from_blocks(
    path: Path,
    points: Float[np.ndarray, "point 3"],
    point_tags: Int[np.ndarray, " point"],
    blocks: list[Block],
    names: dict[tuple[int, int], str],
) -> Mesh:
    dim = max((block.dim for block in blocks), default=0)
    if dim == 0:
        raise FileFormatError(f"{path} holds no lines, triangles or tetrahedra.")
    places = place_of(path, point_tags)
    cells, regions = gather_elements(blocks, dim)
    facets, tagged = gather_elements(blocks, dim - 1)
    cells, regions = without_copies(places(cells), regions, len(points))
    boundary = groups_by_name(tagged, dim - 1, names)
    return assemble_mesh(
        path,
        points,
        cells,
        {name: places(facets[members]) for name, members in boundary.items()},
        groups_by_name(regions, dim, names),
    )


def place_of(
    path: Path, point_tags: Int[np.ndarray, " point"]
) -> Callable[[Int[np.ndarray, "row column"]], Int[np.ndarray, "row column"]]:
    """The function from the file's node numbers to positions in its list of nodes."""
    order = np.argsort(point_tags, kind="stable")
    ordered = point_tags[order]

    def places(tags: Int[np.ndarray, "row column"]) -> Int[np.ndarray, "row column"]:
        result = np.searchsorted(ordered, tags)
        missing = tags[~np.isin(tags, ordered)]
        if missing.size:
            raise FileFormatError(
                f"{path}: elements use node {missing[0]}, which is not among the file's "
                f"{len(ordered)} nodes: it is damaged."
            )
        return order[result]

    return places


def gather_elements(
    blocks: list[Block], dim: int
) -> tuple[Int[np.ndarray, "element corner"], dict[int, Int[np.ndarray, " _"]]]:
    """Elements of one dimension in the order of their numbers, and members of each group."""
    chosen = [block for block in blocks if block.dim == dim]
    if not chosen:
        return np.empty((0, dim + 1), dtype=np.int64), {}
    order = np.argsort(np.concatenate([block.tags for block in chosen]), kind="stable")
    place = np.argsort(order)
    members, start = defaultdict(list), 0
    for block in chosen:
        stop = start + len(block.tags)
        for group in block.groups:
            members[group].append(place[start:stop])
        start = stop
    rows = np.concatenate([block.nodes for block in chosen])[order]
    return rows, {group: np.sort(np.concatenate(result)) for group, result in members.items()}


def without_copies(
    cells: Int[np.ndarray, "copy corner"],
    regions: dict[int, Int[np.ndarray, " _"]],
    num_points: int,
) -> tuple[Int[np.ndarray, "cell corner"], dict[int, Int[np.ndarray, " _"]]]:
    """Version 2 repeats a cell for each of its groups; keep the first, in all groups."""
    columns = sort_columns(cells.T)
    originals = find_rows(columns, columns, num_points)
    kept, new_index = np.unique(originals, return_inverse=True)
    return cells[kept], {group: np.unique(new_index[result]) for group, result in regions.items()}


def groups_by_name(
    groups: dict[int, Int[np.ndarray, " _"]], dim: int, names: dict[tuple[int, int], str]
) -> dict[str, Int[np.ndarray, " _"]]:
    """Groups of one dimension by name, or by number where they have none."""
    known = {tag: name for (at, tag), name in names.items() if at == dim}
    members = defaultdict(list)
    for tag in [*known, *(tag for tag in groups if tag not in known)]:
        result = groups.get(tag, np.empty(0, dtype=np.int64))
        members[known.get(tag, str(tag))].append(result)
    return {name: np.unique(np.concatenate(result)) for name, result in members.items()}
