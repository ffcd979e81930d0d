"""Running experiments: tasks, workers, scores and their statistics."""
