"""The plugin in a QGIS without a screen, where one is installed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).parent / "in_qgis.py"


@pytest.fixture(scope="module")
def qgis_python():
    """The Python that QGIS brings, which is seldom that of the tests."""
    python = os.environ.get("QGIS_PYTHON", "/usr/bin/python3")
    try:
        found = subprocess.run(
            [python, "-c", "import qgis.core"], env=plain(), capture_output=True, check=False
        )
    except OSError:
        pytest.skip(f"QGIS is not installed: there is no {python}")
    if found.returncode:
        pytest.skip("QGIS is not installed: apt-get install qgis python3-qgis, or set QGIS_PYTHON")
    return python


def plain(**more):
    own = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    return {**own, "QT_QPA_PLATFORM": "offscreen", **more}


def in_qgis(python, folder, *words):
    """What the script prints; the command is the one of the tests."""
    command = folder / "riesz"
    program = "from riesz.cli.main import main; main()"
    command.write_text(
        f'#!/bin/sh\nPYTHONPATH="{ROOT / "src"}" exec "{sys.executable}" -c "{program}" "$@"\n'
    )
    command.chmod(0o755)
    found = subprocess.run(
        [python, str(SCRIPT), str(ROOT / "qgis"), *words],
        env=plain(
            RIESZ_COMMAND=str(command),
            XDG_RUNTIME_DIR=str(folder),
            QGIS_CUSTOM_CONFIG_PATH=str(folder / "config"),
        ),
        capture_output=True,
        text=True,
        timeout=480,
        check=False,
    )
    lines = [line for line in found.stdout.splitlines() if line.startswith("{")]
    assert lines, found.stderr[-2000:]
    return json.loads(lines[-1])


def test_the_toolbox_offers_three_algorithms(qgis_python, tmp_path):
    found = in_qgis(qgis_python, tmp_path, "list")
    assert {key: one["name"] for key, one in found.items()} == {
        "riesz:mapfrommeasurements": "Map from measurements",
        "riesz:fitproblem": "Fit a problem file",
        "riesz:mapfromrun": "Map from a run",
    }
    assert {"INPUT", "FIELD", "POLYGON", "MAP", "REPORT"} <= {
        *found["riesz:mapfrommeasurements"]["parameters"]
    }


@pytest.mark.slow
def test_layers_become_a_map_with_its_style_and_a_report(qgis_python, tmp_path):
    found = in_qgis(qgis_python, tmp_path, "map", str(tmp_path))
    assert "error" not in found, found
    assert (found["bands"], found["crs"], found["style"]) == (2, "EPSG:25832", True)
    assert "24 points with a value" in found["told"]
    assert "projected: from EPSG:4326 into EPSG:25832" in found["told"]
    assert any(line.startswith("How far to trust it: ") for line in found["told"])
    assert (tmp_path / "report.html").stat().st_size > 10_000
    assert (tmp_path / "work" / "problem.toml").exists()


@pytest.mark.slow
def test_the_button_stops_the_fit(qgis_python, tmp_path):
    found = in_qgis(qgis_python, tmp_path, "cancel", str(tmp_path))
    assert found == {"error": "The command was stopped."}
    assert not (tmp_path / "map.tif").exists()
