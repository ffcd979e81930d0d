"""Quantities under a posterior, at points or on a grid."""

from riesz.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
