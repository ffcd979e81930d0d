"""Kriging of one quantity or several."""
