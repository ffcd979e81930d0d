"""What tests of the paper's methods share."""

from collections.abc import Callable

import equinox as eqx
import jax
import numpy as np
import pytest


def shapes_of(tree) -> list[tuple[tuple[int, ...], str]]:
    leaves = jax.tree.leaves(eqx.filter(tree, lambda leaf: hasattr(leaf, "shape")))
    return [(leaf.shape, str(leaf.dtype)) for leaf in leaves]


@pytest.fixture
def only_traced(monkeypatch) -> Callable[[str], None]:
    """Lets a module train without compiling: a step is traced, gradients and all, and not run."""

    def stand_in(step, state, key, data, **_):
        after, terms = eqx.filter_eval_shape(step, state, key, data)
        assert shapes_of(after) == shapes_of(state)
        assert all(term.shape == () for term in terms.values())
        return state, {name: np.zeros(1) for name in terms}

    return lambda module: monkeypatch.setattr(f"{module}.train", stand_in)
