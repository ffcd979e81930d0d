"""What Riesz keeps for itself: posteriors, checkpoints and result files."""
