"""Riesz: Bayesian PDE inverse problems from scattered measurements, with honest uncertainty.

Names are imported when first used, so that `import riesz` and the command line start at once;
which there are, and where they are defined, stands in `__init__.pyi` for editors and for this.
"""

from typing import Any

import lazy_loader

from riesz.errors import nearest

__version__ = "0.1.0.dev0"

__load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name in __all__ or name.startswith("_"):
        return __load(name)
    hint = nearest(name, __all__).strip()
    raise AttributeError(f"module 'riesz' has no attribute {name!r}{': ' if hint else ''}{hint}")
