"""Methods on densities by their names and settings."""

from collections.abc import Callable
from typing import Any

import pytest

from riesz.density.engine import AbstractEngine, Engine
from riesz.inference.table import engine_of


def pair(name: str, **settings: Any) -> Engine:
    """Such as `pair("mcmc(reduced-basis)", num_chains=2)`: each part has the settings it knows."""
    result = engine_of(name)
    assert isinstance(result, Engine)
    return result.with_settings(**settings)


def replace_run(patch: pytest.MonkeyPatch, name: str, run: Callable[..., Any]) -> None:
    """Let the engine of that name run otherwise, and all others as they do."""
    before: Any = AbstractEngine.run

    def chosen(self: AbstractEngine, *given: Any, **how: Any) -> Any:
        return (run if self.name == name else before)(self, *given, **how)

    patch.setattr(AbstractEngine, "run", chosen)
