"""Models of the same data held against each other, with kriging and a plane beside them."""
