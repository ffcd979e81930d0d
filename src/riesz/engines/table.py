"""The engines by name: what adding one touches beside its own folder."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Literal

from riesz.engines.base import AbstractEngine
from riesz.errors import RieszError, any_of, nearest

AUTO = "auto"

EngineName = Literal[
    "auto",
    "emulate",
    "relax",
    "laplace",
    "conditional",
    "nuts",
    "sample",
    "variational",
    "reduced",
    "amortise",
]
"""For editors, which offer them."""

ENGINES: Mapping[str, str] = {
    "emulate": "Emulate",
    "relax": "Relax",
    "laplace": "Laplace",
    "conditional": "Conditional",
    "nuts": "Nuts",
    "sample": "Sample",
    "variational": "Variational",
    "reduced": "Reduced",
    "amortise": "Amortise",
}
"""Their classes, each in `engine` of the folder that has its name."""


def engine_class(name: str) -> type[AbstractEngine]:
    """Imported when asked for: all of them take a third of a second, and a command needs one."""
    return getattr(import_module(f"riesz.engines.{name}.engine"), ENGINES[name])


def check_engine(name: Any) -> None:
    """Raise where there is no engine of that name."""
    known = (AUTO, *ENGINES)
    if not isinstance(name, str):
        raise RieszError(f"the engine is {name!r}: give a value such as rz.Nuts(), or a "
                         f"name, {any_of(known)}.")  # fmt: skip
    if name not in known:
        raise RieszError(
            f"there is no engine {name!r}: {nearest(name, known)}It may be {any_of(known)}."
        )


def engine_of(name: str, settings: Mapping[str, Any] | None = None) -> AbstractEngine:
    """An engine by its name and settings, as problem files write them."""
    check_engine(name)
    if name == AUTO:
        raise RieszError(
            f"auto chooses among engines: name the one that is meant, {any_of(ENGINES)}."
        )
    settings = dict(settings or {})
    if isinstance(settings.get("start"), str):
        settings["start"] = engine_of(settings["start"])
    return engine_class(name)(**settings)
