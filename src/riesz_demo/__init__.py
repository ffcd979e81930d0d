"""The main job on data that come with the package, by public names alone."""
