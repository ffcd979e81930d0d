"""Several kinds of data together, each with a likelihood of its own."""

from itertools import pairwise
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from riesz.observe.factors import AbstractFactor, Blocks
from riesz.observe.likelihood import AbstractLikelihood, flag_of

Predicted = Float[Array, " sensor"]


class OneAfterTheOther(dist.Distribution):
    """Independent vectors in one: a draw is all of them, and so is a density."""

    def __init__(self, parts: list[Any], sizes: tuple[int, ...]):
        self.each, self.ends = parts, np.cumsum((0, *sizes)).tolist()
        super().__init__(event_shape=(self.ends[-1],))

    def sample(self, key: PRNGKeyArray | None, sample_shape: tuple[int, ...] = ()) -> Array:
        assert key is not None
        keys = jr.split(key, len(self.each))
        drawn = [one.sample(own, sample_shape) for own, one in zip(keys, self.each, strict=True)]
        return jnp.concatenate([jnp.asarray(one, float) for one in drawn], axis=-1)

    def log_prob(self, value: Any, intermediates: list[Any] | None = None) -> Float[Array, ""]:
        cut = [value[a:b] for a, b in pairwise(self.ends)]
        logs = [jnp.sum(one.log_prob(own)) for one, own in zip(self.each, cut, strict=True)]
        return jnp.sum(jnp.stack(logs))


class Joint(AbstractLikelihood):
    """Of several data sets one after the other, each with so many observations.

    A new measurement elsewhere is one of the first.
    """

    each: tuple[AbstractLikelihood, ...]
    sizes: tuple[int, ...] = eqx.field(static=True)

    def cut(self, values: Any) -> list[tuple[AbstractLikelihood, Any]]:
        """Each likelihood with its part of values, one for each sensor."""
        ends = np.cumsum((0, *self.sizes)).tolist()
        cuts = [values[..., a:b] for a, b in pairwise(ends)]
        return list(zip(self.each, cuts, strict=True))

    def distribution(self, predicted: Predicted, z: PyTree) -> dist.Distribution:
        parts = [one.distribution(own, z) for one, own in self.cut(predicted)]
        return OneAfterTheOther(parts, self.sizes)

    def parts(self, num_sensors: int) -> tuple[tuple[AbstractLikelihood, int], ...]:
        return tuple(zip(self.each, self.sizes, strict=True))

    def parameters(self, z: PyTree) -> dict[str, Float[Array, "..."]]:
        """Each part's behind its number."""
        return {
            f"{number}.{name}": value
            for number, one in enumerate(self.each)
            for name, value in one.parameters(z).items()
        }

    def check_values(self, values: Float[np.ndarray, " sensor"]) -> None:
        for one, own in self.cut(values):
            one.check_values(own)

    def noise_sd(self, predicted: Predicted, z: PyTree) -> Predicted:
        return jnp.concatenate([one.noise_sd(own, z) for one, own in self.cut(predicted)])

    def factor(self, predicted: Predicted, z: PyTree) -> AbstractFactor:
        return Blocks(tuple(one.factor(own, z) for one, own in self.cut(predicted)), self.sizes)

    def location(self, predicted: Predicted, z: PyTree) -> Predicted:
        return jnp.concatenate([one.location(own, z) for one, own in self.cut(predicted)])

    def mean(self, predicted: Predicted, z: PyTree) -> Predicted:
        return jnp.concatenate([one.mean(own, z) for one, own in self.cut(predicted)])

    @property
    def main(self) -> AbstractLikelihood:
        return self.each[0]

    @property
    def noise(self) -> AbstractLikelihood:
        return self.each[0].noise

    def new(self, mean: Float[Array, " point"], z: PyTree) -> dist.Distribution:
        return self.each[0].new(mean, z)

    is_normal = flag_of("is_normal", all)
    is_independent = flag_of("is_independent", all)
    is_additive = flag_of("is_additive", all)
    is_discrete = flag_of("is_discrete", any)

    @property
    def censored(self) -> Bool[Array, " sensor"] | None:
        flags = [one.censored for one in self.each]
        if all(own is None for own in flags):
            return None
        parts = zip(flags, self.sizes, strict=True)
        return jnp.concatenate([jnp.zeros(n, bool) if own is None else own for own, n in parts])

    def describe(self) -> str:
        parts = zip(self.each, self.sizes, strict=True)
        return "; ".join(f"{size} {one.describe()}" for one, size in parts)
