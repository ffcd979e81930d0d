"""Data sets that are too large, or not ours, to be part of a package."""
