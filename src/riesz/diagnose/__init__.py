"""Checks that users can run on their own problems; `__init__.pyi` says where each is defined."""

from riesz.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
