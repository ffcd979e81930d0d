"""Riesz: Bayesian PDE inverse problems from scattered measurements, with honest uncertainty."""

__version__ = "0.1.0.dev0"
