"""Log-densities of a posterior, which methods search, differentiate and sample."""
