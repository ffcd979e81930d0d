"""What the toolbox offers."""
