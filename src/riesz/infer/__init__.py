"""Inverse problems and the engines that infer their unknowns."""
