"""Products in the precision of their factors."""

import jax


def full_precision():
    """A context in which GPUs do not round the factors of float32 products to ten bits.

    A residual is a small difference of large numbers, those of the network included.
    """
    return jax.default_matmul_precision("highest")
