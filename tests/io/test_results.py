"""Result files hold what it takes to run a result again."""

import json

import pytest

from riesz.errors import FileFormatError
from riesz.io.results import markdown_table, read_results, results, write_results

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
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_results(tmp_path / "results.json", content)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["", "{", "[]", json.dumps({"schema": 99})])
def test_other_files_are_refused(tmp_path, text):
    (tmp_path / "results.json").write_text(text)
    with pytest.raises(FileFormatError, match="not a result file"):
        read_results(tmp_path / "results.json")


def test_rows_become_a_table():
    lines = markdown_table(ROWS).splitlines()
    assert lines == ["| method | error |", "| --- | --- |", "| a | 0.1235 |", "| b | 2 |"]
