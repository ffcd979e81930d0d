"""Data to try things on."""

from riesz.datasets.synthetic import aquifer_outline, aquifer_wells

__all__ = ["aquifer_outline", "aquifer_wells"]
