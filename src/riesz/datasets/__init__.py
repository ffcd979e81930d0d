"""Data to try things on."""

from riesz.datasets.jura import jura, jura_grid
from riesz.datasets.synthetic import aquifer_outline, aquifer_wells

__all__ = ["aquifer_outline", "aquifer_wells", "jura", "jura_grid"]
