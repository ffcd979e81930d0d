"""The command as people type it, in a folder that holds their files and nothing else."""

import json
import os
import shlex
import sys
from pathlib import Path

import pytest

from riesz.cli.main import main

ROOT = Path(__file__).parents[2]


class Shell:
    """Types commands in one folder; a command that fails ends the journey with what it said."""

    def __init__(self, folder: Path, monkeypatch, capsys):
        self.folder, self.monkeypatch, self.capsys = folder, monkeypatch, capsys

    def __call__(self, line: str, *, status: int = 0) -> str:
        """What the command printed, on both streams."""
        self.monkeypatch.chdir(self.folder)
        self.monkeypatch.setattr(sys, "argv", shlex.split(line, comments=True))
        with pytest.raises(SystemExit) as stop:
            main()
        output, errors = self.capsys.readouterr()
        assert (stop.value.code or 0) == status, f"{line}\n{output}{errors}"
        return output + errors

    def json(self, line: str) -> dict:
        """The object that the command prints last."""
        return json.loads(self(f"{line} --json").splitlines()[-1])


def data_folder(name: str) -> Path:
    """Data that are no part of the project."""
    folder = Path(os.environ.get("RIESZ_DATA", "")).resolve() / name
    if not os.environ.get("RIESZ_DATA") or not folder.is_dir():
        pytest.skip(f"needs RIESZ_DATA, a folder with {name} in it: see paper/docs/data.md")
    return folder


@pytest.fixture
def riesz(tmp_path, monkeypatch, capsys):
    return Shell(tmp_path, monkeypatch, capsys)


def pytest_collection_modifyitems(items):
    """Those that take many minutes are slow tests instead."""
    for item in items:
        if Path(__file__).parent in item.path.parents and "slow" not in item.keywords:
            item.add_marker("journey")
