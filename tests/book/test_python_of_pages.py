"""Python that pages print asks for names that exist, with arguments that are taken."""

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest

import riesz

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "paper" / "docs").glob("*.md")),
]


def code_of(page: Path) -> ast.Module:
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return ast.parse("\n".join(blocks))


def public(node: ast.expr):
    """The object of `rz.a.b`; None for other expressions."""
    if isinstance(node, ast.Name):
        return riesz if node.id == "rz" else None
    if isinstance(node, ast.Attribute):
        owner = public(node.value)
        return None if owner is None or not inspect.ismodule(owner) else getattr(owner, node.attr)
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_imports_names_and_arguments_exist(page):
    for node in ast.walk(code_of(page)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("riesz"):
            module = importlib.import_module(node.module or "")
            assert [one.name for one in node.names if not hasattr(module, one.name)] == []
        if isinstance(node, ast.Attribute):
            public(node)
        called = public(node.func) if isinstance(node, ast.Call) else None
        if called is not None and isinstance(node, ast.Call):
            parameters = inspect.signature(called).parameters
            takes_all = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
            names = {keyword.arg for keyword in node.keywords if keyword.arg}
            assert takes_all or names <= parameters.keys(), ast.unparse(node)
