"""The engine `sample`: exact solves, and preconditioned Hamiltonian Monte Carlo."""
