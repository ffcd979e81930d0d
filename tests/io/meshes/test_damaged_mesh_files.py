"""Damaged files, and files of another kind, are refused with the file and the place."""

import base64
import re
import zlib

import meshio
import numpy as np
import pytest
from tests.small_msh import MSH_22, MSH_41

from riesz.errors import FileFormatError
from riesz.io import read_mesh, write_mesh
from riesz.mesh.mesh import Mesh
from riesz.mesh.shapes import box, interval, rectangle

MESHES = {"1d": lambda: interval(6), "2d": lambda: rectangle((3, 4)), "3d": lambda: box((2, 1, 2))}
FILES = ["mesh.msh", "mesh41.msh", "mesh.vtu", "mesh.npz"]


def with_regions(mesh: Mesh) -> Mesh:
    regions = {"lake": np.array([0, 2]), "forest": np.array([2, 3])}
    return Mesh(mesh.nodes, mesh.cells, mesh.facets, regions)


def write(path, mesh: Mesh) -> None:
    """As a Gmsh file, always the same small one."""
    if path.suffix == ".msh":
        path.write_text(MSH_41 if path.stem == "mesh41" else MSH_22)
    else:
        write_mesh(path, with_regions(mesh))


@pytest.mark.parametrize("build", MESHES.values(), ids=list(MESHES))
@pytest.mark.parametrize("name", FILES)
def test_no_cut_goes_unnoticed(build, name, tmp_path):
    path = tmp_path / name
    write(path, build())
    whole = path.read_bytes().rstrip()
    for cut in np.unique(np.linspace(0, len(whole) - 1, 150).astype(int)):
        path.write_bytes(whole[:cut])
        with pytest.raises(FileFormatError, match=re.escape(str(path))):
            read_mesh(path)


@pytest.mark.parametrize("name", FILES)
def test_flipped_bytes_never_crash_the_reader(name, tmp_path):
    """Most are noticed; a changed digit of a coordinate may pass, but nothing else may rise."""
    path = tmp_path / name
    write(path, rectangle((2, 2)))
    whole, rng = bytearray(path.read_bytes()), np.random.default_rng(0)
    noticed = 0
    for _ in range(150):
        damaged = whole.copy()
        for place in rng.integers(0, len(whole), 3):
            damaged[place] = rng.integers(0, 256)
        path.write_bytes(damaged)
        try:
            read_mesh(path)
        except FileFormatError:
            noticed += 1
    assert noticed > 50


@pytest.mark.parametrize("suffix", [".msh", ".vtu", ".npz"])
def test_garbage_is_refused(suffix, tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / f"garbage{suffix}"
    starts = [b"", b"$MeshFormat\n2.2 0 8\n", b"<?xml version='1.0'?>", b"PK\x03\x04"]
    for start in starts * 10:
        path.write_bytes(start + rng.bytes(300))
        with pytest.raises(FileFormatError, match="garbage"):
            read_mesh(path)


@pytest.mark.parametrize("suffix", [".msh", ".vtu", ".npz"])
def test_missing_files_and_folders_are_refused(suffix, tmp_path):
    with pytest.raises(FileFormatError, match=r"absent.* cannot be read: No such file"):
        read_mesh(tmp_path / f"absent{suffix}")
    (tmp_path / f"folder{suffix}").mkdir()
    with pytest.raises(FileFormatError, match=r"folder.* cannot be read: Is a directory"):
        read_mesh(tmp_path / f"folder{suffix}")


def test_unknown_suffixes_are_refused(tmp_path):
    with pytest.raises(FileFormatError, match=r"end in .msh, .npz, .vtu, not in '.stl'"):
        read_mesh(tmp_path / "a.stl")
    with pytest.raises(FileFormatError, match=r"not in ''"):
        write_mesh(tmp_path / "a", rectangle((1, 1)))


HEAD = "$MeshFormat\n2.2 0 8\n$EndMeshFormat\n"
HEAD_4 = "$MeshFormat\n4.1 0 8\n$EndMeshFormat\n"
NODES = "$Nodes\n4\n1 0 0 0\n2 1 0 0\n3 1 1 0\n4 0 1 0\n$EndNodes\n"
NODES_4 = "$Nodes\n1 3 1 3\n2 1 0 3\n1\n2\n3\n0 0 0\n1 0 0\n0 1 0\n$EndNodes\n"
ELEMENTS = "$Elements\n2\n1 2 2 0 1 1 2 3\n2 2 2 0 1 1 3 4\n$EndElements\n"


def swap(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hello", "is not a Gmsh file"),
        ("$MeshFormat\n2.2 0\n", "cut short or damaged"),
        (swap(HEAD, "2.2", "4.0") + NODES + ELEMENTS, "Gmsh format '4.0': save it .* 4.1 or 2.2"),
        (swap(HEAD, "2 0 8", "2 1 8"), "binary Gmsh file: save as ASCII"),
        (HEAD + NODES, r"no \$Elements section"),
        (HEAD + ELEMENTS, r"no \$Nodes section"),
        (HEAD + NODES + "$Elements\n1\n", r"line 11: \$Elements is not closed"),
        (HEAD + swap(NODES, "\n4\n1", "\nfour\n1") + ELEMENTS, "line 5 .* expected 1 counting"),
        (HEAD + swap(NODES, "\n4\n1", "\n9\n1") + ELEMENTS, "9 lines should follow, but .* 4"),
        (HEAD + swap(NODES, "3 1 1 0", "3 1 x 0") + ELEMENTS, "line 8 .* expected 4 real numbers"),
        (HEAD + swap(NODES, "3 1 1 0", "3 1 1") + ELEMENTS, "line 8 .* expected 4 real numbers"),
        (HEAD + swap(NODES, "3 1 1 0", "3 1 1 0 0") + ELEMENTS, "line 8 .* expected 4 real"),
        (HEAD + swap(NODES, "3 1 1 0", "3.5 1 1 0") + ELEMENTS, "a node has number 3.5"),
        (HEAD + swap(NODES, "3 1 1 0", "3 1 nan 0") + ELEMENTS, "1 of 4 nodes have NaN.*nan"),
        (HEAD + swap(NODES, "3 1 1 0", "3 1 1e200 0") + ELEMENTS, "absurd coordinates"),
        (HEAD + swap(NODES, "3 1 1 0", "3 1 1 2") + ELEMENTS, "a surface in 3 dimensions"),
        (HEAD + swap(NODES, "3 1 1 0", "5 1 1 0") + ELEMENTS, "elements use node 3, which is not"),
        (
            HEAD + "$Nodes\n0\n$EndNodes\n" + ELEMENTS,
            "elements use node 1, which is not .* 0 nodes",
        ),
        (HEAD + swap(NODES, "3 1 1 0", "3 0 1 0") + ELEMENTS, "repeat the place of another"),
        (HEAD + NODES + swap(ELEMENTS, "1 2 3\n", "1 2 2\n"), "zero or negative volume"),
        (HEAD + NODES + swap(ELEMENTS, "1 2 3\n", "1 2\n"), "line 13 .* the wrong length"),
        (HEAD + NODES + swap(ELEMENTS, "1 2 3\n", "1 2 x\n"), "line 13 .* only integers"),
        (HEAD + NODES + swap(ELEMENTS, "1 2 2 0 1 1 2 3", "1 2"), "line 13 .* at least 3"),
        (HEAD + NODES + swap(ELEMENTS, "1 2 2", "1 3 2"), "line 13 .* has quadrilaterals"),
        (HEAD + NODES + swap(ELEMENTS, "1 2 2", "1 5 2"), "line 13 .* has hexahedra"),
        (HEAD + NODES + swap(ELEMENTS, "1 2 2", "1 9 2"), "second-order triangles"),
        (HEAD + NODES + swap(ELEMENTS, "1 2 2", "1 77 2"), "elements of type 77"),
        (HEAD + NODES + "$Elements\n0\n$EndElements\n", "holds no lines, triangles or"),
        (HEAD + NODES + "$Elements\n1\n1 15 2 0 1 1\n$EndElements\n", "holds no lines, triangles"),
        (HEAD + "$PhysicalNames\n1\n1 1 wall\n$EndPhysicalNames\n" + NODES + ELEMENTS, "line 6"),
        (HEAD + "$PhysicalNames\n2\n$EndPhysicalNames\n" + NODES + ELEMENTS, "ends too early"),
        (
            HEAD + "$PartitionedEntities\n$EndPartitionedEntities\n" + NODES + ELEMENTS,
            "partitioned",
        ),
        (HEAD_4 + NODES_4 + "$Elements\n1 1 1 1\n2 1 3 1\n1 1 2 3 1\n$EndElements\n", "quadri"),
        (
            HEAD_4 + "$Entities\n0 0 1 0\n1 0 0 0\n$EndEntities\n" + NODES_4 + ELEMENTS,
            "line 6 .* expected an entity",
        ),
        (
            HEAD + NODES + swap(ELEMENTS, "2\n1 2", "3\n9 1 2 8 1 1 9\n1 2"),
            "elements use node 9",
        ),
    ],
)
def test_damaged_gmsh_files_are_refused_with_the_place(text, message, tmp_path):
    path = tmp_path / "bad.msh"
    path.write_text(text)
    with pytest.raises(FileFormatError, match=f"(?s)bad.msh.*{message}"):
        read_mesh(path)


def test_facets_off_the_cells_are_refused(tmp_path):
    nodes = swap(NODES, "\n4\n1", "\n5\n5 3 3 0\n1")
    elements = swap(ELEMENTS, "2\n1 2", "3\n9 1 2 8 1 1 5\n1 2")
    (tmp_path / "a.msh").write_text(HEAD + nodes + elements)
    with pytest.raises(FileFormatError, match="facets '8' use a node that no cell uses"):
        read_mesh(tmp_path / "a.msh")


def test_gmsh_files_with_undecodable_bytes_are_refused(tmp_path):
    data = (HEAD + NODES + ELEMENTS).encode() + b"$Comments\n\xff\n$EndComments\n"
    (tmp_path / "a.msh").write_bytes(data)
    with pytest.raises(FileFormatError, match="bytes that are not text"):
        read_mesh(tmp_path / "a.msh")


REGION = '<DataArray type="Int8" Name="region:lake" format="ascii">0 1 1</DataArray>'
FACETS = '<DataArray type="Int8" Name="facets:rim" format="ascii">0 1 1</DataArray>'


def vtu_text(tmp_path) -> str:
    """A readable file, as ASCII."""
    mesh = rectangle((1, 1))
    points = np.pad(mesh.nodes, ((0, 0), (0, 1)))
    cells = [("triangle", mesh.cells)]
    path = tmp_path / "ascii.vtu"
    meshio.write(path, meshio.Mesh(points, cells), file_format="vtu", binary=False)
    return path.read_text()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("<VTKFile", '<!DOCTYPE VTKFile [<!ENTITY a "b">]><VTKFile', "declares a document type"),
        ('type="UnstructuredGrid"', 'type="PolyData"', "of type 'PolyData', not a VTKFile"),
        ("<VTKFile", "<VTK", "it is not XML, or is cut short"),
        ("</VTKFile>", "<AppendedData></AppendedData></VTKFile>", "its data are appended"),
        ("</Piece>", "</Piece><Piece/>", "it has 2 pieces"),
        ('Name="offsets"', 'Name="other"', "has no Cells/DataArray.*offsets"),
        ('type="Int64" Name="offsets"', 'type="Float64" Name="offsets"', "not integers"),
        ('type="Float64"', 'type="Real"', "unknown type 'Real'"),
        ('format="ascii"', 'format="appended"', "data format 'appended' is not read"),
        ('NumberOfComponents="3"', 'NumberOfComponents="1"', "do not have several coordinates"),
        ('NumberOfComponents="3"', 'NumberOfComponents="5"', "array 'Points' is damaged"),
        ("byte_order", 'compressor="vtkLZ4DataCompressor" byte_order', "save it with zlib"),
        ("\n5\n", "\n9\n", "it has quadrilaterals"),
        ("\n5\n", "\n99\n", "cells of VTK type 99"),
        ("\n5\n", "\n", "2 cell offsets and 1 cell types"),
        ("\n3\n6\n", "\n3\n5\n", "cell offsets do not fit"),
        ("\n5\n5\n", "\n1\n1\n", "it holds points alone"),
        ("</Piece>", f"<CellData>{REGION}</CellData></Piece>", r"region 'lake' has \(3,\) values"),
        ("<Piece", f"<FieldData>{FACETS}</FieldData><Piece", "'rim' do not have 2 corners each"),
    ],
)
def test_damaged_vtu_files_are_refused(old, new, message, tmp_path, capsys):
    text = vtu_text(tmp_path)
    assert old in text, text
    (tmp_path / "bad.vtu").write_text(text.replace(old, new, 1))
    with pytest.raises(FileFormatError, match=f"(?s)bad.vtu.*{message}"):
        read_mesh(tmp_path / "bad.vtu")


def vtu_arrays(data: str, attributes: str = "") -> str:
    return (
        f'<VTKFile type="UnstructuredGrid" byte_order="LittleEndian" header_type="UInt64" '
        f'{attributes}><UnstructuredGrid><Piece><Points><DataArray Name="Points" type="Float64" '
        f'NumberOfComponents="3" format="binary">{data}</DataArray></Points></Piece>'
        "</UnstructuredGrid></VTKFile>"
    )


ZLIB = 'compressor="vtkZLibDataCompressor"'


@pytest.mark.parametrize(
    ("data", "attributes", "message"),
    [
        (base64.b64encode(np.array([80, 1]).tobytes()).decode(), "", "80 bytes .* 8 found"),
        ("AAAA!", "", "not base64"),
        ("AAAA", "", "array 'Points' is damaged"),
        (base64.b64encode(np.array([2**60]).tobytes()).decode(), ZLIB, "the text is shorter"),
        (base64.b64encode(np.array([1, 8, 8, 4]).tobytes()).decode() + "AAAAAA==", ZLIB, "damaged"),
    ],
)
def test_damaged_base64_is_refused(data, attributes, message, tmp_path):
    (tmp_path / "bad.vtu").write_text(vtu_arrays(data, attributes))
    with pytest.raises(FileFormatError, match=f"bad.vtu.*{message}"):
        read_mesh(tmp_path / "bad.vtu")


def test_blocks_larger_than_announced_are_refused(tmp_path):
    block = zlib.compress(bytes(10**6))
    sizes = base64.b64encode(np.array([1, 24, 24, len(block)]).tobytes()).decode()
    data = sizes + base64.b64encode(block).decode()
    (tmp_path / "bad.vtu").write_text(vtu_arrays(data, ZLIB))
    with pytest.raises(FileFormatError, match=r"compressed block 1 does not hold 24 bytes"):
        read_mesh(tmp_path / "bad.vtu")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cells": None}, "has no array 'cells'"),
        ({"nodes": np.arange(3.0)}, "'nodes' must hold real numbers in 2 dimension"),
        ({"cells": np.zeros((2, 3))}, "'cells' must hold integers"),
        ({"cells": np.array([[0, 1, 9]])}, "cells refer to index 9"),
        ({"cells": np.array([[0, 1, 2, 3]])}, "need 3 coordinates, but nodes have 2"),
        ({"facets/a": np.array([[0, 1, 2]])}, "facets 'a' have 3 corners, but .* have 2"),
        ({"facets/a": np.array([[0, 7]])}, "facets 'a' refer to index 7"),
        ({"regions/b": np.array([5])}, "region 'b' refer to index 5"),
    ],
)
def test_archives_that_hold_no_mesh_are_refused(changes, message, tmp_path):
    mesh = rectangle((1, 1))
    arrays = {"nodes": mesh.nodes, "cells": mesh.cells, **changes}
    np.savez(tmp_path / "a.npz", **{k: v for k, v in arrays.items() if v is not None})
    with pytest.raises(FileFormatError, match=f"a.npz.*{message}"):
        read_mesh(tmp_path / "a.npz")


def test_pickles_are_never_opened(tmp_path):
    np.savez(tmp_path / "a.npz", nodes=np.array([{"an": "object"}], dtype=object))
    with pytest.raises(FileFormatError, match=r"damaged NumPy archive: .*allow_pickle=False"):
        read_mesh(tmp_path / "a.npz")


def test_a_curve_in_the_plane_is_refused(tmp_path):
    np.savez(tmp_path / "a.npz", nodes=np.eye(2), cells=np.array([[0, 1]]))
    with pytest.raises(FileFormatError, match="a curve in 2 dimensions"):
        read_mesh(tmp_path / "a.npz")
