"""What was understood of a problem file, what it costs, and what its priors expect."""
