"""Wells and rivers of problem files, held to closed forms and to balance."""

import gzip
import json

import jax.numpy as jnp
import numpy as np
import pytest
from tests import small_problem
from tests.pairs import pair

from riesz.case.check.description import exchange_numbers, rivers_lines, wells_lines
from riesz.case.file.boundary import RiverTable, lines_of_river, read_rivers
from riesz.case.file.measurements import MeasurementTable, read_measurements
from riesz.case.file.problem import inputs_content, read_case, read_problem
from riesz.case.file.wells import WellTable, read_wells, wells_content
from riesz.errors import FileFormatError, RieszError
from riesz.fem.assembly import residual
from riesz.fem.fluxes import budget

LENGTH, WIDTH, DIFFUSION = 2000.0, 400.0, 50.0

STRIP = small_problem.problem_toml(
    crs="EPSG:32612",
    domain=small_problem.rectangle([2000, 400], max_edge=100),
    observations={"file": "heads.csv"},
    noise=0.001,
    equation={"diffusion": 50.0},
    boundary={"left": 0.0, "right": 0.0},
    unknowns={},
)

UNKNOWN = """
[unknowns.q]
prior = "normal"
mean = 0.0
sd = 1000.0
"""

HEADS = "x,y,value\n300,100,1.0\n900,300,1.0\n1700,200,1.0\n"


def feature(lines, **properties):
    geometry = {"type": "MultiLineString", "coordinates": lines}
    return {"type": "Feature", "properties": properties, "geometry": geometry}


def written(folder, body, heads=HEADS):
    return small_problem.written(folder, STRIP + body, heads, data="heads.csv")


def river_at(folder, x, **properties):
    """Across the strip and far beyond, in two parts."""
    lines = [[[x, -500], [x, 100]], [[x, 100, 7.0], [x, 900, 7.0]]]
    content = {"type": "FeatureCollection", "features": [feature(lines, **properties)]}
    (folder / "river.geojson").write_text(json.dumps(content))


def level_at(x, conductance, stage):
    """Of the closed form: linear on both sides of the river, balanced at it."""
    return conductance * stage / (conductance + DIFFUSION * (1 / x + 1 / (LENGTH - x)))


@pytest.mark.parametrize("x", [1000.0, 730.0])  # along edges of the mesh, and across its cells
def test_a_river_across_a_strip_holds_the_level_of_the_closed_form(tmp_path, x):
    river_at(tmp_path, x, stage=9.0)
    rivers = '[[rivers]]\nfile = "river.geojson"\nstage = "stage"\nconductance = 0.2\n'
    point = '[[wells]]\nx = 400\ny = 100\nrate = "q"\n'
    case = read_problem(written(tmp_path, rivers + point + UNKNOWN))
    (river,) = case.rivers
    assert river.length == pytest.approx(WIDTH, rel=1e-6)
    assert river.mean_stage == pytest.approx(9.0)
    problem = case.problem
    state = problem.state(jnp.zeros(1))
    nodes = problem.forward.space.mesh.nodes
    wanted = level_at(x, 0.2, 9.0)
    found = np.interp(x, nodes[nodes[:, 1] == 0.0, 0], np.asarray(state)[nodes[:, 1] == 0.0])
    assert found == pytest.approx(wanted, rel=0.02)
    amounts = budget(problem.forward, state, problem.z(jnp.zeros(1)))
    gained = 0.2 * (9.0 - wanted) * WIDTH
    assert float(amounts.gains["leakage"]) == pytest.approx(gained, rel=0.04)
    assert abs(float(amounts.imbalance)) < 1e-9 * gained
    assert rivers_lines(case) == [
        "river.geojson: 0.4 km inside the domain, mean stage 9, conductance 0.2"
    ]
    assert wells_lines(case) == ["1 well of unknown rate: q"]


WELLS = """
[[wells]]
x = 500
y = 200
rate = 40.0
[[wells]]
file = "pumping.csv.gz"
x = "east"
y = "north"
[[wells]]
x = 1500
y = 200
rate = "q"
[[rivers]]
file = "river.geojson"
stage = 3.0
conductance = 0.1
"""


@pytest.fixture
def mixed(tmp_path):
    rows = b"east,north,rate\n700.25,150,-100\n1200,333,-25.5\n"
    (tmp_path / "pumping.csv.gz").write_bytes(gzip.compress(rows))
    river_at(tmp_path, 1300.0)
    return read_problem(written(tmp_path, WELLS + UNKNOWN))


def keep(case, folder):
    """What a run folder has of the files that a problem names."""
    folder.mkdir()
    for name, content in inputs_content(case).items():
        (folder / name).write_bytes(content)
    return folder


def test_wells_put_in_what_they_say_and_a_run_keeps_them(mixed, tmp_path):
    """The loads of all nodes add up to the integral of the source."""
    forward = mixed.problem.forward
    zeros = jnp.zeros(forward.space.num_dofs)
    loads = {q: residual(forward, zeros + 3.0, {"q": jnp.asarray(q)}) for q in (0.0, 7.0)}
    assert -float(loads[0.0].sum()) == pytest.approx(40.0 - 125.5)
    assert float((loads[0.0] - loads[7.0]).sum()) == pytest.approx(7.0)
    assert wells_lines(mixed) == [
        "3 wells (1 in problem.toml, 2 in pumping.csv.gz) with a total rate of -85.5",
        "1 well of unknown rate: q",
    ]
    numbers = exchange_numbers(mixed)
    assert numbers["wells"] == {"known": 3, "total_rate": -85.5, "unknown_rates": ["q"]}
    assert numbers["rivers"][0]["length"] == pytest.approx(WIDTH)
    kept = keep(mixed, tmp_path / "kept")
    for name in ("pumping.csv.gz", "river.geojson", "heads.csv"):
        (tmp_path / name).unlink()
    again = read_case(mixed.path, coarse=mixed.coarse, kept=kept)
    z = {"q": jnp.asarray(5.0)}
    state = jnp.asarray(np.random.default_rng(0).normal(size=len(zeros)))
    np.testing.assert_allclose(
        residual(again.problem.forward, state, z), residual(forward, state, z), rtol=1e-12
    )


def with_heads_of(case, coordinates):
    """A table of what the sensors would read, without noise."""
    points = case.problem.observations.points
    values = case.problem.operator @ case.problem.state(coordinates)
    rows = [f"{x},{y},{v!r}" for (x, y), v in zip(points, np.asarray(values).tolist(), strict=True)]
    return "\n".join(["x,y,value", *rows]) + "\n"


@pytest.mark.slow
def test_conditional_finds_an_unknown_rate(mixed, tmp_path):
    """The state is linear in it, so that nothing but the Gaussian update is needed."""
    case = read_problem(
        written(tmp_path, WELLS + UNKNOWN, with_heads_of(mixed, jnp.asarray([-0.35])))
    )
    found = pair("laplace(marginal)").run(case.problem)
    assert float(found.coordinate_mean()[0]) == pytest.approx(-0.35, abs=1e-3)
    assert float(found.coordinate_covariance()[0, 0]) < 1e-6


BED = '[unknowns.bed]\nprior = "lognormal"\nmedian = 0.1\nlog_sd = 1.0\n'


@pytest.mark.slow
def test_laplace_finds_an_unknown_conductance(tmp_path):
    river_at(tmp_path, 730.0)
    body = '[[rivers]]\nfile = "river.geojson"\nstage = 9.0\nconductance = "bed"\n' + BED
    case = read_problem(written(tmp_path, body))
    assert "conductance unknown 'bed'" in rivers_lines(case)[0]
    case = read_problem(written(tmp_path, body, with_heads_of(case, jnp.asarray([0.7]))))
    found = pair("laplace").run(case.problem)
    assert float(found.coordinate_mean()[0]) == pytest.approx(0.7, abs=0.01)


def test_maps_of_any_kind_give_the_same_river_and_the_same_wells(tmp_path):
    geopandas, shapely = pytest.importorskip("geopandas"), pytest.importorskip("shapely")
    places = [[[0, 0, 1], [5, 5, 1], [9, 5, 1]], [[1, 0], [1, 9]]]
    lines = [shapely.LineString(one) for one in places]
    frame = geopandas.GeoDataFrame({"stage": [3.0, 4.5]}, geometry=lines, crs="EPSG:32612")
    points = geopandas.GeoDataFrame(
        {"rate": [-3.0, 2.0]}, geometry=geopandas.points_from_xy([1, 2], [3, 4]), crs="EPSG:32612"
    )
    river = {"file": "", "stage": "stage", "conductance": 1.0}
    for suffix in ("gpkg", "shp", "geojson"):
        frame.to_file(tmp_path / f"r.{suffix}")
        found = lines_of_river(tmp_path / f"r.{suffix}", RiverTable.model_validate(river))
        np.testing.assert_array_equal(found.points, [[0, 0], [5, 5], [1, 0]])
        np.testing.assert_array_equal(found.values, [3.0, 3.0, 4.5])
        points.to_file(tmp_path / f"w.{suffix}")
        table = WellTable.model_validate({"file": f"w.{suffix}"})
        (wells,) = read_wells(tmp_path / "problem.toml", [table])
        np.testing.assert_array_equal(wells.rows.points, [[1, 3], [2, 4]])
        np.testing.assert_array_equal(wells.rates, [-3, 2])
        assert found.crs == wells.rows.crs == "EPSG:32612"


DEGREES = [[-110.98, 0.5], [-110.985, 0.502]]


def test_wells_and_measurements_in_degrees_are_where_the_problem_has_them(tmp_path):
    pyproj = pytest.importorskip("pyproj")
    into = pyproj.Transformer.from_crs("EPSG:4326", "EPSG:32612", always_xy=True)
    wanted = np.array([into.transform(*place) for place in DEGREES])
    (x, y), (to_x, to_y) = DEGREES
    (tmp_path / "wells.csv").write_text(f"x,y,rate\n{x},{y},-1\n{to_x},{to_y},-2\n")
    entries = [
        WellTable.model_validate({"crs": "EPSG:4326"} | one)
        for one in ({"file": "wells.csv"}, {"x": x, "y": y, "rate": -3.0})
    ]
    path = tmp_path / "problem.toml"
    found = read_wells(path, entries, "EPSG:32612")
    (tmp_path / "wells.csv").write_bytes(wells_content(found, entries))
    for many, one in (found, read_wells(path, entries, "EPSG:32612", tmp_path)):
        np.testing.assert_allclose(many.rows.points, wanted)
        np.testing.assert_allclose(one.rows.points, wanted[:1])
    pair = {"kind": "difference", "x": x, "y": y, "to_x": to_x, "to_y": to_y, "value": 1.0}
    table = MeasurementTable.model_validate(pair | {"crs": "EPSG:4326", "noise": {"sd": 0.1}})
    (rows,) = read_measurements(path, [table], "EPSG:32612")
    np.testing.assert_allclose(rows.numbers, wanted.reshape(1, 4))


@pytest.mark.parametrize(
    ("content", "stage", "message"),
    [
        (feature([[[0, 0], [1, 1]]]), "level", "lines without properties, so no column 'level'"),
        (feature([[[0, 0], [1, 1]]], level=None), "level", "row 1: level is '', not a finite numb"),
        (feature([[[0, 0]]]), 1.0, "row 1: a line has 1 points: give at least two"),
        ({"type": "Point", "coordinates": [0, 0]}, 1.0, "'Point', but a river is a line"),
        ({"type": "FeatureCollection", "features": []}, 1.0, "has no features: give at least one"),
        ({"type": "FeatureCollection", "features": [3]}, 1.0, "has a int in place of a feature"),
        ({"type": "Feature", "geometry": None}, 1.0, "a GeoJSON Feature has no geometry"),
    ],
)
def test_maps_that_are_no_rivers_are_told(tmp_path, content, stage, message):
    path = tmp_path / "river.geojson"
    path.write_text(json.dumps(content))
    table = RiverTable.model_validate({"file": path.name, "stage": stage, "conductance": 1.0})
    with pytest.raises(RieszError, match=message) as told:
        lines_of_river(path, table)
    assert str(path) in str(told.value)


def test_what_runs_of_earlier_versions_kept_is_read(tmp_path):
    rows = "0,1.0,2.0,-3.5,,well A\n2,3.0,4.0,-1.0,,\n"
    (tmp_path / "wells.csv").write_text(f"entry,x,y,rate,time,name\n{rows}")
    given = (
        {"file": "a.csv", "rate": "q", "name": "n"},
        {"x": 1, "y": 2, "rate": 3.0},
        {"file": "b"},
    )
    entries = [WellTable.model_validate(one) for one in given]
    first, _, last = read_wells(tmp_path / "problem.toml", entries, None, tmp_path)
    np.testing.assert_array_equal(first.places, [[1, 2]])
    assert (first.place_names, first.rates.tolist(), last.rates.tolist()) == (
        ["well A"],
        [-3.5],
        [-1],
    )
    lines = "0,0,0,5,5,1\n1,0,0,0,9,2\n1,0,9,9,9,2.5\n"
    (tmp_path / "rivers.csv").write_text(f"entry,from_x,from_y,to_x,to_y,stage\n{lines}")
    table = RiverTable.model_validate({"file": "r.gpkg", "stage": "s", "conductance": 1.0})
    one, other = read_rivers(tmp_path, [table, table], None, tmp_path)
    np.testing.assert_array_equal(one.beside, [[5, 5]])
    np.testing.assert_array_equal(other.values, [2, 2.5])
    entry = {"values": [1.0, 2.0], "numbers": [[1, 2, 90], [3, 4, 0]], "shapes": []}
    (tmp_path / "measurements.json").write_text(json.dumps([entry]))
    asked = {"kind": "gradient", "file": "g.csv", "noise": {"sd": 0.1}, "angle": "a"}
    tables = [MeasurementTable.model_validate(asked)]
    (kept,) = read_measurements(tmp_path / "problem.toml", tables, None, tmp_path)
    np.testing.assert_array_equal(kept.points, [[1, 2], [3, 4]])
    np.testing.assert_array_equal(kept.numbers[:, 2], [90, 0])
    with pytest.raises(FileFormatError, match="does not go with the problem of its run"):
        read_measurements(tmp_path / "problem.toml", tables * 2, None, tmp_path)
