"""The marginal density: what enters linearly is integrated out exactly."""
