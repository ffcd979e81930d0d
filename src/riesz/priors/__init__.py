"""Unknowns of an inverse problem and their priors, as functions of standard normal coordinates."""

from riesz.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
