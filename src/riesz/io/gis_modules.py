"""Packages of the extra `gis`, or what to install."""

from importlib import import_module
from typing import Any

from riesz.errors import RieszError


def gis_module(name: str, what: str, instead: str = "write a .csv file") -> Any:
    """A package that files of some kind need."""
    try:
        return import_module(name)
    except ImportError:
        raise RieszError(
            f"{what} need {name}, which is not installed: pip install '.[gis]' in a clone of the "
            f"repository, or {instead}."
        ) from None
