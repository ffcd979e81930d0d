"""How far a state is from satisfying the equation: dual norms, exact and by mini-patches."""

from riesz.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
