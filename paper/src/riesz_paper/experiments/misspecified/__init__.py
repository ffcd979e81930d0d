"""Data from an equation with a term that the model lacks."""
