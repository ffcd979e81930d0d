"""Inverse problems: an equation with unknowns, their priors, and measurements of its solution."""
