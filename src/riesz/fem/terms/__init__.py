"""Terms of a weak form: pointwise functions of the state, of test functions and of coefficients."""
