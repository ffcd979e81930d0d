"""Posteriors of a transport velocity: the paper's Fig. 4."""
