"""`riesz experiment jura` says no before any work, and in one line."""

import sys

import pytest

from riesz.cli.main import main

HEADING = "set,x_km,y_km,landuse,rock,Cd,Co,Cr,Cu,Ni,Pb,Zn"
ROW = "train,1.0,2.0,Meadow,Argovian,1,2,3,4,5,6,7"


def told(arguments, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["riesz", "experiment", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        main()
    captured = capsys.readouterr()
    assert stop.value.code == 2
    assert "Traceback" not in captured.err
    return captured.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["jura", "--metal", "Zn"], "no metal 'Zn' in this experiment"),
        (["jura", "--metal", "cd"], "did you mean 'Cd'"),
        (["smoother", "--metal", "Cd"], "--metal is for jura: leave it out for smoother"),
        (["taper", "--select"], "--select is for jura or aquifer: leave it out for taper"),
        (["jura", "--domain", "x.geojson", "--metal", "Cd"], "--domain is for smoother"),
        (["jura", "--settings", "nowhere.json"], "nowhere.json is not a settings file"),
        (["jura", "--settings", "x.json", "--select"], "take one"),
        (["jura", "--data", "nowhere.csv"], "nowhere.csv cannot be read"),
    ],
)
def test_options_out_of_place_are_told(tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    assert message in told([*words, "--out", "out"], monkeypatch, capsys)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (HEADING.replace(",Zn", "") + f"\n{ROW[:-2]}", "has no column 'Zn'"),
        (f"{HEADING}\n{ROW.replace(',6,', ',much,')}", "line 2: Pb is 'much'"),
        (f"{HEADING}\n{ROW.replace(',6,', ',,')}", "Pb was not measured at 1 samples"),
        (f"{HEADING}\n{ROW}", "there is 1 sample only for training"),
    ],
)
def test_tables_that_will_not_do_are_told(tmp_path, monkeypatch, capsys, table, message):
    path = tmp_path / "own.csv"
    path.write_text(table)
    words = ["jura", "--data", path, "--metal", "Cd", "--out", tmp_path / "out"]
    assert message in told(words, monkeypatch, capsys)
    assert not (tmp_path / "out").exists()
