"""Problem files: what they may hold, and the inverse problem that is built from them."""
