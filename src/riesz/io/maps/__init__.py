"""Maps: outlines and lines of layers, rasters, vector maps, and their coordinates."""
