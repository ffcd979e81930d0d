"""What was measured is the state, plus effects of covariates, plus what neighbours share."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Bool, Float, PyTree

from riesz.errors import RieszError
from riesz.observe.factors import AbstractFactor
from riesz.observe.likelihood import AbstractLikelihood, Scale, flag_of
from riesz.priors.correlated_residual import LocalEffect
from riesz.priors.fields import numbers_in


class WithEffects(AbstractLikelihood):
    r"""$y = u(x) + C\,\beta + v(x)$ + noise, with the covariates in the rows of $C$.

    The effects $\beta$ are an unknown of the problem, `name`; the local effect $v$, where there is
    one, is the unknown `local_name`; the noise is that of `base`. `offset` is added to what the
    state says, with an error that is part of `base`; new measurements have the noise `fresh`.
    """

    base: AbstractLikelihood
    design: Float[Array, "sensor effect"] | None
    local: LocalEffect | None
    labels: tuple[str, ...] = eqx.field(static=True)
    name: str = eqx.field(static=True)
    local_name: str = eqx.field(static=True)
    offset: Float[Array, " sensor"] | None
    fresh: AbstractLikelihood | None

    def __init__(
        self,
        base: AbstractLikelihood,
        design: Any = None,
        labels: tuple[str, ...] = (),
        name: str = "effects",
        *,
        local: LocalEffect | None = None,
        local_name: str = "local",
        offset: Any = None,
        fresh: AbstractLikelihood | None = None,
    ):
        self.base, self.offset, self.fresh = base, offset, fresh
        self.design = None if design is None else jnp.asarray(design)
        self.local, self.labels, self.name, self.local_name = local, labels, name, local_name

    def scales(self) -> dict[str, Scale]:
        return self.noise.scales()

    def parameters(self, z: PyTree) -> dict[str, Float[Array, "..."]]:
        return self.noise.parameters(z)

    def check_values(self, values: Float[np.ndarray, " sensor"]) -> None:
        self.base.check_values(values)

    def noise_sd(self, predicted: Float[Array, " sensor"], z: PyTree) -> Float[Array, " sensor"]:
        return self.base.noise_sd(self.mean(predicted, z), z)

    def factor(self, predicted: Float[Array, " sensor"], z: PyTree) -> AbstractFactor:
        return self.base.factor(self.mean(predicted, z), z)

    def location(self, predicted: Float[Array, " sensor"], z: PyTree) -> Float[Array, " sensor"]:
        return self.base.location(self.mean(predicted, z), z)

    @property
    def each(self) -> tuple[AbstractLikelihood]:
        return (self.base,)

    is_normal = flag_of("is_normal", all)
    is_independent = flag_of("is_independent", all)
    is_additive = flag_of("is_additive", all)
    is_discrete = flag_of("is_discrete", all)

    @property
    def censored(self) -> Bool[Array, " sensor"] | None:
        return self.base.censored

    @property
    def noise(self) -> AbstractLikelihood:
        return self.base if self.fresh is None else self.fresh

    def new(self, mean: Float[Array, " point"], z: PyTree) -> dist.Distribution:
        return self.noise.new(mean, z)

    def mean(self, predicted: Float[Array, " sensor"], z: PyTree) -> Float[Array, " sensor"]:
        if self.offset is not None:
            predicted = predicted + self.offset.astype(predicted.dtype)
        if self.design is not None:
            predicted = predicted + self.design.astype(predicted.dtype) @ z[self.name]
        if self.local is not None:
            predicted = predicted + self.local.at_sensors(numbers_in(z[self.local_name]))
        return predicted

    def distribution(self, predicted: Float[Array, " sensor"], z: PyTree) -> dist.Distribution:
        return self.base.distribution(self.mean(predicted, z), z)

    def describe(self) -> str:
        parts = [] if self.design is None else [f"{self.design.shape[1]} effects"]
        parts += [] if self.local is None else [self.local.describe()]
        parts += [] if self.offset is None else ["what the mesh misses"]
        return f"{self.noise.describe()}; values are shifted by {' and '.join(parts)}"


def design_elsewhere(
    likelihood: AbstractLikelihood, design: Any, num_points: int
) -> Float[np.ndarray, "point effect"] | None:
    """Covariates at other places, found to be those of the likelihood; raises where they are not.

    Without any, measurements there are not known.
    """
    main = likelihood.main
    effects = main.design if isinstance(main, WithEffects) else None
    if design is None:
        if effects is None:
            return None
        raise RieszError(
            f"measurements are shifted by {effects.shape[1]} effects of covariates: give their "
            "columns at these places by design=..., or predict the state 'u'."
        )
    wanted = (num_points, 0 if effects is None else effects.shape[1])
    result = np.asarray(design, float)
    if result.shape != wanted:
        raise RieszError(
            f"design has shape {result.shape}: {wanted} are wanted, a row for each place and a "
            "column for each effect."
        )
    return result
