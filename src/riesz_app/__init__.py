"""The window: from a table to a map in a browser, with nothing to type."""
