"""Methods: ways from a density to a distribution of its coordinates, none of which knows of
equations."""
