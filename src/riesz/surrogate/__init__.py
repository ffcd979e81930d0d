"""Approximations mu(x, z) of the state that are trained instead of solved for."""
