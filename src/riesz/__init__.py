"""Riesz: Bayesian PDE inverse problems from scattered measurements, with honest uncertainty.

Names are imported when first used, so that `import riesz` and the command line start at once;
which there are, and where they are defined, stands in `__init__.pyi` for editors and for this.
"""

import lazy_loader

__version__ = "0.1.0.dev0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
