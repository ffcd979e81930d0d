"""Conditional variational autoencoders, with and without an equation."""
