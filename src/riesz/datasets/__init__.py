"""Data to try things on."""

from riesz.datasets.jura import jura, jura_csv, jura_grid

__all__ = ["jura", "jura_csv", "jura_grid"]
