"""`import riesz` is light, harmless, and an editor finds every public name without running code."""

import ast
import re
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path

import pytest

import riesz
from riesz.lazy import MOVED

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
    assert len(stub_names()) <= 71
    with pytest.raises(AttributeError, match=r"riesz\.SparseLU is riesz\.solvers\.SparseLU"):
        _ = riesz.SparseLU


@pytest.mark.parametrize("name", MOVED)
def test_an_old_name_tells_the_call_that_took_its_place(name):
    now = re.match(r"(\w+)\.([\w.]+)\(", MOVED[name])
    assert now
    assert callable(attrgetter(now[2])(import_module(now[1])))
    for package in (riesz, riesz.fem, riesz.prediction):
        with pytest.raises(AttributeError, match=re.escape(MOVED[name])):
            getattr(package, name)


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


HEAVY = {"jax", "numpy", "matplotlib", "scipy"}


def printed_by(program: str) -> list[str]:
    """The words that a program prints, in a process of its own."""
    command = [sys.executable, "-c", program]
    return subprocess.run(
        command, stdout=subprocess.PIPE, text=True, timeout=120, check=True
    ).stdout.split()


def test_importing_loads_nothing_heavy_and_leaves_jax_alone():
    loaded = printed_by("import sys, riesz; print(*sys.modules)")
    assert "riesz" in loaded
    assert not HEAVY & set(loaded)
    asked = "import riesz, jax; riesz.solve, riesz.mesh_from_polygon, riesz.io"
    assert printed_by(f"{asked}; print(jax.config.jax_enable_x64)") == ["False"]


def test_guests_add_their_commands_without_anything_heavy():
    count, *loaded = printed_by(
        "import sys, typer, riesz_app.command, riesz_demo.command, riesz_many.command\n"
        "import riesz_pumping.command\n"
        "app = typer.Typer()\n"
        "for guest in (riesz_app, riesz_demo, riesz_many, riesz_pumping):\n"
        "    guest.command.register(app)\n"
        "print(len(app.registered_commands), *sys.modules)\n"
    )
    assert count == "4"
    assert not HEAVY & set(loaded)


def imported_names(script: Path) -> set[tuple[str, str]]:
    """Modules of this repository and what is taken from them, also inside functions."""
    nodes = ast.walk(ast.parse(script.read_text(encoding="utf-8")))
    lines = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
    ours = [line for line in lines if re.match(r"riesz(_\w+)?(\.|$)", str(line.module))]
    return {(str(line.module), alias.name) for line in ours for alias in line.names}


def can_be_imported(module: str, name: str) -> bool:
    try:
        return hasattr(import_module(module), name) or bool(find_spec(f"{module}.{name}"))
    except ModuleNotFoundError:
        return False


def test_scripts_import_what_there_is():
    folders = ("benchmarks", "paper/benchmarks", "examples", "tools")
    scripts = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    names = {pair: script.name for script in scripts for pair in imported_names(script)}
    assert len(names) > 50
    gone = [f"{names[pair]}: {'.'.join(pair)}" for pair in names if not can_be_imported(*pair)]
    assert gone == []
