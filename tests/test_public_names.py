"""`import riesz` is light, harmless, and an editor finds every public name without running code."""

import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import riesz

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "riesz"
DOCUMENTS = (
    ROOT / "README.md",
    *(ROOT / "docs").glob("*.md"),
    *(ROOT / "paper" / "docs").glob("*.md"),
    *(ROOT / "examples").rglob("*.py"),
)


def stub_names() -> dict[str, str]:
    """Public names and the modules that define them, from the text of the stub alone."""
    return {
        alias.asname or "": f"{node.module or ''}"
        for node in ast.parse((PACKAGE / "__init__.pyi").read_text()).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def names_defined_in(path: Path) -> set[str]:
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {ast.unparse(target) for target in node.targets}
    return found


def test_an_editor_finds_every_name_of_the_stub_where_it_says():
    for name, module in stub_names().items():
        if not module:
            assert (PACKAGE / name / "__init__.py").is_file() or (PACKAGE / f"{name}.py").is_file()
        else:
            path = PACKAGE.joinpath(*module.split(".")).with_suffix(".py")
            assert name in names_defined_in(path), f"{name} is not defined in {path}"


def test_completion_offers_every_name_that_readme_docs_and_examples_use():
    pattern = re.compile(r"\brz\.([A-Za-z_]\w*)(?:\.([A-Za-z_]\w*))?")
    used = {names: path.name for path in DOCUMENTS for names in pattern.findall(path.read_text())}
    spaces = {name for name, module in stub_names().items() if not module}
    for (name, own), page in used.items():
        assert name in stub_names(), f"rz.{name} on {page}"
        if name in spaces and own:
            assert hasattr(getattr(riesz, name), own), f"rz.{name}.{own} on {page}"


def test_a_user_meets_sixty_names_and_finds_the_others_in_their_namespace():
    assert len(stub_names()) <= 70
    with pytest.raises(AttributeError, match=r"riesz\.SparseLU is riesz\.fem\.SparseLU"):
        _ = riesz.SparseLU


def test_the_namespace_is_what_the_stub_says():
    assert set(riesz.__all__) == set(stub_names()) <= set(dir(riesz))
    assert (PACKAGE / "py.typed").is_file()


@pytest.mark.parametrize("name", riesz.__all__)
def test_every_public_name_resolves_and_is_documented(name):
    assert getattr(riesz, name).__doc__


@pytest.mark.parametrize(
    "stub", sorted(PACKAGE.glob("*/**/__init__.pyi")), ids=lambda stub: stub.parent.name
)
def test_every_name_of_a_package_resolves_and_is_documented(stub):
    package = import_module(".".join(stub.parent.relative_to(PACKAGE.parent).parts))
    assert [name for name in package.__all__ if not getattr(package, name).__doc__] == []


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="solver"):
        _ = riesz.solver


def test_importing_loads_nothing_heavy_and_leaves_jax_alone():
    program = (
        "import sys, riesz\n"
        "assert not {'jax', 'matplotlib', 'scipy'} & set(sys.modules), 'heavy import'\n"
        "riesz.solve, riesz.mesh_from_polygon, riesz.io\n"
        "import jax\n"
        "assert not jax.config.jax_enable_x64, 'x64 was switched on'\n"
    )
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
