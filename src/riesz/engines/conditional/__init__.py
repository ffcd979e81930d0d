"""The engine `conditional`: what enters linearly is integrated out exactly."""
