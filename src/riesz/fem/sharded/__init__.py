"""One mesh on several devices: each owns a part of the unknowns, and asks neighbours for theirs."""
