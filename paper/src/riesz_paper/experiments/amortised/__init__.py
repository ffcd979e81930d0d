"""One training of an encoder, many data sets."""
