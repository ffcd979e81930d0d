"""A run as one page for people to read: maps, parameters, fit, and how far to trust it."""
