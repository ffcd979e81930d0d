"""Result files that pages cite: they are there, and tell which commit and command made them."""

import re
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.main import get_command

from riesz.cli.main import app
from riesz.io.store.results import read_results
from riesz_paper.catalogue import ExperimentName

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "paper" / "docs").glob("*.md")),
]
CITED = re.compile(r"((?:\.\./)*)((?:paper/)?\bresults/[\w./-]*[\w-])")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def cited(page: Path) -> set[Path]:
    """Files and folders of results, in links as well as in words."""
    found = CITED.findall(page.read_text(encoding="utf-8"))
    return {((page.parent / up if up else ROOT) / path).resolve() for up, path in found}


def result_files() -> list[Path]:
    """Of all pages; that of benchmarks shows whatever is kept."""
    whole = [path for page in PAGES for path in cited(page)]
    files = {path if path.suffix else path / "results.json" for path in whole}
    kept = [
        *(ROOT / "results").glob("*.json"),
        *(ROOT / "results").glob("*/results.json"),
        *(ROOT / "paper" / "results").glob("*/results.json"),
    ]
    return sorted({path for path in files if path.suffix == ".json"} | set(kept))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_results_that_a_page_cites_are_there(page):
    assert [name_of(path) for path in sorted(cited(page)) if not path.exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_targets_of_make_that_a_page_names_are_there(page):
    named = re.findall(r"`make ([a-z-]*[a-z])(?![a-z.-])", page.read_text(encoding="utf-8"))
    assert [name for name in named if not is_target(name)] == []


def is_target(name: str) -> bool:
    return re.search(rf"^{re.escape(name)}:", MAKEFILE, re.MULTILINE) is not None


@pytest.mark.parametrize("path", result_files(), ids=name_of)
def test_a_result_file_names_a_commit_and_a_command_of_this_repository(path):
    content = read_results(path)
    assert is_command(content["command"]), content["command"]
    digits = content["commit"].partition("-")[0]
    assert re.fullmatch("[0-9a-f]{7,40}", digits)
    if (
        not (ROOT / ".git").exists()
        or told_by_git("rev-parse", "--is-shallow-repository") == "true"
    ):
        pytest.skip("needs the history of the repository: a full clone by git")
    assert told_by_git("cat-file", "-t", digits) == "commit", digits


def told_by_git(*words: str) -> str:
    found = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return found.stdout.strip()


def is_command(text: str) -> bool:
    """Whether what it begins with is there to be run."""
    match text.split():
        case ["make", target, *_]:
            return is_target(target)
        case ["riesz", "experiment", name, *_]:
            return name in list(ExperimentName)
        case ["riesz", name, *_]:
            return name in get_command(app).commands  # pyright: ignore[reportAttributeAccessIssue]
        case ["python", "-m", module, *_]:
            return find_spec(module) is not None
        case ["python", script, *_] | [script, *_]:
            return (ROOT / script).is_file()
    return False


@pytest.mark.parametrize(
    "text", ["make bench-nothing", "riesz experiment none", "riesz none", "python gone.py", ""]
)
def test_commands_that_are_not_there_are_told(text):
    assert not is_command(text)
