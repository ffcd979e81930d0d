"""Other people's methods, for comparison."""
