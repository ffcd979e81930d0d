"""Unknowns of an inverse problem and their priors, as functions of standard normal coordinates."""
