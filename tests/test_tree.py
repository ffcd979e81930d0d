"""The tree stays one to find one's way in: small folders, layers everywhere, no circles."""

import ast
import re
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from book.public_names import exports

grimp = pytest.importorskip("grimp", reason="comes with import-linter")

ROOT = Path(__file__).parents[1]
GUESTS = ("riesz_app", "riesz_demo", "riesz_many", "riesz_pumping", "riesz_sharded")
PAPER = ROOT / "paper" / "src" / "riesz_paper"
SOURCES = (*(ROOT / "src" / name for name in ("riesz", *GUESTS)), PAPER)
MOST_FILES = 16
MOST_CODE_LINES = 39_729
"""Lines that hold code: neither blank, nor comment, nor docstring. To fall, never to rise."""


SAME_PROTOCOL = {"init", "step"}
"""Names that several algorithms have for the same."""

PARTICIPLES = {
    *("told", "found", "seen", "kept", "begun", "drawn", "given", "made", "known", "taken"),
    *("shown", "left", "held", "met", "built", "sent", "said", "spoken", "written", "chosen"),
    *("done", "lost", "bent", "meant", "foretold"),
}
"""Irregular ones; the others end in -ed."""

VERBS_IN_ED = {"embed", "exceed", "read", "need", "seed", "feed"}
ADJECTIVES = {
    *("closed", "expected", "fixed", "grouped", "lumped", "prescribed", "ragged", "reduced"),
    *("regularised", "relaxed", "sharded", "shared", "smoothed", "squared", "weighted", "whitened"),
}
"""Participles that stand before a noun in terms of the field, such as a lumped mass."""


MOST_PAGES, MOST_WORDS, MOST_WORDS_OF_README = 20, 25_000, 700
"""A book that one reads; as `wc -w` counts."""


@pytest.fixture(scope="module")
def graph():
    return grimp.build_graph("riesz", *GUESTS, "riesz_paper", cache_dir=None)


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


def definitions(file: Path) -> Iterator[tuple[ast.AST, ast.FunctionDef | ast.ClassDef]]:
    """Functions and classes, each with what it stands in."""
    for parent in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        for node in ast.iter_child_nodes(parent):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                yield parent, node


def test_no_name_is_defined_twice():
    modules: dict[str, list[str]] = {}
    for file in SOURCES[0].rglob("*.py"):
        for parent, node in definitions(file):
            if isinstance(parent, ast.Module) and node.name not in SAME_PROTOCOL:
                modules.setdefault(node.name, []).append(str(file.relative_to(SOURCES[0])))
    assert {name: each for name, each in modules.items() if len(each) > 1} == {}


def begins_with_a_participle(name: str) -> bool:
    first = name.lstrip("_").partition("_")[0]
    is_one = first in PARTICIPLES or (first.endswith("ed") and first not in VERBS_IN_ED)
    return is_one and first not in ADJECTIVES


def is_property(node: ast.FunctionDef) -> bool:
    """Values with a name, not functions; validators are called by pydantic alone."""
    marks = " ".join(map(ast.unparse, node.decorator_list))
    return "property" in marks or "validator" in marks


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("told", True),
        ("kept_rows", True),
        ("restricted_rows", True),
        ("_weighed", True),
        ("lumped_mass", False),
        ("read_run", False),
        ("embed", False),
        ("heading", False),
    ],
)
def test_participles_are_told_from_verbs_and_terms_of_the_field(name, expected):
    assert begins_with_a_participle(name) == expected


def test_functions_are_verbs_or_nouns():
    named = [
        f"{file.relative_to(ROOT)}:{node.lineno} {node.name}"
        for source in SOURCES[:-1]
        for file in source.rglob("*.py")
        if file.name != "wording.py"  # functions there have the names of notes
        for _, node in definitions(file)
        if isinstance(node, ast.FunctionDef) and not is_property(node)
        if begins_with_a_participle(node.name)
    ]
    assert named == []


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


def public_names() -> set[str]:
    """Those of `riesz` and of its namespaces, by their stubs: riesz.fit, riesz.io.results."""
    product = SOURCES[0]
    stub = ast.parse((product / "__init__.pyi").read_text()).body
    lines = [line for line in stub if isinstance(line, ast.ImportFrom)]
    spaces = {alias.name for line in lines if line.module is None for alias in line.names}
    stubs = (path.parent.relative_to(product) for path in product.glob("*/**/__init__.pyi"))
    spaces |= {".".join(folder.parts) for folder in stubs}
    files = {one: product.joinpath(*one.split("."), "__init__.py") for one in spaces}
    inside = {f"{one}.{name}" for one, file in files.items() for name in exports(file)}
    first = {alias.name for line in lines for alias in line.names}
    return {f"riesz.{name}" for name in first | inside}


def names_taken(source: str, public: set[str]) -> set[str]:
    """Names of `riesz` in a module, by whichever way it imports them, also for types alone."""
    nodes = list(ast.walk(ast.parse(source)))
    imported, result = {"riesz": "riesz"}, set()  # what words of the module stand for
    for node in nodes:
        if isinstance(node, ast.ImportFrom | ast.Import):
            module = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            names = {one.asname or one.name: f"{module}{one.name}" for one in node.names}
            imported |= names
            result |= {name for name in names.values() if name.startswith("riesz.")}
    spaces = {name.rpartition(".")[0] for name in public}
    for node in nodes:
        if isinstance(node, ast.Attribute):
            root, _, rest = ast.unparse(node).partition(".")
            space, _, name = f"{imported.get(root)}.{rest}".rpartition(".")
            result |= {f"{space}.{name}"} if space in spaces else set()
        if isinstance(node, ast.Constant) and re.fullmatch(r"riesz(\.\w+)+", str(node.value)):
            result.add(str(node.value))  # for importlib
    return result


def test_guests_take_public_names_alone():
    public = public_names()
    modules = [path for name in GUESTS for path in (ROOT / "src" / name).rglob("*.py")]
    private = {str(path): names_taken(path.read_text(), public) - public for path in modules}
    assert {path: sorted(names) for path, names in private.items() if names} == {}


@pytest.mark.parametrize(
    "source",
    [
        "from riesz.io.store.files import write_bytes",
        "from riesz.io import replacing",
        "from riesz import io, deadline",
        "import riesz.mesher",
        "import riesz as rz\nrz.io.replacing(rz.io.make_folder(out))",
        "from riesz import io\nio.replacing",
        "import riesz.io\nriesz.io.replacing",
        "import_module('riesz.case.run.folder')",
    ],
)
def test_a_private_name_is_seen_in_any_import(source):
    public = public_names()
    assert {"riesz.io.write_bytes", "riesz.fit", "riesz.errors.any_of"} <= public
    assert len(names_taken(source, public) - public) == 1


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
