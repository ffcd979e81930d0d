"""A PDE as a smoother: the paper's Fig. 1."""
