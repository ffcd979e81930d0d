"""GP-D and GP-DT: the paper's own models of the aquifer."""
