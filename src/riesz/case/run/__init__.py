"""Run folders: fits of problem files, and predictions from them."""
