"""What every fit returns: a distribution of the unknowns, and the states that go with it."""
