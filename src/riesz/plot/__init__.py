"""Figures: free functions that draw on given axes; nothing here opens a window."""

from riesz.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
