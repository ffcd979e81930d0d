"""`riesz init` guesses, says what it guessed, and writes files that riesz check understands."""

import json
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import riesz.datasets
from riesz.case.data.read import prepare_data
from riesz.case.data.schema import ObservationsTable
from riesz.case.file.problem import read_problem
from riesz.case.file.time_axis import TimeTable
from riesz.case.options import InitOptions
from riesz.case.start.starter import starter
from riesz.cli.main import app
from riesz.errors import FileFormatError, RieszError
from riesz.notes import Note

JURA = Path(riesz.datasets.__file__).parent / "jura_files" / "jura.csv"


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


def table(folder, header="name,x,y,head", shift=0.0):
    rng = np.random.default_rng(0)
    rows = [
        f"w{i},{x + shift:.3f},{y + shift:.3f},{100 + 10 * x:.3f}"
        for i, (x, y) in enumerate(rng.uniform(0.5, 9.5, size=(30, 2)))
    ]
    path = folder / "wells.csv"
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def square(folder, size=10.0, **members):
    ring = [[0, 0], [size, 0], [size, size], [0, size], [0, 0]]
    path = folder / "area.geojson"
    path.write_text(json.dumps({"type": "Polygon", "coordinates": [ring], **members}))
    return path


def test_the_file_for_jura_is_understood_at_once(tmp_path):
    out = tmp_path / "problem.toml"
    told = run("init", JURA, "--out", out)
    assert told.exit_code == 0
    assert "coordinates: x_km and y_km, by their names" in told.stdout
    assert "value: Cd, by being the first column of numbers" in told.stdout
    case = read_problem(out)
    numbers = case.check().numbers
    assert numbers["observations"] == 359
    assert 1000 < numbers["nodes"][0] < 4000
    assert numbers["engine"] == "laplace(marginal)"
    assert case.notes == ()
    every = [line for line in out.read_text().splitlines() if line and not line.startswith("#")]
    explained = [line for line in every if "#" in line]
    assert len(explained) > 0.5 * len(every)


def test_the_file_for_wells_in_the_snake_river_plain_is_understood(tmp_path, esrp_folder):
    out = tmp_path / "problem.toml"
    boundary = esrp_folder / "boundary_simplified.geojson"
    told = run("init", esrp_folder / "split_A.csv", boundary, "--out", out, "--json")
    assert "value: head_ft, by its name" in json.loads(told.stdout)["guesses"]
    case = read_problem(out)
    assert "+proj=aea" in case.tables.crs
    assert case.prepared.num_rows == 198
    assert case.tables.observations.site == "site_nm"


def test_a_file_is_never_overwritten(tmp_path):
    out = tmp_path / "problem.toml"
    out.write_text("mine")
    with pytest.raises(RieszError, match=r"problem\.toml is there already: choose another --out"):
        run("init", table(tmp_path), "--out", out)
    assert out.read_text() == "mine"


def axes_guessed(x, y, reason):
    return Note("axes_guessed", x=x, y=y, reason=reason)


def tables_of(made):
    return tomllib.loads(made.text)


def test_columns_may_be_named(tmp_path):
    path = table(tmp_path, "name,a,b,c")
    with pytest.raises(FileFormatError, match="no two columns look like coordinates among name"):
        starter(path, tmp_path, InitOptions())
    found = tables_of(starter(path, tmp_path, InitOptions(x="b", y="a", value="c")))["observations"]
    columns = {"file": "wells.csv", "x": "b", "y": "a", "value": "c"}
    assert found == columns | {"local": "auto"}
    with pytest.raises(FileFormatError, match="has no column 'd'"):
        starter(path, tmp_path, InitOptions(x="d", y="a"))


def test_columns_are_found_by_the_range_of_the_polygon(tmp_path):
    path = table(tmp_path, "name,p,q,r")
    made = starter(path, tmp_path, InitOptions(square(tmp_path)))
    found = tables_of(made)
    assert found["observations"]["x"] == "p"
    assert axes_guessed("p", "q", "the range of the polygon") in made.guesses
    assert found["domain"]["outline"] == "area.geojson"
    with pytest.raises(FileFormatError, match=r"none of 30 rows .* name the coordinates of"):
        starter(table(tmp_path, shift=1e5), tmp_path, InitOptions(square(tmp_path, 1e4)))


def test_what_a_table_lacks_is_written_down(tmp_path):
    path = table(tmp_path)
    path.write_text(f"{path.read_text()}far,50,50,7\nempty,5,5,\n")
    crs = {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::32612"}}
    made = starter(path, tmp_path, InitOptions(square(tmp_path, crs=crs)))
    found = tables_of(made)
    assert found["crs"] == "EPSG:32612"
    assert found["observations"]["outside"] == "drop"
    assert found["observations"]["where"] == {"head": {"min": 6}}
    counts = {"count": 30, "total": 32, "homeless": 0, "empty": 1, "outside": 1}
    assert Note("rows_taken", **counts) in made.guesses


def network(folder, *, rate=-40.0, recharge=0.002, first=1990, last=1996):
    """Monthly readings of four wells without coordinates, where the wells are, and what drives."""
    months = [f"{year}-{month:02}-01" for year in range(first, last) for month in range(1, 13)]
    rows = [
        f"w{i},{day[:8]}15,{4 + i + k % 12 / 10}" for i in range(4) for k, day in enumerate(months)
    ]
    texts = {
        "heads.csv": ["well,date,head_m", *rows],
        "wells.csv": ["well,x,y", *(f"w{i},{1000 * i},{700 * (i % 2)}" for i in range(4))],
        "recharge.csv": [
            "month,m_per_day",
            "1989-06-01,0.001",
            *(f"{m},{recharge}" for m in months),
        ],
        "pumping.csv": ["name,x,y,month,q", *(f"P,900,300,{m},{rate}" for m in months)],
    }
    for name, lines in texts.items():
        (folder / name).write_text("\n".join(lines) + "\n")
    return folder / "heads.csv"


@pytest.mark.parametrize(("last", "step"), [(1991, "week"), (1996, "month"), (2024, "year")])
def test_readings_with_tables_of_what_drives_them_make_a_whole_model_in_time(tmp_path, last, step):
    path, out = network(tmp_path, last=last), tmp_path / "problem.toml"
    words = ["--sites", "wells.csv", "--recharge", "recharge.csv", "--wells", "pumping.csv"]
    words = [word if word.startswith("--") else tmp_path / word for word in words]
    told = run("init", path, *words, "--out", out)
    assert told.exit_code == 0
    assert "recharge: m_per_day, 1989-06-01 to" in told.stdout
    assert "wells: q, 1990-01-01 to" in told.stdout
    found = tomllib.loads(out.read_text())
    assert found["observations"]["site"] == "well"
    assert "aggregate" not in found["observations"]
    assert found["series"]["recharge"]["factor"] == "share"
    assert (found["wells"][0]["rate"], found["wells"][0]["share"]) == ("q", "pumped")
    time = TimeTable.model_validate(found["time"])
    assert (str(time.start.date()), time.step) == ("1990-01-01", step)  # where both have begun
    assert str(time.end.date()) == f"{last}-01-01"  # the end of the last month
    case = read_problem(out)
    assert case.prepared.num_rows == 4 * 12 * (last - 1990)
    assert case.problem.likelihood.num_groups == 4
    assert {
        "storage",
        "transmissivity",
        "leakage",
        "base",
        "share",
        "pumped",
        "noise",
        "site",
    } < set(case.problem.latents.names)
    assert [one.code for one in case.notes] == ["maps_at_end"]


def test_dated_readings_alone_are_a_map_of_all_and_told_how_to_be_more(tmp_path):
    network(tmp_path)
    told = run(
        *("init", tmp_path / "heads.csv", "--sites", tmp_path / "wells.csv"),
        *("--out", tmp_path / "problem.toml"),
    )
    assert "the map is of all together; name what changes by --recharge and --wells" in told.stdout
    assert "time" not in tomllib.loads((tmp_path / "problem.toml").read_text())


@pytest.mark.parametrize(
    ("changed", "given", "message"),
    [
        (
            {"recharge": 2.0},
            {},
            "m_per_day goes up to 2: recharge is a length a day",
        ),
        ({"rate": 40.0}, {}, "all rates, in q, are positive, which puts water in"),
        ({}, {"sites": None}, "no two columns look like coordinates"),
        ({}, {"recharge": "wells.csv"}, "wells.csv: no column of dates such as 1990-01-01"),
        (
            {"first": 1985},
            {"recharge": "late.csv"},
            "begins on 1989-06-01, and readings on 1985-01",
        ),
    ],
)
def test_tables_that_cannot_drive_a_model_are_told(tmp_path, changed, given, message):
    path = network(tmp_path, **changed)
    (tmp_path / "late.csv").write_text("day,value\n1989-06-01,0.001\n1990-06-01,0.002\n")
    names = {"sites": "wells.csv", "recharge": "recharge.csv", "wells": "pumping.csv"} | given
    tables = {key: tmp_path / name for key, name in names.items() if name}
    with pytest.raises(FileFormatError, match=message):
        starter(path, tmp_path, InitOptions(**tables))


def test_values_below_a_limit_pass_the_filter_for_empty_cells(tmp_path):
    path = tmp_path / "wells.csv"
    path.write_text("x,y,value\n0,0,<0.5\n1,0,\n0,1,2\n1,1,3\n")
    names = tables_of(starter(path, tmp_path, InitOptions()))["observations"]
    found = prepare_data(tmp_path, ObservationsTable.model_validate(names), None)
    assert found.censored.tolist() == [True, False, False]
    kept = {"column": "value", "wanted": "min 0", "count": 3, "total": 4, "file": ""}
    assert Note("rows_filtered", **kept) in found.told


def grid_rows(header, *first):
    """A table of sixteen places, after rows of its own."""
    rows = [f"{i % 4},{i // 4},{1 + i % 4 + (i // 4) ** 2}" for i in range(16)]
    return "\n".join([header, *first, *rows]) + "\n"


def test_rows_without_a_place_are_left_out_of_the_file_too(tmp_path):
    path, out = tmp_path / "wells.csv", tmp_path / "problem.toml"
    path.write_text(grid_rows("x,y,value", ",0,1", "5,,3", "1,1.5,-inf", "1,2.5,inf"))
    assert "rows: 16 of 20, 4 without numbers" in run("init", path, "--out", out).stdout
    found = ObservationsTable(**tomllib.loads(out.read_text())["observations"])
    assert prepare_data(tmp_path, found, None).num_rows == 16


def test_values_below_a_limit_get_an_engine_that_takes_them(tmp_path):
    path, out = tmp_path / "wells.csv", tmp_path / "problem.toml"
    path.write_text(grid_rows("x,y,value", "0.5,0.5,<0.5"))
    assert "engine: mcmc, for values below a limit" in run("init", path, "--out", out).stdout
    engine = read_problem(out).choice().engine
    assert (engine.name, engine.method.kernel) == ("mcmc", "nuts")


def test_a_median_above_the_limit_of_some_readings_needs_no_other_engine(tmp_path):
    path = tmp_path / "wells.csv"
    first, *rows = grid_rows("x,y,value", "0,0,<0.5", "0,0,2").splitlines()
    sites = [f"{row},{'-'.join(row.split(',')[:2])}" for row in rows]
    path.write_text("\n".join([f"{first},site", *sites]) + "\n")
    assert 'density = "marginal"' in starter(path, tmp_path, InitOptions(site="site")).text
    assert 'density = "marginal"' in starter(path, tmp_path, InitOptions()).text


@pytest.mark.parametrize(
    "header",
    ["longitude,latitude", "long,lat", "dec_long_va,dec_lat_va", "max_x,max_y", "East,North"],
)
def test_coordinates_are_known_by_their_names(tmp_path, header):
    path = tmp_path / "wells.csv"
    path.write_text(grid_rows(f"{header},value"))
    first, second = header.split(",")
    made = starter(path, tmp_path, InitOptions())
    assert made.guesses[0] == axes_guessed(first, second, "their names")
    assert starter(path, tmp_path, InitOptions(y=second)).text == made.text


@pytest.mark.parametrize("name", ['a "b" #1', "a\\b", "a\x7fb", "Höhe [m]"])
def test_any_name_of_a_column_can_be_written_down(tmp_path, name):
    path = tmp_path / "wells.csv"
    path.write_text(grid_rows('x,y,"' + name.replace('"', '""') + '"'), encoding="utf-8")
    found = tomllib.loads(starter(path, tmp_path, InitOptions()).text)
    assert found["observations"]["value"] == name


def test_a_polygon_may_hold_the_smaller_part_of_a_table(tmp_path):
    path, area = tmp_path / "wells.csv", square(tmp_path, size=1.5)
    path.write_text(grid_rows("x,y,value").replace("0,0,1", "0.1,0.1,1"))
    made = starter(path, tmp_path, InitOptions(area))
    assert made.guesses[0] == axes_guessed("x", "y", "their names")
    assert made.guesses[2].values["outside"] > 0
    assert tomllib.loads(made.text)["observations"]["outside"] == "drop"


def test_a_polygon_elsewhere_is_told(tmp_path):
    area = square(tmp_path, size=1.5)
    path = table(tmp_path, shift=2000.0)
    with pytest.raises(FileFormatError, match=r"x and y are no degrees, but area.geojson is in"):
        starter(path, tmp_path, InitOptions(area, x="x", y="y"))


def test_one_coordinate_brings_the_one_that_goes_with_it(tmp_path):
    told = starter(JURA, tmp_path, InitOptions(x="lon")).guesses
    assert told[0] == axes_guessed("lon", "lat", "their names")
    with pytest.raises(FileFormatError, match="no column goes with Cd, named by --x, among"):
        starter(JURA, tmp_path, InitOptions(x="Cd"))


@pytest.mark.parametrize("named", [{"y": "x_km"}, {"y": "y_km", "value": "x_km"}])
def test_coordinates_and_values_are_three_columns(tmp_path, named):
    with pytest.raises(FileFormatError, match="the column x_km is named twice"):
        starter(JURA, tmp_path, InitOptions(x="x_km", **named))


def test_a_number_that_stands_for_no_value_is_told(tmp_path):
    path = tmp_path / "wells.csv"
    path.write_text(grid_rows("x,y,value", "0.5,0.5,-3.4e38"))
    with pytest.raises(FileFormatError, match=r"line 2: value is -3.4e\+38: if that stands for no"):
        starter(path, tmp_path, InitOptions())


def test_a_table_without_a_column_of_values_is_told_with_what_was_looked_for(tmp_path):
    path = tmp_path / "wells.csv"
    path.write_text("well_id,x,y,level,,a,a\n1,0,0,low,,1,1\n2,1,0,high,,1,1\n3,0,1,low,,1,1\n")
    with pytest.raises(FileFormatError) as refusal:
        starter(path, tmp_path, InitOptions())
    told = str(refusal.value)
    assert "well_id (numbers of rows), x (a coordinate), y (a coord" in told
    assert "level (no numbers: 'low'), one without a name (empty), a (several of that" in told
    assert "looked for numbers in more than half of the rows" in told
    assert told.endswith("Name the column of values by --value.")
    assert "\n" not in told
    with pytest.raises(
        FileFormatError, match=r"the column level has no numbers, first 'low': name"
    ):
        starter(path, tmp_path, InitOptions(value="level"))
    for cells, told in (
        (("1.5", "low", "low"), "few numbers: 'low'"),
        (("1", "", ""), "most are empty"),
    ):
        rows = [
            f"{x},{y},{cell}" for (x, y), cell in zip([(0, 0), (1, 0), (0, 1)], cells, strict=True)
        ]
        path.write_text("\n".join(["x,y,level", *rows, ""]))
        with pytest.raises(FileFormatError, match=told):
            starter(path, tmp_path, InitOptions())


def test_quiet_writes_and_prints_nothing(tmp_path):
    told = run("init", table(tmp_path), "--out", tmp_path / "problem.toml", "--quiet")
    assert (told.exit_code, told.stdout) == (0, "")
    assert (tmp_path / "problem.toml").exists()


def test_values_that_do_not_differ_are_told(tmp_path):
    path = tmp_path / "wells.csv"
    path.write_text("x,y,value\n0,0,1\n1,0,1\n0,1,1\n")
    with pytest.raises(FileFormatError, match=r"value \(the same number in all rows\)"):
        starter(path, tmp_path, InitOptions())
    with pytest.raises(FileFormatError, match="their values do not differ"):
        starter(path, tmp_path, InitOptions(value="value"))


def archive(folder):
    """Readings of four sites, three of which a second table places; some are flagged."""
    rng = np.random.default_rng(0)
    places = {f"s{i}": rng.uniform(1, 9, size=2) for i in range(12)}
    sites = [f"{name},{x},{y},{'no' if name == 's0' else 'yes'}" for name, (x, y) in places.items()]
    (folder / "sites.csv").write_text("\n".join(["site,x,y,use", *sites]) + "\n")
    rows = [
        f"{name},19{70 + k}-05-01,{100 + 10 * x + k},{'pumping' if k == 3 else ''}"
        for name, (x, _) in [*places.items(), ("elsewhere", (0.0, 0.0))]
        for k in range(4)
    ]
    path = folder / "levels.csv"
    path.write_text("\n".join(["site,date,head,flag", *rows]) + "\n")
    return path


def test_readings_are_joined_with_their_sites(tmp_path):
    path, out = archive(tmp_path), tmp_path / "problem.toml"
    words = ["--sites", tmp_path / "sites.csv", "--where", "flag=", "--sites-where", "use=yes"]
    told = run("init", path, square(tmp_path), *words, "--out", out)
    assert "rows: 33 of 39, 6 of sites that are not in the table of sites" in told.stdout
    assert "observations: median of 3 to 3 readings at 11 sites, told by site" in told.stdout
    found = tomllib.loads(out.read_text())["observations"]
    assert (found["site"], found["aggregate"]) == ("site", "median")
    assert (found["where"], found["sites_where"]) == ({"flag": ""}, {"use": "yes"})
    assert "# from = 1970-05-01" in out.read_text()
    case = read_problem(out)
    assert case.prepared.num_rows == 11
    assert (case.prepared.readings == 3).all()


def test_the_column_of_sites_tells_them_apart_before_any_is_left_out(tmp_path):
    path = archive(tmp_path)
    for one in (path, tmp_path / "sites.csv"):
        first, *rows = one.read_text().splitlines()
        one.write_text("\n".join([f"agency,{first}", *(f"USGS,{row}" for row in rows)]) + "\n")
    few = (tmp_path / "sites.csv").read_text().replace("yes", "no", 8)
    (tmp_path / "sites.csv").write_text(few)
    asked = InitOptions(sites=tmp_path / "sites.csv", sites_where={"use": "yes"})
    told = starter(path, tmp_path, asked).guesses
    readings = Note("aggregated", how="median", fewest=4, most=4, count=3)
    assert Note("sites_joined", remark=readings, column="site") in told


@pytest.mark.slow
def test_covariates_and_logarithms_may_be_asked_for(tmp_path):
    out = tmp_path / "problem.toml"
    words = ["--value", "Cd", "--covariates", "rock, Zn", "--log"]
    assert run("init", JURA, *words, "--out", out).exit_code == 0
    case = read_problem(out)
    assert case.transform == "log"
    assert set(case.prepared.covariates) == {"rock", "Zn"}
    names = case.tables.observations
    assert (names.log_covariates, names.local) == (["Zn"], "auto")
    assert abs(case.problem.observations.values.mean()) < 1.0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--sites-where", "use=yes"], "--sites-where is for --sites"),
        (["--where", "flag"], "--where is 'flag': give a column and what its cells must hold"),
        (["--where", "flag=broken"], "--where = { flag = 'broken' } leaves none of 52 rows"),
        (["--where", "flg="], "has no column 'flg': did you mean 'flag'"),
        (["--sites", "SITES", "--covariates", "depth"], "has no column 'depth'"),
        (["--sites", "SITES", "--covariates", "head"], "a coordinate or the value"),
        (["--sites", "SITES", "--covariates", "flag,flag"], "--covariates names flag twice"),
        ([], "or, where another table holds them, that table by --sites"),
        (["--sites", "OTHER"], "no column tells which site a reading is of"),
    ],
)
def test_what_cannot_be_had_is_told(tmp_path, words, told):
    path = archive(tmp_path)
    (tmp_path / "other.csv").write_text("name,x,y\na,1,2\nb,2,3\n")
    places = {"SITES": tmp_path / "sites.csv", "OTHER": tmp_path / "other.csv"}
    out = tmp_path / "problem.toml"
    with pytest.raises(RieszError, match=re.escape(told)):
        run(
            "init",
            path,
            *[places.get(word, word) for word in words],
            "--value",
            "head",
            "--out",
            out,
        )
    assert not out.exists()


def test_logarithms_need_positive_values(tmp_path):
    path = tmp_path / "wells.csv"
    path.write_text("x,y,value\n0,0,1\n1,0,-1\n0,1,2\n")
    with pytest.raises(FileFormatError, match=r"line 3: value is -1: --log needs positive values"):
        starter(path, tmp_path, InitOptions(log=True))


def test_cells_that_hold_words_are_named_with_their_lines(tmp_path):
    path = table(tmp_path)
    rows = path.read_text().splitlines()
    rows[4], rows[9] = (
        row.rsplit(",", 1)[0] + end for row, end in ((rows[4], ",dry"), (rows[9], ",4.2 m"))
    )
    path.write_text("\n".join(rows) + "\n")
    out = tmp_path / "problem.toml"
    told = run("init", path, "--out", out).stdout
    named = "wells.csv: head is no number, and the row left out: line 5 ('dry'), line 10 ('4.2 m')"
    assert named in told
    names = ObservationsTable.model_validate(tomllib.loads(out.read_text())["observations"])
    found = prepare_data(tmp_path, names, None)
    which = "line 5 ('dry'), line 10 ('4.2 m')"
    (note,) = found.notes
    assert note == Note("no_number", file="wells.csv", column="head", which=which)
    assert (found.num_rows, str(note)) == (28, named)


def test_rows_outside_are_named(tmp_path):
    path, out = table(tmp_path), tmp_path / "problem.toml"
    path.write_text(path.read_text() + "far well,200.0,5.0,120.0\n")
    told = run("init", path, square(tmp_path), "--out", out).stdout
    assert "\noutside: line 32 (far well)\n" in told
    assert str(read_problem(out).notes[-1]) == (
        "wells.csv: 1 of 31 lie outside the domain and are dropped: line 32"
    )


def test_kilometres_in_place_of_metres_are_told_with_their_factor(tmp_path):
    ring = np.array([[400.0, 400.0], [410.0, 400.0], [410.0, 410.0], [400.0, 410.0]])
    area = tmp_path / "area.geojson"
    asked = InitOptions(area, x="x", y="y")
    for factor, told in ((1000.0, "kilometres, the domain"), (0.001, "metres, the domain")):
        corners = [*(factor * ring).tolist(), (factor * ring[0]).tolist()]
        area.write_text(json.dumps({"type": "Polygon", "coordinates": [corners]}))
        with pytest.raises(RieszError, match=f"times {factor:g}, .* look like {told}"):
            starter(table(tmp_path, shift=400.0), tmp_path, asked)


def test_files_in_the_wrong_order_are_told_with_the_right_one(tmp_path):
    folder = tmp_path / "my data"
    folder.mkdir()
    path, area = table(folder), square(folder)
    with pytest.raises(RieszError) as told:
        starter(area, folder, InitOptions(path))
    assert str(told.value).endswith(f"riesz init '{path}' '{area}'")
    made = run("init", path, area, "--out", folder / "problem.toml").stdout
    assert made.endswith(f"next: riesz check '{folder / 'problem.toml'}'\n")


def test_the_version_is_told():
    assert run("--version").stdout == f"riesz {riesz.__version__}\n"
