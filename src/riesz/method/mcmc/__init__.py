"""Markov chain Monte Carlo: two kernels, modes and jumps between them, and adaptation."""
