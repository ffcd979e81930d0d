"""`riesz data` lists and fetches, or says no in one line."""

import json
import sys

import pytest

from riesz.cli.main import main


def run(words, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["riesz", "data", *map(str, words)])
    with pytest.raises(SystemExit) as stop:
        main()
    return stop.value.code


def test_the_list_tells_what_is_here_and_what_is_not(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("RIESZ_DATA", str(tmp_path))
    assert run(["list", "--json"], monkeypatch) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["data_sets"]}
    assert not rows["esrp"]["present"]
    assert rows["jura"]["present"]
    (tmp_path / "esrp").mkdir()
    (tmp_path / "esrp" / "wells.csv").write_text("")
    assert run(["list"], monkeypatch) == 0
    assert f"present, {tmp_path / 'esrp'}" in capsys.readouterr().out
    monkeypatch.delenv("RIESZ_DATA")
    assert run(["list"], monkeypatch) == 0
    assert "not present, nowhere: set RIESZ_DATA" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["list", "fetch"])
def test_help_has_an_example(command, monkeypatch, capsys):
    assert run([command, "--help"], monkeypatch) == 0
    assert f"Example: riesz data {command}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fetch", "esrq"], "no data set 'esrq': did you mean 'esrp'?"),
        (["fetch", "jura"], "jura is part of the package"),
        (["fetch", "esrp"], "RIESZ_DATA is not set"),
        (["fetch", "esrp", "--out", "."], "is there already"),
    ],
)
def test_what_cannot_be_fetched_is_told(tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.delenv("RIESZ_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.txt").write_text("")
    assert run(words, monkeypatch) == 2
    told = capsys.readouterr().err
    assert message in told
    assert len(told.splitlines()) == 1


def test_what_was_fetched_is_told_last_as_json(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("riesz_paper.data.esrp_download.fetch_esrp", lambda folder: ["wells.csv"])
    monkeypatch.setenv("RIESZ_DATA", str(tmp_path))
    assert run(["fetch", "esrp", "--json"], monkeypatch) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert told == {"name": "esrp", "out": str(tmp_path / "esrp"), "files": ["wells.csv"]}
    assert run(["fetch", "esrp"], monkeypatch) == 0
    assert "written: wells.csv in" in capsys.readouterr().out
