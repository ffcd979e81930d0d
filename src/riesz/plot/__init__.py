"""Figures: free functions that draw on given axes; nothing here opens a window."""

from riesz.plot.fields import draw_field, draw_mesh, draw_vectors
from riesz.plot.figure import new_figure, save_figure
from riesz.plot.patches import draw_mini_patch
from riesz.plot.substrate import draw_basis_function, draw_sparsity

__all__ = [
    "draw_basis_function",
    "draw_field",
    "draw_mesh",
    "draw_mini_patch",
    "draw_sparsity",
    "draw_vectors",
    "new_figure",
    "save_figure",
]
