"""Draws for the tests of fields."""

import jax.numpy as jnp
import numpy as np
import pytest


@pytest.fixture
def normals():
    """Standard normal draws; NumPy's, for JAX compiles anew for every shape."""

    def draw(seed: int, *shape: int):
        return jnp.asarray(np.random.default_rng(seed).normal(size=shape))

    return draw
