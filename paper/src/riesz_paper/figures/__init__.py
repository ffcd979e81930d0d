"""Figures of mini-patches and of the finite-element method."""
