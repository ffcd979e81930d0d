"""Networks trained on the strong form, without a mesh's norm."""
