"""Riesz: Bayesian PDE inverse problems from scattered measurements, with honest uncertainty.

What a user types most stands here, all else in namespaces such as `rz.mesh` and `rz.observe`; which
names there are, and where they are defined, stands in `__init__.pyi`.
"""

from typing import Any

from riesz.lazy import public_names

__version__ = "0.2.0"

__load, __dir__, __all__ = public_names(__name__, __file__)


SPACES = (
    *("mesh", "fem", "solvers", "penalty", "priors", "observe"),
    *("inference", "prediction", "diagnose", "case", "io"),
)


def __getattr__(name: str) -> Any:
    if name not in __all__ and not name.startswith("_"):
        for space in SPACES:
            if name in __load(space).__all__:
                raise AttributeError(f"riesz.{name} is riesz.{space}.{name}")
    return __load(name)
