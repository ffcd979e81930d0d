"""Finite elements must not rely on implicit changes of precision."""

import jax
import pytest


@pytest.fixture(autouse=True, scope="package")
def quick_compilation():
    """Most of the time of these tests is XLA's; code that runs once need not be the fastest."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.fixture(autouse=True)
def strict_promotion():
    with jax.numpy_dtype_promotion("strict"):
        yield
