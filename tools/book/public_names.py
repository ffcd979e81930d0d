"""The public names of the package, read from its files without importing anything."""

import ast
from pathlib import Path


def public_names(init: Path) -> dict[str, tuple[str, ...]]:
    """The table of public names by module, read without importing anything."""
    for node in ast.parse(init.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_PUBLIC":
            return ast.literal_eval(node.value)
    raise ValueError(f"{init} has no table _PUBLIC.")


def exports(init: Path) -> dict[str, str]:
    """Names that a subpackage offers, and where they are defined."""
    nodes = ast.parse(init.read_text()).body
    return {
        alias.name: f"{node.module}.{alias.name}"
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
