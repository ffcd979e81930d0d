"""Measurements explained by what is known at their places, and by a field that obeys physics."""
