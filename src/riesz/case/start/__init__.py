"""A first problem file for a table of measurements."""
