"""Densities of a problem, a file or a folder each, which methods search, follow and sample."""
