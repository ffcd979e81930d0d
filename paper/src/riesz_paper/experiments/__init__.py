"""The experiments: one module for a figure or table."""
