"""A problem file and all that is done with it, from the first draft to the report."""
