"""Result files hold what it takes to run a result again."""

import json
import re
import subprocess

import pytest

import riesz
from riesz.errors import FileFormatError, RieszError
from riesz.io.store.results import commit, markdown_table, read_results, results, write_results

ROWS = [{"method": "a", "error": 0.123456}, {"method": "b", "error": 2.0}]


def test_a_result_file_has_all_the_keys_and_reads_back(tmp_path):
    content = results("riesz demo", {"mode": "quick"}, 3, ROWS, {"best": "a"})
    write_results(tmp_path / "results.json", content)
    assert read_results(tmp_path / "results.json") == content
    assert set(content) == {
        "schema", "command", "config", "seed", "commit", "machine", "versions", "rows", "summary",
    }  # fmt: skip
    assert list(tmp_path.iterdir()) == [tmp_path / "results.json"]


def test_nan_is_never_written(tmp_path):
    content = results("riesz demo", {}, 0, [{"error": float("nan")}], {})
    with pytest.raises(RieszError, match=r"the results hold nan at rows\[0\]\.error, which is no"):
        write_results(tmp_path / "results.json", content)
    assert not list(tmp_path.iterdir())


def test_a_file_of_a_newer_version_is_told(tmp_path):
    (tmp_path / "results.json").write_text(json.dumps({"schema": 99}))
    with pytest.raises(FileFormatError, match="newer version of riesz"):
        read_results(tmp_path / "results.json")


@pytest.mark.parametrize("text", ["", "{", "[]", json.dumps({"schema": 0})])
def test_other_files_are_refused(tmp_path, text):
    (tmp_path / "results.json").write_text(text)
    with pytest.raises(FileFormatError, match="not a result file"):
        read_results(tmp_path / "results.json")


@pytest.mark.parametrize("key", ["command", "config", "seed", "rows", "summary"])
def test_a_result_file_without_one_of_its_parts_is_refused(tmp_path, key):
    content = results("riesz demo", {"mode": "quick"}, 3, ROWS, {"best": "a"})
    for damaged in ({k: v for k, v in content.items() if k != key}, {**content, key: None}):
        write_results(tmp_path / "results.json", damaged)
        with pytest.raises(FileFormatError, match=f"{key} missing or damaged"):
            read_results(tmp_path / "results.json")


def test_rows_that_are_no_objects_are_refused(tmp_path):
    write_results(tmp_path / "results.json", results("riesz demo", {}, 3, ROWS, {}) | {"rows": [1]})
    with pytest.raises(FileFormatError, match="a row is no object"):
        read_results(tmp_path / "results.json")


def repository(folder, *tracked):
    """A repository with one commit, of the tracked files alone."""
    package = folder / "riesz"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (folder / "notes.txt").write_text("")
    author = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", *tracked], [*author, "commit", "-q", "-m", "First"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return package / "__init__.py"


def test_the_commit_is_that_of_the_package_and_says_when_it_was_changed(tmp_path, monkeypatch):
    file = repository(tmp_path, "riesz/__init__.py")
    monkeypatch.setattr(riesz, "__file__", str(file))
    assert re.fullmatch("[0-9a-f]{40,}", commit())
    file.write_text("changed = True")
    assert re.fullmatch("[0-9a-f]{40,}-modified", commit())


def test_the_commit_of_a_repository_that_does_not_hold_the_package_is_not_told(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(riesz, "__file__", str(repository(tmp_path, "notes.txt")))
    assert commit() == "unknown"


def test_without_git_the_commit_is_unknown(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit() == "unknown"


TABLE = [{"method": "a", "error": 0.123456}, {"method": "b", "error": 2.0}]


def test_rows_become_a_table():
    lines = markdown_table(TABLE).splitlines()
    assert lines == ["| method | error |", "| --- | --- |", "| a | 0.1235 |", "| b | 2 |"]
    with_lists = [{**row, "moments": [1.0, 2.0]} for row in TABLE]
    assert markdown_table(with_lists).splitlines() == lines  # lists are for programs
