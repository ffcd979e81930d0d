"""Pumping tests: what readings about a pumped well say of the aquifer, and what they miss."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
