"""The engine `laplace`: a Gaussian about the mode, by exact solves."""
