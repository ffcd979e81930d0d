"""Many fits: sites in a folder or a table, processes that share what is compiled, and a ledger."""

from riesz.cli import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
