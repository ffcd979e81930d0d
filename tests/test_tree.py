"""The tree stays one to find one's way in: small folders, layers everywhere, no circles."""

import subprocess
import sys
import tokenize
import tomllib
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

grimp = pytest.importorskip("grimp", reason="comes with import-linter")

ROOT = Path(__file__).parents[1]
GUESTS = (ROOT / "src" / "riesz_pumping", ROOT / "paper" / "src" / "riesz_paper")
SOURCES = (ROOT / "src" / "riesz", *GUESTS)
MOST_FILES = 16
MOST_CODE_LINES = 43_146
"""Lines that hold code: neither blank, nor comment, nor docstring. To fall, never to rise."""


MOST_PAGES, MOST_WORDS, MOST_WORDS_OF_README = 20, 25_000, 700
"""A book that one reads; as `wc -w` counts."""


@pytest.fixture(scope="module")
def graph():
    return grimp.build_graph("riesz", "riesz_pumping", "riesz_paper", cache_dir=None)


def packages(graph):
    """Those of the product with several modules in them, by their full names."""
    ours = {"riesz", *graph.find_descendants("riesz")}
    return {name for name in ours if len(graph.find_children(name)) > 1}


def test_no_folder_holds_more_files_than_one_looks_over():
    folders = {path.parent for source in SOURCES for path in source.rglob("*.py")}
    counts = {folder.name: len(list(folder.glob("*.py"))) for folder in folders}
    assert {name: count for name, count in counts.items() if count > MOST_FILES} == {}


def code_lines(file: Path) -> int:
    """Lines with a token that is neither a comment nor a docstring."""
    quiet = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    lines: set[int] = set()
    with file.open(encoding="utf-8") as text:
        for token in tokenize.generate_tokens(text.readline):
            opens = token.line.strip().startswith(('"""', 'r"""'))
            is_docstring = token.type == tokenize.STRING and opens
            if token.type not in quiet | {tokenize.ENDMARKER} and not is_docstring:
                lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines)


def test_the_product_stays_small():
    count = sum(map(code_lines, SOURCES[0].rglob("*.py")))
    assert count <= MOST_CODE_LINES, f"{count} lines of code: delete or join before adding"


def words(page: Path) -> int:
    return len(page.read_text(encoding="utf-8").split())


def test_the_book_stays_one_to_read():
    pages = list((ROOT / "docs").glob("*.md"))
    assert len(pages) <= MOST_PAGES
    count = sum(map(words, pages))
    assert count <= MOST_WORDS, f"{count} words: cut before adding; results belong to paper/docs"
    assert words(ROOT / "README.md") <= MOST_WORDS_OF_README


def test_no_import_goes_in_a_circle(graph):
    imports = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    circle: list[str] = []
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as found:
        circle = found.args[1]
    assert circle == []


def test_every_package_has_a_contract_of_layers(graph):
    content = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = content["tool"]["importlinter"]["contracts"]
    covered = {
        container
        for contract in contracts
        if contract["type"] == "layers" and contract.get("exhaustive")
        for container in contract["containers"]
    }
    assert sorted(packages(graph) - covered) == []


def test_lint_finds_a_missing_import_beside_shapes_that_look_like_names():
    pytest.importorskip("ruff", reason="comes with the extra dev")
    module = """
import numpy as np
from jaxtyping import Float


def halved(values: Float[np.ndarray, " point *components"]) -> Float[Array, " point"]:
    return values / 2
"""
    command = [sys.executable, "-m", "ruff", "check", "--output-format=concise"]
    found = subprocess.run(
        [*command, "--stdin-filename=src/riesz/planted.py", "-"],
        input=module,
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert "F821 Undefined name `Array`" in found.stdout
    assert found.stdout.count("F821") == 1, found.stdout
