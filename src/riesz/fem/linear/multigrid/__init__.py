"""Multigrid: a linear solver whose work grows with the number of unknowns and no faster."""
