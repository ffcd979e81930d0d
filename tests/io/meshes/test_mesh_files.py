"""Meshes survive a stay on disk in every format, and nothing half-written is left behind."""

import base64

import meshio
import numpy as np
import pytest
from tests.small_msh import MSH_22, MSH_41, small_mesh

from riesz.errors import FileFormatError
from riesz.io import read_mesh, write_mesh
from riesz.io.meshes.vtk_arrays import plain_bytes
from riesz.mesh.mesh import Mesh, cell_volumes
from riesz.mesh.shapes import box, disc, interval, rectangle
from riesz.mesh.tags import facets_of_tag

MESHES = {"1d": lambda: interval(6), "2d": lambda: rectangle((3, 4)), "3d": lambda: box((2, 1, 2))}
MESHIO_CELLS = {1: "line", 2: "triangle", 3: "tetra"}


def with_tags(mesh: Mesh) -> Mesh:
    """Tags that overlap, one that is empty, and names with a blank and an accent."""
    ends = np.concatenate([mesh.facets["left"], mesh.facets["right"]])
    regions = {"lake": np.array([0, 2]), "forêt noire": np.array([2, 3]), "none": np.arange(0)}
    return Mesh(mesh.nodes, mesh.cells, {**mesh.facets, "both ends": ends}, regions)


def parted(mesh: Mesh) -> Mesh:
    """Every cell in exactly one region."""
    parts = {"part a": np.arange(2), "part b": np.arange(2, mesh.num_cells)}
    return Mesh(mesh.nodes, mesh.cells, mesh.facets, parts)


def tags_of(mesh: Mesh) -> tuple[dict, dict]:
    facets = {name: {tuple(sorted(f)) for f in rows.tolist()} for name, rows in mesh.facets.items()}
    return facets, {name: set(members.tolist()) for name, members in mesh.regions.items()}


@pytest.fixture(params=MESHES)
def mesh(request):
    return with_tags(MESHES[request.param]())


@pytest.mark.parametrize("name", ["mesh.vtu", "mesh.npz"])
def test_a_round_trip_changes_nothing(mesh, name, tmp_path):
    write_mesh(tmp_path / name, mesh)
    back = read_mesh(tmp_path / name)
    assert (back.nodes == mesh.nodes).all()
    assert (back.cells == mesh.cells).all()
    assert tags_of(back) == tags_of(mesh)


@pytest.mark.parametrize("name", ["mesh.vtu", "mesh.npz"])
def test_a_mesh_without_tags_comes_back_without(name, tmp_path):
    bare = Mesh(rectangle((2, 2)).nodes, rectangle((2, 2)).cells)
    write_mesh(tmp_path / name, bare)
    assert tags_of(read_mesh(tmp_path / name)) == ({}, {})


@pytest.mark.parametrize("build", MESHES.values(), ids=list(MESHES))
def test_meshio_reads_what_we_write(build, tmp_path, capsys):
    mesh = parted(build())
    write_mesh(tmp_path / "mesh.vtu", mesh)
    other = meshio.read(tmp_path / "mesh.vtu")
    np.testing.assert_array_equal(other.points[:, : mesh.dim], mesh.nodes)
    blocks = [block.data for block in other.cells if block.type == MESHIO_CELLS[mesh.dim]]
    assert {tuple(sorted(c)) for c in np.concatenate(blocks).tolist()} == {
        tuple(sorted(c)) for c in mesh.cells.tolist()
    }
    assert other.cell_data["region:part a"][0].sum() == 2


@pytest.mark.parametrize("text", [MSH_22, MSH_41], ids=["2.2", "4.1"])
def test_gmsh_groups_may_overlap_and_be_empty(text, tmp_path):
    (tmp_path / "a.msh").write_text(text)
    back, mesh = read_mesh(tmp_path / "a.msh"), small_mesh()
    assert (back.nodes == mesh.nodes).all()
    assert (back.cells == mesh.cells).all()
    assert tags_of(back) == tags_of(mesh)


def meshio_mesh(mesh: Mesh) -> meshio.Mesh:
    """With physical groups 1 (cells) and 7 (the left side)."""
    points = np.pad(mesh.nodes, ((0, 0), (0, 3 - mesh.dim)))
    facet_kind = {1: "vertex", 2: "line", 3: "triangle"}[mesh.dim]
    left = mesh.facets["left"]
    physical = [np.full(len(left), 7), np.full(mesh.num_cells, 1)]
    return meshio.Mesh(
        points,
        [(facet_kind, left), (MESHIO_CELLS[mesh.dim], mesh.cells)],
        cell_data={"gmsh:physical": physical, "gmsh:geometrical": physical},
        field_data={"west": np.array([7, mesh.dim - 1]), "whole": np.array([1, mesh.dim])},
    )


@pytest.mark.parametrize("build", MESHES.values(), ids=list(MESHES))
def test_we_read_gmsh_files_of_meshio(build, tmp_path, capsys):
    mesh = build()
    meshio.write(tmp_path / "a.msh", meshio_mesh(mesh), file_format="gmsh22", binary=False)
    back = read_mesh(tmp_path / "a.msh")
    np.testing.assert_allclose(back.nodes, mesh.nodes)
    assert (back.cells == mesh.cells).all()
    assert tags_of(back)[0] == {"west": tags_of(mesh)[0]["left"]}
    assert len(back.regions["whole"]) == mesh.num_cells


def test_we_read_gmsh_41_files_of_meshio(tmp_path, capsys):
    mesh = rectangle((3, 2))
    bare = meshio.Mesh(np.pad(mesh.nodes, ((0, 0), (0, 1))), [("triangle", mesh.cells)])
    meshio.write(tmp_path / "a.msh", bare, file_format="gmsh", binary=False)
    back = read_mesh(tmp_path / "a.msh")
    assert (back.cells == mesh.cells).all()
    assert tags_of(back) == ({}, {})


@pytest.mark.parametrize("options", [{"binary": False}, {"compression": None}, {}], ids=str)
@pytest.mark.parametrize("build", MESHES.values(), ids=list(MESHES))
def test_we_read_vtu_files_of_meshio(build, options, tmp_path, capsys):
    mesh = build()
    meshio.write(tmp_path / "a.vtu", meshio_mesh(mesh), file_format="vtu", **options)
    back = read_mesh(tmp_path / "a.vtu")
    np.testing.assert_allclose(back.nodes, mesh.nodes)
    assert (back.cells == mesh.cells).all()


def test_a_count_of_bytes_may_be_encoded_apart():
    """Some programs close the base64 of the count before that of the data."""
    values = np.arange(4.0)
    pieces = [np.array(values.nbytes, dtype="<u4").tobytes(), values.tobytes()]
    apart = "".join(base64.b64encode(piece).decode() for piece in pieces)
    together = base64.b64encode(b"".join(pieces)).decode()
    header = np.dtype("<u4")
    assert plain_bytes(apart, header) == plain_bytes(together, header) == values.tobytes()


def test_data_travel_in_vtu(mesh, tmp_path):
    height = np.random.default_rng(0).normal(size=mesh.num_nodes)
    flow = np.random.default_rng(1).normal(size=(mesh.num_cells, 3)).astype(np.float32)
    in_cells = {"flow": flow, "wet": np.arange(mesh.num_cells) % 2 == 0}
    write_mesh(tmp_path / "a.vtu", mesh, {"height": height}, in_cells)
    other = meshio.read(tmp_path / "a.vtu")
    np.testing.assert_array_equal(other.point_data["height"], height)
    np.testing.assert_array_equal(other.cell_data["flow"][0], flow)
    np.testing.assert_array_equal(other.cell_data["wet"][0], in_cells["wet"])
    assert tags_of(read_mesh(tmp_path / "a.vtu")) == tags_of(mesh)


def test_data_travel_in_npz(tmp_path):
    mesh = rectangle((2, 2))
    write_mesh(tmp_path / "a.npz", mesh, {"u": np.arange(9.0)}, {"k": np.arange(8)})
    with np.load(tmp_path / "a.npz", allow_pickle=False) as archive:
        assert archive["point_data/u"].tolist() == list(range(9))
        assert archive["cell_data/k"].tolist() == list(range(8))


def test_cells_are_oriented_and_unused_nodes_dropped(tmp_path):
    mesh = rectangle((2, 2))
    nodes = np.vstack([[7.0, 7.0], mesh.nodes])
    cells = mesh.cells[:, ::-1] + 1
    np.savez(tmp_path / "a.npz", nodes=nodes, cells=cells)
    back = read_mesh(tmp_path / "a.npz")
    assert back.num_nodes == mesh.num_nodes
    np.testing.assert_allclose(cell_volumes(back.nodes, back.cells).sum(), 1)


def test_gmsh_numbers_need_not_be_in_order(tmp_path):
    text = (
        '$MeshFormat\n2.2 0 8\n$EndMeshFormat\n$PhysicalNames\n1\n1 5 "wall"\n$EndPhysicalNames\n'
        "$Nodes\n4\n40 0 1 0\n10 0 0 0\n20 1 0 0\n99 5 5 5\n$EndNodes\n"
        "$Elements\n4\n1 15 2 0 1 10\n2 1 2 -5 1 20 10\n3 2 2 3 1 10 40 20\n4 1 2 0 1 40 10\n"
        "$EndElements\n"
    )
    (tmp_path / "a.msh").write_text(text)
    mesh = read_mesh(tmp_path / "a.msh")
    assert mesh.nodes.tolist() == [[0, 1], [0, 0], [1, 0]]
    assert tags_of(mesh) == ({"wall": {(1, 2)}}, {"3": {0}})


def test_parametric_gmsh_nodes_are_read(tmp_path):
    text = (
        "$MeshFormat\n4.1 0 8\n$EndMeshFormat\n$Nodes\n2 3 1 3\n1 4 1 1\n1\n0 0 0 0.5\n"
        "2 1 1 2\n2\n3\n1 0 0 0.1 0.2\n0 1 0 0.3 0.4\n$EndNodes\n"
        "$Elements\n1 1 1 1\n2 1 2 1\n1 1 2 3\n$EndElements\n"
    )
    (tmp_path / "a.msh").write_text(text)
    assert read_mesh(str(tmp_path / "a.msh")).nodes.tolist() == [[0, 0], [1, 0], [0, 1]]


def test_nothing_half_written_is_left_behind(tmp_path):
    path = tmp_path / "a.vtu"
    write_mesh(path, rectangle((2, 2)))
    before = path.read_bytes()
    bad = Mesh(*mesh_arrays(), {"line\nbreak": np.array([[0, 1]])})
    with pytest.raises(FileFormatError, match="XML cannot hold the name"):
        write_mesh(path, bad)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["a.vtu"]


def test_a_write_that_fails_midway_leaves_the_old_file(tmp_path):
    from riesz.io.store.files import replacing

    path = tmp_path / "a.bin"
    path.write_bytes(b"old")
    with pytest.raises(KeyError), replacing(path) as file:  # noqa: PT012
        file.write(b"new")
        raise KeyError("the computation failed")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.bin"]


def mesh_arrays() -> tuple[np.ndarray, np.ndarray]:
    mesh = rectangle((1, 1))
    return mesh.nodes, mesh.cells


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.msh", {}, "a.msh: .msh files are only read: write a .vtu or .npz file"),
        ("a.vtu", {"point_data": {"u": np.zeros(3)}}, r"point data 'u' have shape \(3,\): give 4"),
        ("a.npz", {"cell_data": {"k": np.zeros((2, 2, 2))}}, "one a cell"),
        ("a.vtu", {"cell_data": {"k": np.array(["a", "b"])}}, "of type <U1: write real numbers"),
    ],
)
def test_what_cannot_be_written_is_refused(name, data, message, tmp_path):
    with pytest.raises(FileFormatError, match=message):
        write_mesh(tmp_path / name, rectangle((1, 1)), **data)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileFormatError, match=r"none.a.npz cannot be written: No such file"):
        write_mesh(tmp_path / "none" / "a.npz", rectangle((1, 1)))


def renamed_in_file(path, mesh, old, new):
    """Write a mesh and change the name of a tag, as another program may have given it."""
    write_mesh(path, mesh)
    if path.suffix == ".npz":
        with np.load(path) as archive:
            arrays = {name.replace(old, new): archive[name] for name in archive.files}
        np.savez(path, **arrays)
    else:
        path.write_bytes(path.read_bytes().replace(old.encode(), new.encode()))


@pytest.mark.parametrize("suffix", [".vtu", ".npz"])
def test_a_group_named_boundary_is_read_when_it_is_all_of_it(suffix, tmp_path):
    path, mesh = tmp_path / f"mesh{suffix}", disc(3)
    renamed_in_file(path, mesh, "outer", "boundary")
    back = read_mesh(path)
    assert not back.facets
    assert len(facets_of_tag(back, "boundary").nodes) == len(mesh.facets["outer"])
    renamed_in_file(path, rectangle((3, 2)), "left", "boundary")
    with pytest.raises(FileFormatError, match=r"2 facets is named 'boundary' .* 10 .* rename"):
        read_mesh(path)


def test_a_facet_that_a_file_lists_twice_is_read_once(tmp_path):
    arrays = dict(zip(("nodes", "cells"), mesh_arrays(), strict=True))
    np.savez(tmp_path / "a.npz", **arrays, **{"facets/shore": np.array([[0, 1], [1, 0]])})
    assert read_mesh(tmp_path / "a.npz").facets["shore"].tolist() == [[0, 1]]
