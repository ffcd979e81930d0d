"""The Taylor test tells right gradients from wrong ones."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from riesz.diagnose import taylor_test
from riesz.errors import RieszError


def test_a_right_gradient_has_rate_two():
    outcome = taylor_test(lambda z: jnp.sin(z["a"]) @ z["b"], {"a": jnp.ones(3), "b": jnp.ones(3)})
    assert abs(outcome.rate - 2) < 0.05
    assert outcome.passed
    assert "right" in str(outcome)


def test_a_wrong_gradient_has_rate_one():
    @jax.custom_jvp
    def square(x):
        return x @ x

    square.defjvp(lambda primals, tangents: (square(*primals), 1.0 * primals[0] @ tangents[0]))
    outcome = taylor_test(square, jnp.ones(4), key=jr.key(1))
    assert abs(outcome.rate - 1) < 0.1
    assert not outcome.passed
    assert "WRONG" in str(outcome)


def test_an_affine_function_leaves_only_rounding():
    outcome = taylor_test(lambda z: 3 * jnp.sum(z) + 1, jnp.ones(2))
    assert np.isnan(outcome.rate)
    assert outcome.passed


def test_single_precision_and_nan_are_refused():
    with pytest.raises(RieszError, match="needs float64"):
        taylor_test(jnp.sum, jnp.ones(2, jnp.float32))
    with pytest.raises(RieszError, match="gradient has NaN"):
        taylor_test(lambda z: jnp.sum(jnp.log(z)), -jnp.ones(2))
