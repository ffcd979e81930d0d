"""The door: from a problem, a method and a density to a posterior that has been checked."""

from riesz.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
