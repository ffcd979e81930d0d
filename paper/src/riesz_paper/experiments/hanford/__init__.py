"""Log-transmissivity of a real site from some of its values and heads."""
