"""Sixty-four unknowns, block by block."""
