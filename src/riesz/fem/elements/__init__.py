"""Reference elements, quadrature on them, and the spaces they make on a mesh."""
