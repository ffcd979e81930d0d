"""Plane geometry without a mesh: outlines, lines, and how they lie to each other."""
