"""The engines by name: what adding one touches beside its own folder."""

from collections.abc import Mapping
from typing import Any

from riesz.engines.amortise.engine import Amortise
from riesz.engines.base import AbstractEngine
from riesz.engines.conditional.engine import Conditional
from riesz.engines.emulate.engine import Emulate
from riesz.engines.laplace.engine import Laplace
from riesz.engines.nuts.engine import Nuts
from riesz.engines.relax.engine import Relax
from riesz.errors import RieszError
from riesz.spelling import listed, nearest

AUTO = "auto"

ENGINES: Mapping[str, type[AbstractEngine]] = {
    engine.name: engine for engine in (Emulate, Relax, Laplace, Conditional, Nuts, Amortise)
}


def check_engine(name: Any) -> None:
    """Raise where there is no engine of that name."""
    known = (AUTO, *ENGINES)
    if not isinstance(name, str):
        raise RieszError(f"the engine is {name!r}: give a value such as rz.Nuts(), or a name, "
                         f"{listed(known)}.")  # fmt: skip
    if name not in known:
        raise RieszError(
            f"there is no engine {name!r}: {nearest(name, known)}It may be {listed(known)}."
        )


def engine_of(name: str, settings: Mapping[str, Any] | None = None) -> AbstractEngine:
    """An engine by its name and settings, as problem files write them."""
    check_engine(name)
    if name == AUTO:
        raise RieszError(
            f"auto chooses among engines: name the one that is meant, {listed(ENGINES)}."
        )
    settings = dict(settings or {})
    if isinstance(settings.get("start"), str):
        settings["start"] = engine_of(settings["start"])
    return ENGINES[name](**settings)
