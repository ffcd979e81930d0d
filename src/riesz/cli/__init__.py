"""The command `riesz`; what commands of other distributions share with its own is public."""

from riesz.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
