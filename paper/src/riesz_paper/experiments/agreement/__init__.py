"""GP-D on a made-up aquifer: two engines held against each other."""
