"""The window as a page sees it, by plain HTTP: what it answers, and what it refuses."""

import json
import zipfile
from urllib.parse import quote

import numpy as np
import pytest
from tests.window import TOKEN, Window

from riesz_app.server import door_to


@pytest.fixture(scope="module")
def window(tmp_path_factory):
    folder = tmp_path_factory.mktemp("survey")
    rng = np.random.default_rng(0)
    places = rng.uniform(0, 10, (30, 2))
    rows = [f"{x},{y},{x + 0.1 * y}" for x, y in places]
    (folder / "heads.csv").write_text("\n".join(["x,y,<script>alert(1)</script>", *rows, ""]))
    (folder / ".hidden.csv").write_text("x,y,v\n1,2,3\n")
    secret = tmp_path_factory.mktemp("elsewhere") / "secret.csv"
    secret.write_text("x,y,v\n1,2,3\n")
    (folder / "link.csv").symlink_to(secret)
    opened = Window(folder)
    yield opened
    opened.close()


def test_only_the_page_itself_is_answered(window):
    assert window.ask("GET", "/")[0] == 200
    assert window.ask("GET", f"/?token={TOKEN}", **{"X-Riesz-Token": ""})[0] == 200
    for headers in (
        {"X-Riesz-Token": ""},
        {"X-Riesz-Token": "guessed"},
        {"Origin": "http://elsewhere.org"},
        {"Origin": "null"},
        {"Host": "elsewhere.org"},
        {"Host": f"elsewhere.org:{window.port}"},
    ):
        for path in ("/", "/api/folder", "/runs/run/report.html"):
            status, content = window.ask("GET", path, **headers)
            assert status == 403
            assert b"heads" not in content


@pytest.mark.parametrize(
    "name", ["../secret.csv", "..", "link.csv", ".hidden.csv", "/etc/passwd", "a\0b.csv", "-rf"]
)
def test_nothing_outside_of_the_folder_is_read_or_written(window, name):
    before = sorted(window.folder.iterdir())
    kinds = ("/api/tables/", "/api/problems/", "/api/files/", "/api/fits/", "/runs/")
    for method in ("GET", "PUT", "POST", "DELETE"):
        for kind in kinds:
            more = "/report.html" if kind == "/runs/" else ""
            status, content = window.ask(method, kind + quote(name, safe="") + more, b"{}")
            assert status in (404, 405, 422), (method, kind)
            assert b"1,2,3" not in content
    assert sorted(window.folder.iterdir()) == before
    listed = window.json("GET", "/api/folder")["tables"]
    assert listed == ["heads.csv"]


def test_files_are_taken_whole_and_once(window):
    table = b"x,y,v\n1,2,3\n"
    assert window.ask("PUT", "/api/files/new%20wells.csv", table)[0] == 200
    assert (window.folder / "new wells.csv").read_bytes() == table
    assert "there already" in window.refusal("PUT", "/api/files/new%20wells.csv", b"other")
    assert "none of the files" in window.refusal("PUT", "/api/files/run.sh", b"rm")
    (window.folder / "new wells.csv").unlink()


def test_what_is_too_large_is_refused_and_leaves_nothing(window, monkeypatch, tmp_path):
    monkeypatch.setattr("riesz_app.folder.LARGEST", 1000)
    monkeypatch.setattr("riesz_app.folder.LARGEST_UNPACKED", 10_000)
    before = sorted(window.folder.iterdir())
    assert "more than" in window.refusal("PUT", "/api/files/big.csv", b"1" * 2000)
    with zipfile.ZipFile(tmp_path / "bomb.xlsx", "w", zipfile.ZIP_DEFLATED) as bomb:
        bomb.writestr("xl/sheet.xml", b"0" * 100_000)
    content = (tmp_path / "bomb.xlsx").read_bytes()
    assert "holds more than" in window.refusal("PUT", "/api/files/bomb.xlsx", content)
    assert "damaged" in window.refusal("PUT", "/api/files/broken.xlsx", b"no archive")
    assert sorted(window.folder.iterdir()) == before


def test_a_table_becomes_a_problem_file_that_is_understood(window):
    table = window.json("GET", "/api/tables/heads.csv")
    assert table["rows"] == 30
    assert table["numeric"] == ["x", "y", "<script>alert(1)</script>"]
    made = window.json("POST", "/api/tables/heads.csv/start", {"x": "", "log": False})
    assert made["columns"] == {"x": "x", "y": "y", "value": "<script>alert(1)</script>"}
    assert len(made["values"]) == 30
    assert "cannot be said" in window.refusal(
        "POST", "/api/tables/heads.csv/start", json.dumps({"out": "x"}).encode()
    )
    ring = [[-1, -1], [11, -1], [11, 11], [-1, 11], [-1, -1]]
    outline = json.dumps({"type": "Polygon", "coordinates": [ring]}).encode()
    assert window.ask("PUT", "/api/files/drawn.geojson", outline)[0] == 200
    made = window.json("POST", "/api/tables/heads.csv/start", {"polygon": "drawn.geojson"})
    np.testing.assert_allclose(np.ptp(made["outline"][0], axis=0), 12)
    text = made["text"].replace("max_edge = ", "max_edge = 3.0 # ")
    assert window.ask("PUT", "/api/problems/problem.toml", text.encode())[0] == 200
    assert window.ask("GET", "/api/problems/problem.toml")[1].decode() == text
    lines = window.json("POST", "/api/problems/problem.toml/check")["lines"]
    assert lines[0].endswith("is understood.")
    wrong = text.replace("diffusion = 1.0", "difusion = 1.0").encode()
    assert window.ask("PUT", "/api/problems/wrong.toml", wrong)[0] == 200
    assert "diffusion" in window.refusal("POST", "/api/problems/wrong.toml/check")
    assert ".toml" in window.refusal("PUT", "/api/problems/heads.csv", b"")


def test_a_problem_file_may_not_name_files_elsewhere(window):
    made = window.json("POST", "/api/tables/heads.csv/start", {})
    secret = (window.folder / "link.csv").resolve()
    for named in (str(secret), f"../{secret.parent.name}/secret.csv", "link.csv"):
        text = made["text"].replace('file = "heads.csv"', f'file = "{named}"')
        assert named in text
        assert window.ask("PUT", "/api/problems/leads-out.toml", text.encode())[0] == 200
        assert "is not in" in window.refusal("POST", "/api/problems/leads-out.toml/check")
        words = b'{"problem": "leads-out.toml"}'
        assert "is not in" in window.refusal("POST", "/api/fits/run", words)


def test_the_token_is_in_no_command_of_a_browser(tmp_path):
    door = door_to(f"http://127.0.0.1:1/?token={TOKEN}", tmp_path)
    assert TOKEN in door.read_text()
    assert TOKEN not in door.as_uri()


def test_words_that_are_no_words_are_refused(window):
    assert "no JSON" in window.refusal("POST", "/api/tables/heads.csv/start", b"{")
    assert "no JSON object" in window.refusal("POST", "/api/fits/run", b"[]")
    assert "no file" in window.refusal("POST", "/api/fits/run", b'{"problem": "none.toml"}')
    assert "not at work" in window.refusal("DELETE", "/api/fits/run")
    assert "no run" in window.refusal("GET", "/runs/run/report.html")
