"""Files: what users bring and what they take away; `__init__.pyi` says where each is defined."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
