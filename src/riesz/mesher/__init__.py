"""From a polygon or a cloud of points to a graded triangle mesh."""
