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
    places: dict[str, tuple[str, str | None]] = {}
    for node in ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            module = resolve_name("." * node.level + (node.module or ""), package)
            for alias in node.names:
                own = (module, alias.name) if node.module else (f"{module}.{alias.name}", None)
                places[alias.name] = own
    every = sorted(places)

    def load(name: str) -> Any:
        if name not in places:
            hint = nearest(name, every).strip()
            message = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(f"{message}{': ' if hint else ''}{hint}")
        module, attribute = places[name]
        loaded = import_module(module)
        return loaded if attribute is None else getattr(loaded, attribute)

    return load, lambda: every, every
