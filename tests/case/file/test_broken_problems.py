"""Broken problem files, each with the message that mends it.

`tests/io/broken_problems` would hold dozens of like files: they are one file and its changes.
"""

import json

import pytest

from riesz.case.file.problem import read_problem
from riesz.errors import RieszError

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
anisotropy = { along = 3.0, across = 1.0, angle = 20 }
reaction = { gravel = 2e-9, rest = 1e-9 }
source = 1e-4

[boundary.outer]
value = "rim"

[boundary.lake]
along = "lake.geojson"
tolerance = 10.0
conductance = 0.02
stage = 88.0

[regions.gravel]
file = "geology.geojson"
where = { unit = "Qg" }

[unknowns.transmissivity]
prior = "log-gp"
median = 1000
log_sd = 1.0

[unknowns.rim]
prior = "boundary-gp"
mean = 100
sd = 10

[unknowns.bed]
prior = "lognormal"
median = 0.1
log_sd = 1.0

[[wells]]
x = 1500
y = 2500
rate = -20.0

[[wells]]
file = "pumping.csv"
rate = "q_m3d"

[[rivers]]
file = "river.geojson"
stage = "stage_ft"
conductance = "bed"

[engine]
name = "laplace"
"""

LEVELS = (
    "site_no,date,head_ft,drop_reason\n01,1961-02-03,90,\n02,1962-03-04,95,\n03,1990-01-01,9,\n"
)
WELLS = "site_no,x_m,y_m\n01,1000,1000\n02,2000,3000\n03,4000,2000\n"

PUMPING = "x,y,q_m3d,gaps,far\n1000,2000,-5,1,1000\n3000,2500,-7,,90000\n"
RIVER = [[[-500, 1000], [3000, 2100], [4000, 9000]], [[3000, 2100], [5500, 1000]]]

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
    ("EPSG:32612", "EPSG:32611", "boundary.lake.along: no boundary facet lies within 10"),
    ("levels.csv", "levels.xls", r"of spreadsheets \.xlsx is read: save it as that, or as CSV"),
    ("levels.csv", "levels.pdf", r"tables are read from files that end in \.csv"),
    ('value = "head_ft"', 'value = "head_m"', r"no column 'head_m': did you mean 'head_ft'\?"),
    ('site = "site_no"', 'site = "site"', r"no column 'site': did you mean 'site_no'\?"),
    ('x = "x_m"', 'x = "X"', r"wells\.csv has no column 'X'"),
    ('"median"\n', '"meadian"\n', r"aggregate is 'meadian': did you mean 'median'\?"),
    ("from = 1960-01-01", "from = 1989-01-01", "from 1989-01-01 to 1979-12-31: from must be"),
    ("to = 1979-12-31", 'to = "31.12.1979"', "to is '31.12.1979': give a date such as"),
    ('drop_reason = ""', 'drop_reson = ""', r"no column 'drop_reson': .*'drop_reason'\?"),
    ('drop_reason = ""', 'drop_reason = "no"', r"leaves none of 3 rows: drop_reason holds ''"),
    ("sd = 2.0", "sd = 0", "noise.sd is 0: give a positive number"),
    ("sd = 2.0", "", "the file lacks noise.sd: give a number"),
    ("diffusion =", "difusion =", r"equation has the key 'difusion'.*'diffusion'\?"),
    ('"transmissivity"', '"transmisivity"', r"no \[unknowns.transmisivity\]: did you mean"),
    ("[boundary.outer]", "[boundary.outter]", r"no facet tag 'outter': did you mean 'outer'\?"),
    ('"log-gp"', '"loggp"', r"unknowns.transmissivity has the prior 'loggp': did you mean"),
    ("median = 1000", "median = -1000", "median is -1000: give a number above 0"),
    ("log_sd = 1.0", "sd = 1.0", r"unknowns.transmissivity has the key 'sd'"),
    ('"laplace"', '"laplas"', r"there is no method 'laplas': did you mean 'laplace'\?"),
    ('name = "laplace"', "[engine.mcmc]\nnum_sampels = 3", "mcmc has no setting 'num_sampels'"),
    ("x = 1500\n", "", r"wells.1 lacks the key 'x': give a number, or name a table by 'file'"),
    ("x = 1500", 'x = "east"', "wells.1 has x = 'east', which is no number: columns need the key"),
    (
        "x = 1500",
        "x = 15000",
        r"problem.toml: 1 of 1 .* first \[\[wells\]\] entry 1 at \(15000",
    ),
    ("rate = -20.0", "rate = inf", "wells.1.rate is inf: give a finite number, or a name in quot"),
    ("rate = -20.0", 'rate = "-20"', "wells.1 has rate = '-20': give a finite number, or the name"),
    (
        "rate = -20.0",
        'rate = "bde"',
        r"says wells.1.rate = 'bde', but .*bde\]: did you mean 'bed'\?",
    ),
    ("rate = -20.0", 'rate = "rim"', "prior of 'rim' is over fields, but the point source"),
    ("y = 2500", 'y = 2500\nlayer = "a"', "wells.1 has the key 'layer', which needs 'file'"),
    ('rate = "q_m3d"', "rate = 3", "wells.2 has a file and rate = 3: with a file, rate names one"),
    ('rate = "q_m3d"', 'rate = "q"', r"pumping.csv has no column 'q'"),
    ('"pumping.csv"', '"pumpage.csv"', r"pumpage\.csv cannot be read: No such file"),
    ('"q_m3d"\n', '"gaps"\n', r"pumping.csv, line 3: gaps is '', not a finite number \(1 of 2"),
    ('"q_m3d"\n', '"q_m3d"\nx = "far"\n', r"pumping.csv: 1 of 2 points .* first line 3 at"),
    ('"river.geojson"\n', '"river.csv"\n', r"maps are read from files that end in \.geojson"),
    ('"river.geojson"\n', '"area.geojson"\n', "area.geojson, row 1: the geometry is of type 'Pol"),
    (
        '"river.geojson"\n',
        '"abroad.geojson"\n',
        "abroad.geojson: no part of the river, which",
    ),
    ('"river.geojson"\n', '"other.geojson"\n', "other.geojson: no part of the river, which"),
    (
        'stage = "stage_ft"\n',
        "",
        "rivers.1 lacks the key 'stage': a number, or a column of",
    ),
    (
        '"stage_ft"',
        '"stage_m"',
        r"geojson has no column 'stage_m': did you mean 'stage_ft'\?",
    ),
    ('"stage_ft"', '"name"', "river.geojson, row 1: name is 'Snake', not a finite number"),
    ('"stage_ft"', "true", "rivers.1.stage is True: give a finite number, or a name in quotes"),
    ('conductance = "bed"', "conductance = 0", "rivers.1.conductance is 0: give a positive"),
    ('conductance = "bed"', 'conductance = "bad"', r"no \[unknowns.bad\]: did you mean 'bed'\?"),
    ("[[rivers]]", "[rivers]", "rivers is one table: write its name in two brackets, once for"),
    ("[[rivers]]", "[[rivres]]", r"has the key 'rivres'.*did you mean 'rivers'\?"),
    ("stage = 88.0\n", "", "boundary.lake has the key 'conductance', which needs 'stage': the lev"),
    ("conductance = 0.02\n", "", "boundary.lake has the key 'stage', which needs 'conductance'"),
    ("stage = 88.0", "stage = 8\ninflow = 1", "boundary.lake has inflow and conductance: keep one"),
    ("conductance = 0.02", "conductance = -1", "boundary.lake.conductance is -1: give a posit"),
    ("conductance = 0.02", "conductnce = 0.02", r"'conductnce'.*did you mean 'conductance'\?"),
    (
        'value = "rim"',
        'inflow = "rmi"',
        r"outer.inflow = 'rmi', but .* did you mean 'rim'\? It",
    ),
    (
        'value = "rim"',
        "inflow = nan",
        "boundary.outer.inflow is nan: give a finite number, or",
    ),
    ("tolerance = 10.0\n", "", "boundary.lake has the key 'along', which needs 'tolerance'"),
    ('"lake.geojson"', '"abroad.geojson"', "boundary.lake.along: no boundary facet lies within 10"),
    ("[regions.gravel]", "[regions.rest]", "regions has the name 'rest', which stands for cells"),
    (
        "[regions.gravel]",
        "[regions.gravle]",
        r"reaction: there is no region 'gravel': .*'gravle'",
    ),
    ("[regions.gravel]", "[region.gravel]", r"has the key 'region'.*did you mean 'regions'\?"),
    (
        '[regions.gravel]\nfile = "geology.geojson"\nwhere = { unit = "Qg" }\n',
        "",
        r"values by region at equation.reaction, but no regions: add \[regions.NAME\]",
    ),
    ('"geology.geojson"', '"geologie.geojson"', r"geologie\.geojson cannot be read: No such file"),
    ('"geology.geojson"', '"river.geojson"', "row 1: the geometry is of type 'LineString', but a"),
    ('"geology.geojson"', '"land.geojson"', "regions.gravel: no cell has its"),
    ('{ unit = "Qg" }', '{ unt = "Qg" }', r"geojson has no column 'unt': did you mean 'unit'\?"),
    ('{ unit = "Qg" }', '{ unit = "Qx" }', "regions.gravel.where = .* leaves none of 2 rows: unit"),
    (
        '{ unit = "Qg" }',
        '{ unit = "far" }',
        "problem.toml: regions.gravel: no cell has its centr",
    ),
    (
        ", rest = 1e-9 }",
        " }",
        "reaction: .* in none of the regions 'gravel'.* in the 'rest'",
    ),
    ("gravel = 2e-9", "gravel = nan", "reaction has gravel, which is nan: give a finite number, a"),
    ("gravel = 2e-9", 'gravel = "bad"', r"says equation.reaction.gravel = 'bad', but .*'bed'\?"),
    (
        "gravel = 2e-9",
        "gravel = [1, 2]",
        r"reaction: the values of regions have the shapes \(\)",
    ),
    (
        "{ gravel = 2e-9, rest = 1e-9 }",
        "{}",
        "equation.reaction is an empty table: give a value",
    ),
    (
        "across = 1.0, ",
        "",
        "equation.anisotropy is {'along': 3.0, 'angle': 20}: give two rows",
    ),
    ("across = 1.0", "across = -1.0", "with positive principal values"),
    ("angle = 20 }", "angel = 20 }", r"anisotropy is {'along': 3.0, .*: give two rows"),
    (
        "{ along = 3.0, across = 1.0, angle = 20 }",
        "{ gravel = [[1, 0], [1, 1]], rest = 1 }",
        r"equation.anisotropy has gravel = \[\[1, 0\], \[1, 1\]\]: give two rows of a symmetric",
    ),
    (
        '"transmissivity"\na',
        "[[1, 0], [0, 1]]\na",
        "has a tensor as diffusion, and anisotropy",
    ),
    (
        'diffusion = "transmissivity"\n',
        "",
        "equation has the key 'anisotropy', which needs",
    ),
    (
        "source = 1e-4",
        "upwind = true",
        "equation has the key 'upwind', which needs 'advection'",
    ),
    (
        "source = 1e-4",
        "crosswind = 1.0",
        "equation has the key 'crosswind', which needs 'upwind': write upwind = true",
    ),
    (
        "source = 1e-4",
        'advection = { gravel = "bed", rest = [0, 0] }',
        "equation has advection.gravel = 'bed': by region, velocities are lists of numbers",
    ),
    ("[noise]\n", "[noise\n", "is not TOML: "),
    ("outline = ", "outline = = ", r"is not TOML: .*line 4"),
]


def named(code):
    return {"type": "name", "properties": {"name": f"urn:ogc:def:crs:EPSG::{code}"}}


def river_of(code, lines):
    features = [
        {
            "type": "Feature",
            "properties": {"stage_ft": 90.0 + i, "name": "Snake"},
            "geometry": {"type": "LineString", "coordinates": line},
        }
        for i, line in enumerate(lines)
    ]
    return {"type": "FeatureCollection", "features": features, "crs": named(code)}


def map_of(code):
    ring = [[0, 0], [3000, 0], [0, 6000], [0, 0]]
    features = [
        {
            "type": "Feature",
            "properties": {"unit": unit},
            "geometry": {"type": "Polygon", "coordinates": [[[x + east, y] for x, y in ring]]},
        }
        for unit, east in (("Qg", 0), ("far", 1e6))
    ]
    return {"type": "FeatureCollection", "features": features, "crs": named(code)}


def written(folder, body):
    ring = [[0, 0], [6000, 0], [6000, 5000], [0, 5000], [0, 0]]
    area = {"type": "Polygon", "coordinates": [ring], "crs": named(32612)}
    (folder / "area.geojson").write_text(json.dumps(area))
    (folder / "levels.csv").write_text(LEVELS)
    (folder / "wells.csv").write_text(WELLS)
    (folder / "pumping.csv").write_text(PUMPING)
    abroad = [[[x + 1e6, y] for x, y in line] for line in RIVER]
    for name, code, lines in (
        ("river", 32612, RIVER),
        ("abroad", 32612, abroad),
        ("other", 32611, RIVER),
    ):
        (folder / f"{name}.geojson").write_text(json.dumps(river_of(code, lines)))
    shore = {"type": "LineString", "coordinates": [[6000, 0], [6000, 5000]]}
    (folder / "lake.geojson").write_text(json.dumps(shore))
    for name, code in (("geology", 32612), ("land", 32611)):
        (folder / f"{name}.geojson").write_text(json.dumps(map_of(code)))
    path = folder / "problem.toml"
    path.write_text(body)
    return path


def test_the_whole_file_is_understood(tmp_path):
    assert len(BROKEN) >= 80
    assert read_problem(written(tmp_path, WHOLE)).prepared.num_rows == 2


@pytest.mark.parametrize(("old", "new", "message"), BROKEN)
def test_what_is_broken_is_told(tmp_path, old, new, message):
    assert WHOLE.count(old) >= 1
    path = written(tmp_path, WHOLE.replace(old, new, 1))
    with pytest.raises(RieszError, match=message) as told:
        read_problem(path)
    assert str(tmp_path) in str(told.value)
    assert "\n" not in str(told.value)
