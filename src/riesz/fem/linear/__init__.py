"""Sparse matrices and linear solvers, on the host and on devices."""
