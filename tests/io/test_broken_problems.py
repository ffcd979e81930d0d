"""Thirty broken problem files, each with the message that mends it.

`tests/io/broken_problems` would hold thirty nearly equal files: they are one file and its changes.
"""

import json

import pytest

from riesz.errors import RieszError
from riesz.io.problem_file import read_problem

WHOLE = """crs = "EPSG:32612"

[domain]
outline = "area.geojson"
max_edge = 3000
levels = 2

[observations]
file = "levels.csv"
sites = "wells.csv"
site = "site_no"
x = "x_m"
y = "y_m"
value = "head_ft"
date = "date"
from = 1960-01-01
to = 1979-12-31
where = { drop_reason = "" }
aggregate = "median"

[noise]
sd = 2.0

[equation]
diffusion = "transmissivity"
source = 1e-4

[boundary.outer]
value = "rim"

[unknowns.transmissivity]
prior = "log-gp"
median = 1000
log_sd = 1.0

[unknowns.rim]
prior = "boundary-gp"
mean = 100
sd = 10

[engine]
name = "laplace"
"""

LEVELS = (
    "site_no,date,head_ft,drop_reason\n01,1961-02-03,90,\n02,1962-03-04,95,\n03,1990-01-01,9,\n"
)
WELLS = "site_no,x_m,y_m\n01,1000,1000\n02,2000,3000\n03,4000,2000\n"

BROKEN = [
    ("[domain]", "[domian]", r"the file has the key 'domian'.*did you mean 'domain'\?"),
    ('outline = "area', 'outlin = "area', r"domain has the key 'outlin'.*'outline'\?"),
    ("area.geojson", "aera.geojson", r"aera\.geojson cannot be read: No such file"),
    ("area.geojson", "area.kml", r"give a file that ends in \.geojson, \.json, \.gpkg or \.shp"),
    ("max_edge = 3000", 'max_edge = "3 km"', "domain.max_edge is '3 km': give a number"),
    ("max_edge = 3000\n", "", "domain lacks the key 'max_edge'"),
    ("max_edge = 3000", "max_edge = 0.3", "the finest mesh would have .* cells or more"),
    ("levels = 2", "margin = 10.0", "'margin', which goes with around_observations"),
    ("EPSG:32612", "UTM 12", "crs is 'UTM 12': give an EPSG code, such as 'EPSG:32612'"),
    ("EPSG:32612", "EPSG:32611", "area.geojson is in EPSG:32612, by its own crs, but the problem"),
    ("levels.csv", "levels.xls", r"tables are read from files that end in \.csv"),
    ('value = "head_ft"', 'value = "head_m"', r"no column 'head_m': did you mean 'head_ft'\?"),
    ('site = "site_no"', 'site = "site"', r"no column 'site': did you mean 'site_no'\?"),
    ('x = "x_m"', 'x = "X"', r"wells\.csv has no column 'X'"),
    ('site = "site_no"\n', "", "has the key 'aggregate', which needs 'site'"),
    ('"median"\n', '"meadian"\n', r"aggregate is 'meadian': did you mean 'median'\?"),
    ("from = 1960-01-01", "from = 1989-01-01", "from 1989-01-01 to 1979-12-31: from must be"),
    ("to = 1979-12-31", 'to = "31.12.1979"', "to is '31.12.1979': give a date such as"),
    ('drop_reason = ""', 'drop_reson = ""', r"no column 'drop_reson': .*'drop_reason'\?"),
    ('drop_reason = ""', 'drop_reason = "no"', r"leaves none of 3 rows: drop_reason holds ''"),
    ("sd = 2.0", "sd = 0", "noise.sd is 0.0: give a positive number"),
    ("sd = 2.0", "", "the file lacks noise.sd: give a number"),
    ("diffusion =", "difusion =", r"equation has the key 'difusion'.*'diffusion'\?"),
    ('"transmissivity"', '"transmisivity"', r"no \[unknowns.transmisivity\]: did you mean"),
    ("[boundary.outer]", "[boundary.outter]", r"no facet tag 'outter': did you mean 'outer'\?"),
    ('"log-gp"', '"loggp"', r"unknowns.transmissivity has the prior 'loggp': did you mean"),
    ("median = 1000", "median = -1000", "median is -1000: give a number above 0"),
    ("log_sd = 1.0", "sd = 1.0", r"unknowns.transmissivity has the key 'sd'"),
    ('"laplace"', '"laplas"', r"there is no engine 'laplas': did you mean 'laplace'\?"),
    ('name = "laplace"', "[engine.nuts]\nsampels = 3", "nuts has no setting 'sampels'"),
    ("[noise]\n", "[noise\n", "is not TOML: "),
    ("outline = ", "outline = = ", r"is not TOML: .*line 4"),
]


def written(folder, body):
    ring = [[0, 0], [6000, 0], [6000, 5000], [0, 5000], [0, 0]]
    crs = {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::32612"}}
    area = {"type": "Polygon", "coordinates": [ring], "crs": crs}
    (folder / "area.geojson").write_text(json.dumps(area))
    (folder / "levels.csv").write_text(LEVELS)
    (folder / "wells.csv").write_text(WELLS)
    path = folder / "problem.toml"
    path.write_text(body)
    return path


def test_the_whole_file_is_understood(tmp_path):
    assert len(BROKEN) >= 30
    assert read_problem(written(tmp_path, WHOLE)).prepared.num_rows == 2


@pytest.mark.parametrize(("old", "new", "message"), BROKEN)
def test_what_is_broken_is_told(tmp_path, old, new, message):
    assert WHOLE.count(old) >= 1
    path = written(tmp_path, WHOLE.replace(old, new, 1))
    with pytest.raises(RieszError, match=message) as told:
        read_problem(path)
    assert str(tmp_path) in str(told.value)
    assert "\n" not in str(told.value)
