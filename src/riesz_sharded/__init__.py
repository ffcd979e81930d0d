"""One mesh on several devices: each owns a part of the unknowns, and asks neighbours for theirs."""

from riesz.cli import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
