"""Observations of a problem file: rows are read, joined, filtered and aggregated."""
