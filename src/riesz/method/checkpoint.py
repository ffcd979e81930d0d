"""Where fits leave their state, so that a fit that was stopped can go on."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array

from riesz.devices import is_key
from riesz.errors import RieszError
from riesz.problem.problem import InverseProblem

Tree = TypeVar("Tree")
AnyArray = Array | np.ndarray


class AbstractCheckpoint(ABC):
    """Where a fit leaves its state after each block of work, one for each stage of it.

    It asks what is stored of a stage and goes on from it; how often that is written, and where to,
    is not its business. What it can recompute in no time, such as the keys of random numbers, it
    does not keep: a fit that goes on runs the same compiled functions on the same numbers, and ends
    at the same ones.
    """

    @abstractmethod
    def begin(
        self, problem: InverseProblem, engine: str, seed: int, settings: Mapping[str, Any]
    ) -> None:
        """Before any work: raise where what is stored comes from another fit."""

    @abstractmethod
    def restore(self, stage: str) -> Any | None:
        """The state that was kept last of a stage, if any."""

    @abstractmethod
    def keep(self, stage: str, state: Any) -> None:
        """Take a state: numbers, arrays, and tuples and dictionaries of them."""

    @abstractmethod
    def flush(self) -> None:
        """Write what has not been written yet."""


class NoCheckpoint(AbstractCheckpoint):
    """Nothing is kept."""

    def begin(
        self, problem: InverseProblem, engine: str, seed: int, settings: Mapping[str, Any]
    ) -> None: ...

    def restore(self, stage: str) -> Any | None: ...

    def keep(self, stage: str, state: Any) -> None: ...

    def flush(self) -> None: ...


NO_CHECKPOINT = NoCheckpoint()


class SecondRunCheckpoint(AbstractCheckpoint):
    """The stages of work that is done once more, from elsewhere, beside those of the first time."""

    def __init__(self, first: AbstractCheckpoint):
        self.first = first

    def begin(
        self, problem: InverseProblem, engine: str, seed: int, settings: Mapping[str, Any]
    ) -> None:
        self.first.begin(problem, engine, seed, settings)

    def restore(self, stage: str) -> Any | None:
        return self.first.restore(f"again-{stage}")

    def keep(self, stage: str, state: Any) -> None:
        self.first.keep(f"again-{stage}", state)

    def flush(self) -> None:
        self.first.flush()


class CheckpointedFunction:
    """A costly function of a few numbers: what it answered once it answers again, also in a fit
    that goes on, which then takes the same way to where it was.

    The answer is some arrays.
    """

    def __init__(self, function: Callable[[Any], Any], checkpoint: AbstractCheckpoint, stage: str):
        self.function, self.checkpoint, self.stage = function, checkpoint, stage
        self.known: dict[bytes, tuple[AnyArray, Any]] = {
            np.asarray(point).tobytes(): (point, answer)
            for point, answer in checkpoint.restore(stage) or ()
        }

    def __call__(self, point: AnyArray) -> Any:
        given = np.asarray(point, float)
        if given.tobytes() not in self.known:
            answer = jax.tree.map(np.asarray, self.function(point))
            self.known[given.tobytes()] = (given, answer)
            self.checkpoint.keep(self.stage, tuple(self.known.values()))
        return self.known[given.tobytes()][1]


def leaves_of(tree: Any) -> tuple[AnyArray, ...]:
    """The arrays of a tree whose structure is known; keys of random numbers as plain arrays."""
    return tuple(jr.key_data(leaf) if is_key(leaf) else leaf for leaf in arrays_in(tree))


def with_leaves(tree: Tree, leaves: tuple[AnyArray, ...]) -> Tree:
    """The tree with other arrays, which must be of the same sizes and kinds."""
    own = leaves_of(tree)
    if [(a.shape, a.dtype) for a in own] != [(a.shape, a.dtype) for a in leaves]:
        raise RieszError(
            "the checkpoint does not fit: its arrays have other sizes than this version's. "
            "Remove it and start from the beginning."
        )
    restored = [
        jr.wrap_key_data(jnp.asarray(new), impl=jr.key_impl(old)) if is_key(old) else new
        for old, new in zip(arrays_in(tree), leaves, strict=True)
    ]
    moving, still = eqx.partition(tree, eqx.is_array)
    return eqx.combine(jax.tree.unflatten(jax.tree.structure(moving), restored), still)


def arrays_in(tree: Any) -> list[AnyArray]:
    return jax.tree.leaves(eqx.filter(tree, eqx.is_array))
