"""The relaxed density: the equation holds up to an error of a finite scale."""
