"""Building blocks for solvers of other kinds: they may change without notice.

Assembly entity by entity, levels of multigrid, Krylov iterations and devices along one axis, as
`riesz_sharded` puts them together anew. A solver for users is a name of `riesz.solvers`.
"""

from riesz.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
