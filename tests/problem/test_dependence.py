"""Which inputs meet each other is read off a trace; numbers must never tell otherwise."""

import jax
import jax.numpy as jnp
import pytest

from riesz.problem.dependence import dependence

SIZE = 4
INPUTS = {name: jnp.arange(1.0, SIZE + 1) for name in ("a", "b", "c")}
KNOWN = jnp.arange(SIZE * SIZE, dtype=float).reshape(SIZE, SIZE) / 9 + jnp.eye(SIZE)


def pairs(*words: str) -> frozenset[frozenset[str]]:
    return frozenset(frozenset(word) for word in words)


@pytest.mark.parametrize(
    ("function", "reads", "meets"),
    [
        (lambda i: i["a"] + 2 * i["b"], "ab", ()),
        (lambda i: KNOWN @ i["a"] - i["b"][::-1].sum(), "ab", ()),
        (lambda i: i["a"] * i["b"] + i["c"], "abc", ("ab",)),
        (lambda i: i["a"] ** 2 + i["b"], "ab", ("aa",)),
        (lambda i: i["a"] / i["b"], "ab", ("ab", "bb")),
        (lambda i: jnp.exp(i["a"] + i["b"]), "ab", ("aa", "ab", "bb")),
        (lambda i: jnp.where(jnp.arange(SIZE) > 1, i["a"], 0.0), "a", ()),
        (lambda i: jnp.where(i["a"] > 1, i["b"], 0.0), "ab", ("aa", "ab", "bb")),
        (lambda i: i["a"][jnp.array([0, 0, 2])], "a", ()),
        (lambda i: jnp.zeros(9).at[jnp.array([1, 1, 2, 3])].add(i["a"]), "a", ()),
        (lambda i: jnp.linalg.solve(KNOWN, i["a"]), "a", ()),
        (lambda i: jax.scipy.linalg.solve_triangular(jnp.diag(i["b"]), i["a"]), "ab", ("ab", "bb")),
        (lambda i: jnp.concatenate([i["a"], i["b"]])[:SIZE] * i["c"], "ac", ("ac",)),
        (lambda i: jnp.stack([3 * one for one in i["a"]]), "a", ()),
        (lambda i: jnp.tile(i["a"], 2), "a", ()),
        (lambda i: jax.lax.map(lambda x: 3 * x, i["a"]), "a", ()),
        (lambda i: jax.lax.scan(lambda s, x: (s + x, s), 0.0, i["a"])[1], "a", ()),
        (lambda i: jax.lax.scan(lambda s, x: (s * x, s), 1.0, i["a"])[0], "a", ("aa",)),
        (lambda i: jax.jit(lambda x, y: x @ y)(i["a"], i["b"]), "ab", ("ab",)),
    ],
)
def test_what_meets_is_told(function, reads, meets):
    found = dependence(function, INPUTS)
    assert found.reads == frozenset(reads)
    assert found.meets == pairs(*meets)
    # The numbers: where a second derivative is not zero, its inputs were said to meet.
    by_pair = jax.jit(jax.hessian(lambda inputs: jnp.sum(function(inputs))))(INPUTS)
    for one, row in by_pair.items():
        for other, block in row.items():
            if jnp.abs(block).max() > 0:
                assert frozenset((one, other)) in found.meets


def test_a_function_is_affine_in_inputs_that_do_not_meet():
    found = dependence(lambda i: i["a"] * i["b"] + i["c"], INPUTS)
    assert found.is_affine_in(["a", "c"])
    assert found.is_affine_in(["b", "c"])
    assert not found.is_affine_in(["a", "b"])
