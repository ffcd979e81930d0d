"""Readings become observations as the table [observations] says, and what was lost is told."""

import gzip
import tomllib

import numpy as np
import pytest
from pydantic import ValidationError

from riesz.case.data.covariates import (
    CURVE_LENGTH,
    CURVE_SHARE,
    covariate_design,
    encodings_of,
    every_encoding,
)
from riesz.case.data.read import prepare_data
from riesz.case.data.rows import data_rows_content, read_data_rows
from riesz.case.data.schema import ObservationsTable
from riesz.case.table import error_text
from riesz.errors import FileFormatError, RieszError
from riesz.notes import Note
from riesz.priors.kernels import Matern52

LEVELS = """site,date,head,dropped,sd
0101,1959-12-31,1.0,,0.1
0101,1960-01-01,10.0,,0.2
0101,1965-06-01 12:30,12.0,,0.2
0101,1979-12-31,17.0,,0.2
0202,1970-01-01,20.0,,0.3
0202,1971-01-01,99.0,pumped,0.3
0303,1972-01-01,30.0,,0.4
0404,1973-01-01,40.0,,0.5
"""

SITES = """site,x,y,use
0101,1,2,True
0202,3,4,True
0303,5,6,False
0404,7,8,true
"""


def made(folder, text, tables, **files):
    (folder / "levels.csv").write_text(text)
    for name, content in files.items():
        (folder / f"{name}.csv").write_text(content)
    content = {"file": "levels.csv", **tomllib.loads(tables)}
    return prepare_data(folder, ObservationsTable.model_validate(content), 0.5)


def refused(content):
    with pytest.raises(ValidationError) as told:
        ObservationsTable.model_validate({"file": "a.csv", **tomllib.loads(content)})
    return error_text(told.value, {})


WINDOW = "from 1960-01-01 to 1979-12-31"
JOINED = """value = "head"
site = "site"
sites = "sites"
date = "date"
from = 1960-01-01
to = "1979-12-31"
where = { dropped = "" }
sites_where = { use = true }
""".replace('"sites"', '"sites.csv"')


def test_dated_readings_become_one_observation_a_site(tmp_path):
    found = made(tmp_path, LEVELS, f'{JOINED}aggregate = "median"', sites=SITES)
    np.testing.assert_array_equal(found.points, [[1, 2], [3, 4], [7, 8]])
    np.testing.assert_array_equal(found.values, [12.0, 20.0, 40.0])
    np.testing.assert_array_equal(found.readings, [3, 1, 1])
    assert found.sites == ["0101", "0202", "0404"]
    assert found.told == (
        Note("rows_of_file", count=8, file="levels.csv"),
        Note("rows_filtered", column="dropped", wanted="''", count=7, total=8, file=""),
        Note("rows_in_window", column="date", window=WINDOW, count=6, total=7, undated=0),
        Note("rows_filtered", column="use", wanted="True", count=3, total=4, file="sites.csv"),
        Note("unknown_sites", count=1, sites=1, example="0303", file="sites.csv"),
        Note("aggregated", how="median", fewest=1, most=3, count=3),
    )


@pytest.mark.parametrize(("how", "value"), [("mean", 13.0), ("last", 17.0)])
def test_sites_may_be_averaged_or_their_last_reading_taken(tmp_path, how, value):
    found = made(tmp_path, LEVELS, f'{JOINED}aggregate = "{how}"', sites=SITES)
    assert found.values.tolist() == [value, 20.0, 40.0]


def test_noise_comes_from_a_column_or_from_scatter(tmp_path):
    column = made(tmp_path, LEVELS, f'{JOINED}aggregate = "median"\nsd = "sd"', sites=SITES)
    np.testing.assert_allclose(column.sd, [0.2, 0.3, 0.5])
    scattered = made(
        tmp_path, LEVELS, f'{JOINED}aggregate = "median"\nsd_from_scatter = true', sites=SITES
    )
    # Distances to 12 are 2, 0 and 5; sites with few readings scatter as a typical one.
    np.testing.assert_allclose(scattered.sd, 1.4826 * 2.0)
    quiet = LEVELS.replace("10.0", "11.99").replace("17.0", "12.01")
    at_least = made(
        tmp_path, quiet, f'{JOINED}aggregate = "median"\nsd_from_scatter = true', sites=SITES
    )
    np.testing.assert_allclose(at_least.sd, 0.5)
    with pytest.raises(FileFormatError, match=r"line 2: sd is 0, but a noise sd must be positive"):
        made(
            tmp_path, LEVELS.replace(",,0.1", ",,0"), 'x = "sd"\ny = "sd"\nvalue = "head"\nsd="sd"'
        )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("0404", "4.04e14", r"line 9: site is '4.04e14', an identifier .* lost digits"),
        ("0404", "430836113143401.0", "an identifier that was saved as a floating number"),
        ("0404,", ",", "line 9: site is empty"),
        ("1973-01-01", "1973-13-01", "line 9: date is '1973-13-01': give a date such as"),
    ],
)
def test_bad_sites_and_dates_are_told_with_their_line(tmp_path, old, new, message):
    with pytest.raises(FileFormatError, match=message):
        made(tmp_path, LEVELS.replace(old, new), JOINED, sites=SITES)


def test_tables_that_do_not_meet_are_told(tmp_path):
    with pytest.raises(FileFormatError, match=r"none of its sites, such as '0101', is in .*'101'"):
        made(tmp_path, LEVELS, JOINED, sites=SITES.replace("\n0", "\n"))
    with pytest.raises(FileFormatError, match=r"line 6: the site '0101' is there twice"):
        made(tmp_path, LEVELS, JOINED, sites=f"{SITES}0101,9,9,True\n")
    with pytest.raises(FileFormatError, match=r"leaves none of 8 rows: dropped holds '', 'pumped'"):
        made(tmp_path, LEVELS, JOINED.replace('dropped = ""', 'dropped = "x"'), sites=SITES)
    late = JOINED.replace("1960-01-01", "2001-01-01").replace('to = "1979-12-31"', "")
    with pytest.raises(FileFormatError, match=r"no row has a date from .*: they go from 1959"):
        made(tmp_path, LEVELS, late, sites=SITES)
    with pytest.raises(FileFormatError, match=r"no column 'dropt': did you mean 'dropped'\?"):
        made(tmp_path, LEVELS, JOINED.replace("{ dropped", "{ dropt"), sites=SITES)


PLACES = "x,y,value,n,kind\n0,0,1.5,3,a\n1,0,<0.5,4,b\n2,1, < 2 ,5,a\n3,1,4.0,x,c\n"


def test_filters_take_values_lists_and_ranges(tmp_path):
    for where, kept in (
        ("{ n = 3 }", [0]),
        ("{ n = { min = 4 } }", [1, 2]),
        ("{ n = { min = 3.5, max = 4 } }", [1]),
        ('{ kind = ["b", "c"] }', [1, 3]),
        ('{ kind = "a", n = { max = 4 } }', [0]),
    ):
        found = made(tmp_path, PLACES, f"where = {where}")
        assert found.points[:, 0].tolist() == kept


def test_values_below_a_detection_limit_are_kept_as_such(tmp_path):
    found = made(tmp_path, PLACES, 'transform = "log"')
    assert found.censored.tolist() == [False, True, True, False]
    np.testing.assert_allclose(np.exp(found.values), [1.5, 0.5, 2.0, 4.0])
    assert Note("below_limit", count=2, total=4) in found.told
    with pytest.raises(FileFormatError, match=r"line 2: value is 0, and transform = 'log' needs"):
        made(tmp_path, PLACES.replace("1.5", "0"), 'transform = "log"')
    with pytest.raises(FileFormatError, match=r"line 3: value is '<', not a finite number"):
        made(tmp_path, PLACES.replace("<0.5", "<"), "")


def test_a_site_is_censored_where_half_of_its_readings_are(tmp_path):
    table = "s,x,y,value\na,0,0,<1\na,0,0,2\nb,1,0,3\nb,1,0,4\nb,1,2,<9\n"
    found = made(tmp_path, table, 'site = "s"\naggregate = "median"')
    assert found.censored.tolist() == [True, False]
    assert found.notes[0] == Note("moving_sites", count=1, distance=2.0)
    with pytest.raises(FileFormatError, match=r"line 2: a mean of readings below a detection"):
        made(tmp_path, table, 'site = "s"\naggregate = "mean"')


def test_a_prepared_table_is_read_again_to_the_last_digit(tmp_path):
    asked = f'{JOINED}aggregate = "median"\nsd = "sd"\ncovariates = ["dropped2", "kind"]'
    text = "\n".join(
        f"{line},{'dropped2,kind' if i == 0 else f'{np.pi * i},k{i % 2}'}"
        for i, line in enumerate(LEVELS.splitlines())
    )
    found = made(tmp_path, text, asked, sites=SITES)
    names = ObservationsTable.model_validate({"file": "levels.csv", **tomllib.loads(asked)})
    path = tmp_path / "observations.csv"
    path.write_bytes(data_rows_content(found))
    again = read_data_rows(path, names)
    for name in ("points", "values", "censored", "sd", "readings"):
        np.testing.assert_array_equal(getattr(again, name), getattr(found, name))
    assert again.sites == found.sites
    np.testing.assert_array_equal(again.covariates["dropped2"], found.covariates["dropped2"])
    assert again.covariates["kind"] == found.covariates["kind"]


def test_covariates_become_standardised_numbers_and_categories(tmp_path):
    table = "x,y,value,Ni,Rock\n0,0,1,1,lime\n1,0,2,10,marl\n2,1,3,100,lime\n3,1,4,1000,clay\n"
    found = made(tmp_path, table, 'covariates = ["Ni", "Rock"]')
    design, labels = covariate_design(found, logs=["Ni"])
    assert labels == (
        "log Ni, by its sd of 2.574",
        "Rock: clay against lime",
        "Rock: marl against lime",
    )
    np.testing.assert_allclose(design[:, 0], np.array([-3, -1, 1, 3]) / np.sqrt(5))
    np.testing.assert_array_equal(design[:, 1:], [[0, 0], [0, 1], [0, 0], [1, 0]])
    with pytest.raises(FileFormatError, match="Rock is in log_covariates, but holds words"):
        encodings_of(found, ["Rock"])
    with pytest.raises(FileFormatError, match=r"line 3: Ni is 'low', not a finite number"):
        made(tmp_path, table.replace("2,10,", "2,low,"), 'covariates = ["Ni"]')
    with pytest.raises(FileFormatError, match=r"line 5: the covariate Rock is missing \(1 of 4"):
        made(tmp_path, table.replace(",clay", ","), 'covariates = ["Rock"]')
    same = made(
        tmp_path, table.replace("lime", "marl").replace("clay", "marl"), 'covariates=["Rock"]'
    )
    with pytest.raises(FileFormatError, match=r"Rock has 1 categories"):
        encodings_of(same, [])


def test_curves_have_the_covariance_of_a_process_of_all_numbers_together(tmp_path):
    numbers = np.random.default_rng(0).uniform(1, 9, size=(12, 2)).round(2)
    rows = "".join(f"{i},0,1,{a},{b}\n" for i, (a, b) in enumerate(numbers))
    found = made(tmp_path, "x,y,value,Ni,Zn\n" + rows, 'covariates = ["Ni", "Zn"]')
    (ni, zn, curve) = every_encoding(found, ["Ni"], curved=True)
    columns = curve.columns(found.path, found.covariates)
    standard = np.hstack([one.columns(found.path, found.covariates) for one in (ni, zn)])
    expected = Matern52(CURVE_LENGTH, CURVE_SHARE).matrix(standard, standard)
    np.testing.assert_allclose(columns @ columns.T, expected, atol=1e-5)  # twelve knots: exact
    words = made(tmp_path, "x,y,value,r\n0,0,1,a\n1,0,1,b\n", 'covariates = ["r"]')
    with pytest.raises(FileFormatError, match="all covariates are words"):
        every_encoding(words, [], curved=True)


def test_gzipped_tables_are_read_and_damaged_ones_told(tmp_path):
    path = tmp_path / "wells.csv.gz"
    path.write_bytes(gzip.compress(PLACES.encode()))
    names = ObservationsTable.model_validate({"file": "wells.csv.gz"})
    assert prepare_data(tmp_path, names, None).num_rows == 4
    path.write_bytes(gzip.compress(PLACES.encode())[:-12])
    with pytest.raises(FileFormatError, match="is not a whole gzip file"):
        prepare_data(tmp_path, names, None)
    other = ObservationsTable.model_validate({"file": "wells.pdf"})
    with pytest.raises(FileFormatError, match=r"tables are read from files that end in \.csv"):
        prepare_data(tmp_path, other, None)


def test_points_of_a_geopackage_are_observations(tmp_path):
    geopandas = pytest.importorskip("geopandas")
    places = geopandas.points_from_xy([1.0, 2.0], [3.0, 4.5])
    frame = geopandas.GeoDataFrame(
        {"head": [5.0, 6.0], "name": ["a", None]}, geometry=places, crs="EPSG:32612"
    )
    path = tmp_path / "wells.gpkg"
    frame.to_file(path, layer="one")
    names = ObservationsTable.model_validate({"file": "wells.gpkg", "value": "head"})
    found = prepare_data(tmp_path, names, None)
    np.testing.assert_array_equal(found.points, [[1.0, 3.0], [2.0, 4.5]])
    assert found.values.tolist() == [5.0, 6.0]
    assert found.crs == "EPSG:32612"
    frame.to_file(path, layer="two")
    with pytest.raises(FileFormatError, match=r"has 2 layers: choose one by layer = 'one', or"):
        prepare_data(tmp_path, names, None)
    wrong = ObservationsTable.model_validate({"file": "wells.gpkg", "layer": "tow"})
    with pytest.raises(FileFormatError, match=r"has no layer 'tow': did you mean 'two'\?"):
        prepare_data(tmp_path, wrong, None)
    path.write_bytes(b"nothing")
    with pytest.raises(FileFormatError, match=r"wells\.gpkg is no map layer"):
        prepare_data(tmp_path, names, None)


@pytest.mark.parametrize("engine", ["scipy", "h5netcdf"])
def test_variables_of_one_dimension_in_netcdf_are_a_table(engine, tmp_path):
    xarray = pytest.importorskip("xarray")
    days = np.array(["1970-01-01", "1980-01-01"], dtype="datetime64[ns]")
    data = {"x": ("well", [1.0, 2.0]), "y": ("well", [3, 4]), "head": ("well", [5.0, np.nan])}
    data |= {"day": ("well", days), "grid": (("a", "b"), np.zeros((2, 2)))}
    xarray.Dataset(data).to_netcdf(tmp_path / "wells.nc", engine=engine)
    begins = {"scipy": b"CDF", "h5netcdf": b"\x89HDF"}[engine]  # versions 3 and 4
    assert (tmp_path / "wells.nc").read_bytes().startswith(begins)
    content = {"file": "wells.nc", "value": "head", "date": "day", "to": "1975-01-01"}
    found = prepare_data(tmp_path, ObservationsTable.model_validate(content), None)
    assert found.points.tolist() == [[1.0, 3.0]]
    assert found.values.tolist() == [5.0]
    for value, message in (
        ("hed", r"has no variable 'hed': did you mean 'head'\?"),
        ("grid", "grid has the dimensions a, b: observations are read along one"),
    ):
        names = ObservationsTable.model_validate({"file": "wells.nc", "value": value})
        with pytest.raises(FileFormatError, match=message):
            prepare_data(tmp_path, names, None)


def test_without_the_extra_it_is_told_what_to_install(tmp_path, monkeypatch):
    def absent(name):
        raise ImportError(name)

    monkeypatch.setattr("riesz.io.tables.layers.import_module", absent)
    (tmp_path / "wells.nc").write_bytes(b"")
    names = ObservationsTable.model_validate({"file": "wells.nc"})
    with pytest.raises(RieszError, match=r"NetCDF files need xarray, .*pip install '\.\[gis\]'"):
        prepare_data(tmp_path, names, None)


def test_without_its_reader_netcdf_4_is_not_called_broken(tmp_path, monkeypatch):
    (tmp_path / "wells.nc").write_bytes(b"\x89HDF\r\n")
    names = ObservationsTable.model_validate({"file": "wells.nc"})
    with pytest.raises(FileFormatError, match=r"wells\.nc is no NetCDF file"):
        prepare_data(tmp_path, names, None)

    def absent(name):
        if name == "h5netcdf":
            raise ImportError(name)

    monkeypatch.setattr("riesz.io.tables.layers.import_module", absent)
    with pytest.raises(RieszError, match=r"NetCDF-4 files need h5netcdf, .*pip install"):
        prepare_data(tmp_path, names, None)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("from = 1960-01-01", "has the key 'from', which needs 'date': the column of the dates"),
        ('date = "d"\nfrom = 1960-01-01\nto = 1950-01-01', "from must be before to"),
        ('date = "d"\nfrom = "1960"', "is '1960': give a date such as '1960-01-31'"),
        ('site = "s"\naggregate = "medain"', "is 'medain': did you mean 'median'?"),
        ('site = "s"\naggregate = "last"', "which needs 'date': the last reading is the latest"),
        ('sites = "s.csv"', "which needs 'site': the column that both tables share"),
        ("sites_where = { a = 1 }", "which needs 'sites'"),
        ("sd_from_scatter = true", "which needs 'aggregate'"),
        ("where = { a = {} }", "is {}: give a text, a number, a list of them, or a range such as"),
        ("where = { a = { mim = 1 } }", "is {'mim': 1}: give a text, a number"),
        ("where = { a = [] }", "is []: give a text"),
        ('covariates = ["x"]', "has the covariate 'x', which is a column of the values"),
        ('covariates = ["a", "a"]', "has the covariate 'a' twice"),
        ("curved = true", "has the key 'curved', which needs 'covariates'"),
        ('log_covariates = ["a"]', "has 'a' in log_covariates: the covariates are none"),
        ("effect_sd = 1.0", "which needs 'covariates': those whose effects it is for"),
        ('transform = "ln"', "is 'ln': It may be log"),
        ('outside = "drp"', "is 'drp': did you mean 'drop'?"),
        ('form = "1960-01-01"', "has the key 'form', which is not known: did you mean 'from'?"),
    ],
)
def test_keys_that_make_no_sense_are_told(content, message):
    assert message in refused(content)
