"""Data sets, measured and made up."""
