"""The main job in a few minutes."""
