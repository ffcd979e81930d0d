"""The density by a surrogate: least squares on the weak form, and q by it."""
