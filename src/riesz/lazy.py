"""Names that are imported when they are first used, so that `import riesz` starts at once.

The stub beside an `__init__.py` says which there are and where each is defined, for editors and for
this: a line there makes a name public.
"""

import ast
from collections.abc import Callable
from importlib import import_module
from importlib.util import resolve_name
from pathlib import Path
from typing import Any

from riesz.errors import nearest


def public_names(
    package: str, file: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package, from its stub."""
    places: dict[str, tuple[str, bool]] = {}
    for node in ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            module = resolve_name("." * node.level + (node.module or ""), package)
            for alias in node.names:
                is_name = node.module is not None
                places[alias.name] = (module if is_name else f"{module}.{alias.name}", is_name)
    every = sorted(places)

    def load(name: str) -> Any:
        if name not in places:
            hint = f": {nearest(name, every)}".rstrip(": ")
            raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}")
        module, is_name = places[name]
        return getattr(import_module(module), name) if is_name else import_module(module)

    return load, lambda: every, every
