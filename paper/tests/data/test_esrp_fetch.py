"""The data set is made from downloaded files, or not at all."""

import hashlib
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import numpy as np
import pytest
import rdata
from paper.tests.data.raw_esrp import frame, texts, write, write_raw
from rdata.conversion.to_r import ConverterFromPythonToR, build_r_object
from rdata.parser import RObjectType

from riesz.errors import FileFormatError, RieszError
from riesz.io.tables.layers import read_csv
from riesz_paper.data.esrp import esrp, splits_of
from riesz_paper.data.esrp_download import SHA256, fetch_esrp
from riesz_paper.data.esrp_raw import constructors, iso_dates, raster_from, read_raw

FILES = [
    *("boundary.geojson", "boundary_simplified.geojson", "dem_1km.npz", "inl_boundary.geojson"),
    *("levels_pre2000.csv.gz", "split_A.csv", "split_B1.csv", "split_B2.csv", "split_D.csv"),
    *("streams.geojson", "wells.csv"),
]


class Quiet(SimpleHTTPRequestHandler):
    """A server that says nothing."""

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The address of made-up files, and their hashes."""
    folder = tmp_path_factory.mktemp("served")
    write_raw(folder)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    hashes = {one.name: hashlib.sha256(one.read_bytes()).hexdigest() for one in folder.iterdir()}
    yield SimpleNamespace(url=f"http://127.0.0.1:{server.server_port}/", hashes=hashes)
    server.shutdown()
    thread.join()
    server.server_close()


def test_what_is_fetched_can_be_read(served, tmp_path):
    out = tmp_path / "data" / "esrp"
    assert fetch_esrp(out, base_url=served.url, hashes=served.hashes) == FILES
    assert sorted(one.name for one in out.iterdir()) == FILES
    assert [one.name for one in out.parent.iterdir()] == ["esrp"]
    aquifer = esrp(out)
    (split,) = splits_of(aquifer, "A")
    # heads fall by a foot a kilometre eastwards, on flat land
    np.testing.assert_allclose(split.test.head, 4500 - split.test.points[:, 0] / 1e3)
    np.testing.assert_allclose(split.test.surface, 5000)
    np.testing.assert_allclose(aquifer.elevation.feet, 5000)
    reasons = {row["site_nm"]: row["exclude_reason"] for row in rows_in(out / "wells.csv")}
    assert {name: told for name, told in reasons.items() if told} == {
        "WELL 3": "perched-by-head",
        "WELL 4": "perched-network",
        "WELL 5": "altitude-conflicts-with-DEM",
        "WELL 6": "deep-test-hole",
        "WELL 7": "no-levels",
    }
    dates = [row["date"] for row in rows_in(out / "levels_pre2000.csv.gz")]
    assert max(dates) < "2000"
    assert len(aquifer.streams) == 1
    np.testing.assert_array_equal(aquifer.streams[0], [[1.5e5, 2e5], [1.7e5, 2e5]])


def rows_in(path):
    table = read_csv(path)
    return [dict(zip(table.header, row, strict=True)) for row in table.rows]


def test_the_same_files_make_the_same_bytes(served, tmp_path):
    for name in ("one", "two"):
        fetch_esrp(tmp_path / name, base_url=served.url, hashes=served.hashes)
    for name in FILES:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_a_damaged_download_names_both_hashes_and_leaves_nothing(served, tmp_path):
    wrong = {**served.hashes, "inl.rda": SHA256["inl.rda"]}
    words = rf"inl.rda came damaged .* is {served.hashes['inl.rda']}, not {SHA256['inl.rda']}"
    with pytest.raises(FileFormatError, match=words):
        fetch_esrp(tmp_path / "esrp", base_url=served.url, hashes=wrong)
    assert not list(tmp_path.iterdir())


def test_files_that_are_not_there_are_told(served, tmp_path):
    with pytest.raises(FileFormatError, match=r"nowhere/gwl.rda cannot be downloaded: .*404"):
        fetch_esrp(tmp_path / "esrp", base_url=f"{served.url}nowhere/")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_there_is_left_alone(served, tmp_path):
    (tmp_path / "note.txt").write_text("mine")
    with pytest.raises(RieszError, match=r"is there already: remove it, or give another"):
        fetch_esrp(tmp_path, base_url=served.url, hashes=served.hashes)
    assert (tmp_path / "note.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            {"gwl": frame({"site_no": texts(["1"])})},
            "gwl.rda has no column 'lev_dt': it has site_no",
        ),
        ({"gwl": texts(["1"])}, "gwl.rda holds a .*, not a table"),
        ({"crs": texts(["a"])}, "crs.rda holds a .* without a wkt"),
        ({"dem": {"definition": "rast()"}}, "a raster without values: it has definition"),
        ({"dem": {"definition": "rast(ncols=2)", "values": np.ones(4)}}, "definition has no nrows"),
    ],
)
def test_r_files_of_another_form_are_told(tmp_path, changed, words):
    write_raw(tmp_path, **changed)
    with pytest.raises(FileFormatError, match=words):
        read_raw(tmp_path)


def test_r_files_that_cannot_be_read_are_told(tmp_path):
    write_raw(tmp_path)
    (tmp_path / "crs.rda").unlink()
    write(tmp_path, "inl", 1.0)
    (tmp_path / "esrp.rda").write_bytes((tmp_path / "inl.rda").read_bytes())
    with pytest.raises(FileFormatError, match=r"esrp.rda holds no 'esrp': it holds inl"):
        read_raw(tmp_path)
    (tmp_path / "esrp.rda").write_bytes(b"damaged")
    with pytest.raises(FileFormatError, match=r"esrp.rda is not an R data file"):
        read_raw(tmp_path)
    (tmp_path / "sites.rda").unlink()
    with pytest.raises(FileFormatError, match=r"sites.rda cannot be read: No such file"):
        read_raw(tmp_path)


def test_a_packed_raster_has_its_first_cell_in_the_north_west():
    text = "rast(ncols=3, nrows=2, nlyrs=1, xmin=-10, xmax=5, ymin=1e1, ymax=20.5, names='e')"
    packed = SimpleNamespace(definition=[text], values=np.arange(6.0)[:, None])
    raster = raster_from(packed)
    np.testing.assert_array_equal(raster.values, [[0, 1, 2], [3, 4, 5]])
    np.testing.assert_allclose(raster.corner, [-10, 20.5])
    np.testing.assert_allclose(raster.cell, [5, 5.25])
    with pytest.raises(FileFormatError, match="has 5 cells, not 3 x 2"):
        raster_from(SimpleNamespace(definition=[text], values=np.arange(5.0)))


def test_a_raster_of_class_s4_is_read_by_its_slots():
    slots = {
        "definition": "rast(ncols=2, nrows=1, xmin=0, xmax=2, ymin=0, ymax=1)",
        "values": np.array([[3.0], [4.0]]),
        "class": "PackedSpatRaster",
    }
    attributes = ConverterFromPythonToR().convert_to_r_attributes(slots)
    packed = build_r_object(RObjectType.S4, is_object=True, attributes=attributes)
    with pytest.warns(UserWarning, match="Missing constructor"):
        found = rdata.conversion.convert(packed, constructors(rdata))
    np.testing.assert_array_equal(raster_from(found).values, [[3.0, 4.0]])


def test_dates_are_those_of_the_place_before_1970_too():
    seconds = np.array([-86_400.0, 3_600.0, np.nan])
    told = ["1969-12-30T17:00", "1969-12-31T18:00", ""]
    assert iso_dates(seconds, "America/Denver").tolist() == told
