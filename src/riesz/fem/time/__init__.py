"""Equations in time: the axis, the problem, and the march along it."""
