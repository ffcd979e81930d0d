"""How observed values scatter about the state."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float, PyTree

from riesz.errors import RieszError

Scale = float | Float[Array, " sensor"] | str | Callable[[PyTree], Any]
"""A known standard deviation, one for all or one each; the name of a latent that is to be learned;
or a function of the latents."""


class AbstractLikelihood(eqx.Module):
    """The density of observations around predicted values."""

    @abstractmethod
    def distribution(self, predicted: Float[Array, " sensor"], z: PyTree) -> dist.Distribution:
        """The distribution of the observations, given the state at the sensors."""

    @abstractmethod
    def noise_sd(self, z: PyTree) -> Float[Array, "..."]:
        """The scale of the noise."""

    def log_prob(
        self, observed: Float[Array, " sensor"], predicted: Float[Array, " sensor"], z: PyTree
    ) -> Float[Array, ""]:
        """The log-density of all observations."""
        return jnp.sum(self.distribution(predicted, z).log_prob(observed))


class Gaussian(AbstractLikelihood):
    """Independent normal noise."""

    sd: Scale

    def __check_init__(self):
        check_scale(self.sd, "the noise sd")

    def noise_sd(self, z: PyTree) -> Float[Array, "..."]:
        return scale_of(self.sd, z)

    def distribution(self, predicted: Float[Array, " sensor"], z: PyTree) -> dist.Distribution:
        return dist.Normal(predicted, self.noise_sd(z))


class StudentT(AbstractLikelihood):
    """Independent noise with heavy tails: some observations may be far off."""

    sd: Scale
    degrees_of_freedom: float = 4.0

    def __check_init__(self):
        check_scale(self.sd, "the noise sd")
        if not self.degrees_of_freedom > 0:
            raise RieszError(
                f"degrees_of_freedom is {self.degrees_of_freedom}: it must be positive."
            )

    def noise_sd(self, z: PyTree) -> Float[Array, "..."]:
        return scale_of(self.sd, z)

    def distribution(self, predicted: Float[Array, " sensor"], z: PyTree) -> dist.Distribution:
        return dist.StudentT(self.degrees_of_freedom, predicted, self.noise_sd(z))


def scale_of(scale: Scale, z: PyTree) -> Float[Array, "..."]:
    if isinstance(scale, str):
        return z[scale]
    return jnp.asarray(scale(z)) if callable(scale) else jnp.asarray(scale)


def check_scale(scale: Scale, name: str) -> None:
    if isinstance(scale, str) or callable(scale):
        return
    values = np.asarray(scale)
    if not (np.isfinite(values).all() and (values > 0).all()):
        raise RieszError(
            f"{name} is {np.min(values)} at the least: it must be positive and finite."
        )
