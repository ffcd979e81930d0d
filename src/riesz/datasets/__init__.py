"""Data to try things on."""

from riesz.datasets.esrp import esrp, splits_of
from riesz.datasets.jura import jura, jura_grid
from riesz.datasets.synthetic import aquifer_outline, aquifer_wells

__all__ = ["aquifer_outline", "aquifer_wells", "esrp", "jura", "jura_grid", "splits_of"]
