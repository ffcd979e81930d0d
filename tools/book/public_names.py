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
    """Names that a subpackage offers, and where they are defined."""
    nodes = ast.parse(init.read_text()).body
    return {
        alias.name: f"{node.module}.{alias.name}"
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
