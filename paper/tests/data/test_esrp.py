"""The aquifer is read as its files have it, and files that are not right are told."""

import json

import numpy as np
import pytest
from paper.tests.data.raw_esrp import write_raw

from riesz.errors import FileFormatError, RieszError
from riesz_paper.data.esrp import esrp, splits_of
from riesz_paper.data.esrp_build import build_esrp
from riesz_paper.data.esrp_files import told_crs
from riesz_paper.data.esrp_raw import read_raw

OUTLINE = "boundary_simplified.geojson"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder of the form of the real one, from made-up files."""
    raw, made = tmp_path_factory.mktemp("raw"), tmp_path_factory.mktemp("esrp")
    write_raw(raw)
    build_esrp(read_raw(raw), made)
    return {one.name: one.read_bytes() for one in made.iterdir()}


@pytest.fixture
def folder(built, tmp_path):
    for name, content in built.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


def swap(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def swap_json(path, change):
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def test_the_real_splits_have_the_wells_of_the_protocol(esrp_folder):
    aquifer = esrp(esrp_folder)
    sizes = {
        name: [(len(one.training), len(one.test)) for one in splits_of(aquifer, name)]
        for name in ("A", "B1", "B2")
    }
    assert sizes == {"A": [(127, 177)], "B1": [(111, 20)], "B2": [(65, 83)]}
    folds = splits_of(aquifer, "D")
    assert [one.name for one in folds] == [f"D-{i}" for i in range(8)]
    assert sum(len(one.test) for one in folds) == 177
    assert np.sum(splits_of(aquifer, "B1")[0].hull_distance_km < 25) == 17
    assert len(aquifer.streams) == 761
    assert aquifer.elevation.feet.shape == (114, 114)


def test_the_land_surface_is_that_of_the_elevation_model(esrp_folder):
    aquifer = esrp(esrp_folder)
    wells, grid = splits_of(aquifer, "A")[0].test, aquifer.elevation
    column = np.abs(grid.x[:, None] - wells.points[:, 0]).argmin(axis=0)
    row = np.abs(grid.y[:, None] - wells.points[:, 1]).argmin(axis=0)
    assert np.median(np.abs(grid.feet[row, column] - wells.surface)) < 10  # ft
    np.testing.assert_allclose(wells.depth, wells.surface - wells.head)


def test_a_folder_of_ones_own_is_read(folder):
    aquifer = esrp(folder)
    (split,) = splits_of(aquifer, "B1")
    low, high = aquifer.fence.min(axis=0), aquifer.fence.max(axis=0)
    inside = [
        np.all((low < w.points) & (w.points < high), axis=1) for w in (split.training, split.test)
    ]
    assert inside[0].all()
    assert not inside[1].any()
    assert (split.hull_distance_km > 0).all()


def test_no_test_block_is_trained_on(folder):
    for fold in splits_of(esrp(folder), "D"):
        assert not set(fold.training.site_numbers) & set(fold.test.site_numbers)


def test_the_digest_changes_with_any_head(folder):
    before = esrp(folder).digest()
    assert esrp(folder).digest() == before
    rows = (folder / "split_A.csv").read_text().splitlines()
    cells = rows[1].split(",")
    cells[1] = str(float(cells[1]) + 0.01)
    (folder / "split_A.csv").write_text("\n".join([rows[0], ",".join(cells), *rows[2:]]) + "\n")
    assert esrp(folder).digest() != before


def test_an_unknown_split_is_told(folder):
    with pytest.raises(RieszError, match=r"no split 'B3': .*There is A, B1, B2 or D"):
        splits_of(esrp(folder), "B3")


def test_where_the_data_should_be_is_told(monkeypatch, tmp_path):
    monkeypatch.delenv("RIESZ_DATA", raising=False)
    with pytest.raises(RieszError, match=r"RIESZ_DATA is not set.*riesz data fetch esrp"):
        esrp()
    monkeypatch.setenv("RIESZ_DATA", str(tmp_path))
    with pytest.raises(RieszError, match=r"no folder .*esrp: get the data by: riesz data fetch"):
        esrp()
    with pytest.raises(RieszError, match=r"outside is 'ignore': it is refuse, keep or drop"):
        esrp(tmp_path, outside="ignore")  # pyright: ignore


@pytest.mark.parametrize(
    "name", ["wells.csv", OUTLINE, "streams.geojson", "dem_1km.npz", "split_D.csv"]
)
def test_a_missing_file_is_told(folder, name):
    (folder / name).unlink()
    with pytest.raises(FileFormatError, match=rf"{name} cannot be read: No such file"):
        esrp(folder)


FIRST = "433000112500000"


@pytest.mark.parametrize(
    ("name", "old", "new", "words"),
    [
        (
            "wells.csv",
            "x_m",
            "x",
            r"wells.csv has no column 'x_m': .* It has site_no,",
        ),
        ("split_B2.csv", "role", "set", "has no column 'role'"),
        ("split_D.csv", "block", "fold", "has no column 'block'"),
        ("wells.csv", "208287.08", "east", "line 2: x_m is 'east', not a finite number"),
        (
            "wells.csv",
            FIRST,
            "4.330001125e+14",
            r"'4.330001125e\+14', which was written as a number",
        ),
        ("wells.csv", FIRST, f"{FIRST}.0", r"000.0', which was written as a number: read site_no"),
        ("split_A.csv", FIRST, FIRST[:-1], "with 14 digits: a well has 15; read site_no as text"),
        ("wells.csv", FIRST, "USGS 1", "a site number is 15 digits; read site_no as text"),
        ("wells.csv", FIRST, "433000112500001", "line 3: well .*01 is there already, on line 2"),
        ("split_B1.csv", ",train,", ",training,", "role is 'training'; it is train or test"),
        ("wells.csv", ",True,6", ",yes,6", "line 2: use is 'yes'; it is True or False"),
        ("wells.csv", "208287.08", "208297.08", "but wells.csv has it at"),
        ("split_A.csv", FIRST, "433000112500003", "wells.csv has no well .*03 in use"),
    ],
)
def test_tables_that_are_not_right_are_told(folder, name, old, new, words):
    swap(folder / name, old, new)
    with pytest.raises(FileFormatError, match=words):
        esrp(folder)


def test_a_well_twice_for_one_role_is_told(folder):
    text = (folder / "split_A.csv").read_text()
    (folder / "split_A.csv").write_text(text + text.splitlines()[1] + "\n")
    with pytest.raises(FileFormatError, match=rf"well {FIRST} for train is there already"):
        esrp(folder)


def shrink(content):
    ring = content["features"][0]["geometry"]["coordinates"][0]
    ring[:] = [[x, min(y, 2.6e5)] for x, y in ring]


def test_wells_outside_are_refused_kept_or_dropped(folder):
    whole = esrp(folder)
    swap_json(folder / OUTLINE, shrink)
    with pytest.raises(
        FileFormatError, match=r"\d of 35 wells lie outside .* WELL \d+ .* km from it"
    ):
        esrp(folder)
    with pytest.warns(UserWarning, match=r"\d of 35 wells lie outside the boundary and are kept"):
        kept = esrp(folder, outside="keep")
    with pytest.warns(
        UserWarning, match=r"\d of 35 wells lie outside the boundary and are dropped"
    ):
        dropped = esrp(folder, outside="drop")
    many = [len(splits_of(one, "A")[0].test) for one in (whole, kept, dropped)]
    assert many[0] == many[1] > many[2]
    assert splits_of(dropped, "A")[0].test.points[:, 1].max() < 2.6e5


def test_wells_in_degrees_are_told(folder):
    rows = [line.split(",") for line in (folder / "wells.csv").read_text().splitlines()]
    degrees = [rows[0], *([*r[:2], r[4], r[5], *r[4:]] for r in rows[1:])]
    (folder / "wells.csv").write_text("\n".join(map(",".join, degrees)) + "\n")
    with pytest.raises(FileFormatError, match=r"wells.csv: the points look like longitude"):
        esrp(folder)


def name_utm(content):
    del content["crs_proj4"]
    content["crs"] = {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::32612"}}


def test_layers_in_different_coordinates_are_told(folder):
    swap_json(folder / "streams.geojson", name_utm)
    with pytest.raises(FileFormatError, match=r"streams.geojson is in EPSG:32612, but .*proj=aea"):
        esrp(folder)


def test_metres_without_a_crs_are_told(folder):
    swap_json(folder / OUTLINE, lambda content: content.pop("crs_proj4"))
    with pytest.raises(FileFormatError, match=r'names no crs.*RFC 7946.* add a member "crs"'):
        esrp(folder)


def test_the_outline_is_one_polygon(folder):
    def twice(content):
        content["features"] *= 2

    swap_json(folder / OUTLINE, twice)
    with pytest.raises(FileFormatError, match="has 2 rings: it must be one polygon"):
        esrp(folder)


def test_elevations_that_do_not_fit_their_grid_are_told(folder):
    path = folder / "dem_1km.npz"
    np.savez(path, x_m=np.arange(3.0), y_m=np.arange(2.0), elevation_ft=np.ones((3, 2)))
    with pytest.raises(FileFormatError, match=r"elevation_ft has shape \(3, 2\)"):
        esrp(folder)
    np.savez(path, x_m=np.arange(3.0))
    with pytest.raises(FileFormatError, match="has no array 'y_m': it has x_m"):
        esrp(folder)
    np.savez(path, x_m=np.array(["a"]), y_m=np.arange(2.0), elevation_ft=np.ones((3, 2)))
    with pytest.raises(FileFormatError, match="x_m holds no numbers"):
        esrp(folder)
    path.write_bytes(b"PK")
    with pytest.raises(FileFormatError, match=r"it is no whole .npz file"):
        esrp(folder)


def test_a_layer_without_crs_is_in_longitude_and_latitude_or_refused():
    degrees, metres = np.array([[-112.0, 43.5]]), np.array([[2e5, 2.2e5]])
    own = {"crs": {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::32612"}}}
    assert told_crs({}, degrees, "a.geojson") == "EPSG:4326"
    assert told_crs(own, metres, "a.geojson") == "EPSG:32612"
    with pytest.raises(FileFormatError, match=r"a.geojson names no crs.*\(200000, 220000\): add a"):
        told_crs({}, metres, "a.geojson")
