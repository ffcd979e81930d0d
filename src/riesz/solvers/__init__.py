"""Linear solvers: of sparse systems A x = b, inside compiled code, with all derivatives."""

from riesz.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
