"""A problem file and all that is done with it, from the first draft to the report."""

from riesz.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
