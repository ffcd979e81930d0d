"""Rough physics: a checkerboard of diffusivities."""
