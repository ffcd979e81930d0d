"""The engine `sample`: exact solves, and Hamiltonian steps in coordinates that are made round."""
