"""Tapers of the inverse Gram matrix, as in the paper."""
