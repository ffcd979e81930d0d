"""Finite elements: weak forms, their residuals and Jacobians, and exact solves."""
