"""The `riesz` command as a shell starts it, but in this process."""

import sys

import pytest

from riesz.cli.main import main


def run(words, monkeypatch, capsys):
    """Exit status, output and error stream of the command with these words."""
    monkeypatch.setattr(sys, "argv", ["riesz", *map(str, words)])
    with pytest.raises(SystemExit) as stop:
        main()
    return stop.value.code or 0, *capsys.readouterr()
