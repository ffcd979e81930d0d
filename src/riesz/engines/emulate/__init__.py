"""The engine `emulate`: a surrogate by least squares on the weak form, and q by it."""
