"""Pumping tests: what readings about a pumped well say of the aquifer, and what they miss."""

from riesz.cli import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
