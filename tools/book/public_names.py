"""The public names of the package, read from its files without importing anything."""

import ast
from pathlib import Path


def public_names(stub: Path) -> dict[str, tuple[str, ...]]:
    """The names of the stub by the modules that define them; subpackages are no names here."""
    found: dict[str, tuple[str, ...]] = {}
    for node in ast.parse(stub.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            module = f"riesz.{node.module}"
            found[module] = (*found.get(module, ()), *(alias.name for alias in node.names))
    return found


def exports(init: Path) -> dict[str, str]:
    """Names that a subpackage of `riesz` offers, and where they are defined.

    Those that are imported when they are first used stand in a stub beside `__init__.py`.
    """
    if not init.exists():  # a module: what it defines
        module = ast.parse(init.parent.with_suffix(".py").read_text()).body
        own = [node.name for node in module if isinstance(node, ast.ClassDef | ast.FunctionDef)]
        return {name: f"riesz.{init.parent.name}.{name}" for name in own}
    stub = init.with_suffix(".pyi")
    nodes = ast.parse((stub if stub.exists() else init).read_text()).body
    own = f"riesz.{init.parent.name}."
    return {
        alias.name: f"{own if node.level else ''}{node.module}.{alias.name}"
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
