"""Makes the book: runs the tutorials, and writes the pages that are not written by hand."""
