"""The QGIS plugin says what the command understands, hears what it answers, and can stop it."""

import json
import os
import shlex
import sys
import time
from pathlib import Path

import pytest
from click import Context
from riesz_processing import commands
from typer.main import get_command

from riesz.cli.main import app
from riesz.io.tables.layers import read_table

EVERY = {
    "init": commands.init_words(
        "a.csv", "p.toml", crs="EPSG:4326", polygon="o.json", polygon_crs="EPSG:25832", log=True
    ),
    "fit": commands.fit_words("p.toml", "run", engine="laplace", seed=3),
    "predict": commands.predict_words("run", "m.tif", quantity="value", stat="mean,sd", cell=5),
    "predict on a grid": commands.predict_words("run", "m.tif", quantity="u", stat="sd"),
    "report": commands.report_words("run", "r.html"),
}


@pytest.mark.parametrize(("name", "words"), EVERY.items(), ids=EVERY)
def test_the_command_knows_every_word(name, words):
    group = get_command(app)
    own = group.get_command(Context(group), words[0])
    assert name.startswith(words[0])
    assert own is not None
    found = own.make_context(name, words[1:], resilient_parsing=False).params
    given = [value for value in found.values() if value not in (None, False, ())]
    assert len(given) >= sum(word.startswith("--") for word in words)
    assert found["as_json"] is True


def python(program):
    return [sys.executable, "-c", program]


def ran(program, *, is_cancelled=lambda: False):
    told = []
    found = commands.run_command(python(program), [], tell=told.append, is_cancelled=is_cancelled)
    return found, told


def test_what_a_command_says_is_told_as_it_comes_and_its_json_is_returned():
    program = (
        "import sys; sys.stderr.write('a\\rb\\nc\\n'); print('words'); print('{\"out\": \"run\"}')"
    )
    assert ran(program) == ({"out": "run"}, ["a", "b", "c"])


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("import sys; sys.stderr.write('x\\nriesz: no column z.\\n'); sys.exit(2)", "no column z."),
        ("import sys; sys.stderr.write('Boom\\n'); sys.exit(1)", "ended with status 1: Boom"),
        ("raise SystemExit(3)", "status 3: it said nothing"),
        ("print('no JSON')", "did not say what it made"),
    ],
)
def test_a_command_that_fails_says_why(program, told):
    with pytest.raises(commands.RieszFailed, match=told):
        ran(program)


def test_a_command_stops_when_it_is_cancelled():
    start = time.monotonic()
    with pytest.raises(commands.Cancelled):
        ran("import time; time.sleep(60)", is_cancelled=lambda: time.monotonic() > start + 0.3)
    assert time.monotonic() < start + commands.PATIENCE


def test_a_command_is_found_by_setting_environment_or_path(tmp_path):
    assert commands.command_path(sys.executable) == sys.executable
    assert commands.command_path("", {"RIESZ_COMMAND": sys.executable}) == sys.executable
    with pytest.raises(commands.RieszFailed, match="set the path of its command in Settings"):
        commands.command_path(str(tmp_path / "riesz"))


def test_the_python_of_qgis_does_not_lead_another_astray():
    kept = commands.own_environment({"PYTHONHOME": "qgis", "PYTHONPATH": "qgis", "HOME": "me"})
    assert kept == {"HOME": "me"}


def test_points_are_written_with_all_their_digits(tmp_path):
    path = tmp_path / "points.csv"
    assert commands.write_points(path, [(1 / 3, 2.0, "<0.5"), (1.0, 2.0, None), (3, 4, 5.5)]) == 2
    table = read_table(path)
    assert table.numbers("x").tolist() == [1 / 3, 3.0]
    assert table.cells("value") == ["<0.5", "5.5"]
    with pytest.raises(commands.RieszFailed, match="No point has a value"):
        commands.write_points(path, [(0, 0, " ")])


def test_outlines_are_polygons(tmp_path):
    path = tmp_path / "o.geojson"
    commands.write_polygon(path, {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [0, 1]]]})
    assert json.loads(path.read_text())["type"] == "Polygon"
    with pytest.raises(commands.RieszFailed, match="The outline is a LineString"):
        commands.write_polygon(path, {"type": "LineString"})


def test_words_survive_a_shell():
    words = commands.init_words("a b.csv", "p.toml", crs='PROJCS["a b"]')
    assert shlex.split(shlex.join(words)) == words


@pytest.mark.slow
def test_layers_become_a_map_and_a_report_by_the_words_of_the_plugin(tmp_path):
    table, problem, run = tmp_path / "points.csv", tmp_path / "problem.toml", tmp_path / "run"
    places = [(float(i % 4), float(i // 4)) for i in range(16)]
    commands.write_points(table, [(x, y, 1 + x + (y + 0.1 * x) ** 2) for x, y in places])
    riesz = python("from riesz.cli.main import main; main()")
    told = []

    def says(words):
        return commands.run_command(
            riesz, words, tell=told.append, is_cancelled=lambda: False, environment=dict(os.environ)
        )

    assert "rows: 16 of 16" in says(commands.init_words(table, problem))["guesses"]
    says(commands.fit_words(problem, run, seed=1))
    page = tmp_path / "report.html"
    out = tmp_path / "map.tif"
    made = says(commands.predict_words(run, out, quantity="measurement", stat="mean,sd", cell=0.5))
    assert len(made["ranges"]) == 2
    assert {*map(Path, made["files"])} >= {out, out.with_suffix(".qml")}
    assert says(commands.report_words(run, page))["trust"]
    assert page.exists()
    with pytest.raises(commands.RieszFailed, match="is there already: choose another --out"):
        says(commands.init_words(table, problem))
