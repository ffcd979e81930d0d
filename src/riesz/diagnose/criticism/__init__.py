"""What contradicts a model: which observations, which places, which prior."""
