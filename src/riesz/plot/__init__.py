"""Figures: free functions that draw on given axes; nothing here opens a window."""

from riesz.plot.comparison import comparison_figure
from riesz.plot.fields import draw_field, draw_mesh, draw_places, draw_slice, draw_vectors
from riesz.plot.figure import new_figure, save_figure
from riesz.plot.posterior import draw_hydrograph, draw_mean_and_sd, pairs_figure, ranks_figure

__all__ = [
    "comparison_figure",
    "draw_field",
    "draw_hydrograph",
    "draw_mean_and_sd",
    "draw_mesh",
    "draw_places",
    "draw_slice",
    "draw_vectors",
    "new_figure",
    "pairs_figure",
    "ranks_figure",
    "save_figure",
]
