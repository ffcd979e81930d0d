"""Measurements and how they scatter about the state."""
