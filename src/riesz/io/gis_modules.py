"""Packages of the extra `gis`, or what to install."""

from importlib import import_module
from typing import Any

from riesz.errors import RieszError


def gis_module(name: str, suffix: str) -> Any:
    """A package that files of this kind need."""
    try:
        return import_module(name)
    except ImportError:
        raise RieszError(
            f"{suffix} files need {name}, which is not installed: pip install '.[gis]' in a clone "
            "of the repository, or write a .csv file."
        ) from None
