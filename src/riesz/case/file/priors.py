"""Priors as a problem file writes them: a kind, and numbers in the user's units."""

import math
from collections.abc import Callable
from typing import Annotated, Any, Literal

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from pydantic import Field, PlainValidator, PositiveFloat, PositiveInt, model_validator

from riesz.case.table import FileTable, Numbers, as_finite_numbers, brief, is_finite
from riesz.errors import nearest
from riesz.mesh.tags import REST
from riesz.priors.gaussian_process import GP, BoundaryGP, LogGP
from riesz.priors.karhunen_loeve import KarhunenLoeve
from riesz.priors.kernels import RBF, AbstractKernel, LearnedScales, Matern12, Matern32, Matern52
from riesz.priors.regions import Regions
from riesz.priors.spde import SPDEField

POSITIVE = ("sd", "median", "log_sd")
"""Keys whose numbers must be so, in priors of numbers."""


class AbstractPriorTable(FileTable):
    """A prior by name; `distribution` is what the inverse problem takes."""

    def distribution(self) -> Any:
        raise NotImplementedError


class AbstractNumbersTable(AbstractPriorTable):
    """Of one number, or of several that stand side by side."""

    @model_validator(mode="after")
    def check(self):
        values = dict(self)
        for name in POSITIVE:
            if name in values:
                require_positive(name, values[name])
        self.distribution()  # raises where numbers do not go together
        return self


def broadcast(*parts: Numbers) -> list[np.ndarray]:
    """Parameters of one shape: a number stands for all components."""
    try:
        return [np.array(part, float) for part in np.broadcast_arrays(*parts)]
    except ValueError:
        sizes = " and ".join(str(np.size(part)) for part in parts)
        raise ValueError(f"has parameters of {sizes} components: give as many of each") from None


def bounds(low: Numbers, high: Numbers) -> list[np.ndarray]:
    lowest, highest = broadcast(low, high)
    if not (lowest < highest).all():
        raise ValueError(f"has low = {low} and high = {high}: low must be below")
    return [lowest, highest]


def as_per_region(value: Any) -> float | dict[str, float]:
    if is_finite(value):
        return float(value)
    if isinstance(value, dict) and value and all(map(is_finite, value.values())):
        return {name: float(one) for name, one in value.items()}
    raise ValueError(
        f"is {brief(value)}: give a finite number, or a table of one for each region, such as "
        "{ gravel = 2.0, rest = 1.0 }"
    )


PerRegion = Annotated[Any, PlainValidator(as_per_region)]
"""One number for all regions, or one for each by its name."""


def require_positive(name: str, values: Numbers | dict[str, float]) -> None:
    numbers = list(values.values()) if isinstance(values, dict) else values
    if not np.all(np.asarray(numbers) > 0):
        raise ValueError(f"has {name} = {values}: it must be positive")


class NormalTable(AbstractNumbersTable):
    """Normal with a mean and a standard deviation."""

    prior: Literal["normal"]
    mean: Numbers
    sd: Numbers

    def distribution(self) -> dist.Distribution:
        return dist.Normal(*broadcast(self.mean, self.sd))


class LogNormalTable(AbstractNumbersTable):
    """Positive: the logarithm is normal about that of the median."""

    prior: Literal["lognormal"]
    median: Numbers
    log_sd: Numbers

    def distribution(self) -> dist.Distribution:
        median, spread = broadcast(self.median, self.log_sd)
        return dist.LogNormal(np.log(median), spread)


class HalfNormalTable(AbstractPriorTable):
    """Positive, most likely small."""

    prior: Literal["half-normal"]
    sd: PositiveFloat

    def distribution(self) -> dist.Distribution:
        return dist.HalfNormal(self.sd)


class UniformTable(AbstractNumbersTable):
    """Anywhere between two bounds, alike."""

    prior: Literal["uniform"]
    low: Numbers
    high: Numbers

    def distribution(self) -> dist.Distribution:
        return dist.Uniform(*bounds(self.low, self.high))


class LogUniformTable(AbstractNumbersTable):
    """Any order of magnitude between two positive bounds, alike."""

    prior: Literal["log-uniform"]
    low: PositiveFloat
    high: PositiveFloat

    def distribution(self) -> dist.Distribution:
        bounds(self.low, self.high)
        return dist.LogUniform(self.low, self.high)


KERNELS: dict[str, type[AbstractKernel]] = {
    "matern12": Matern12,
    "matern32": Matern32,
    "matern52": Matern52,
    "rbf": RBF,
}


class AbstractLengthTable(AbstractPriorTable):
    """A function of place; without a length scale, a quarter of the domain's longest side."""

    length_scale: PositiveFloat | None = None


def as_length_by_axis(value: Any) -> float | list[float]:
    numbers = as_finite_numbers(value)
    if not np.all(np.asarray(numbers) > 0):
        raise ValueError(f"is {brief(value)}: give a number above 0, or one for each axis")
    return numbers


class AbstractFieldTable(AbstractLengthTable):
    """With a covariance function of its own, whose length scale may differ from axis to axis."""

    length_scale: Annotated[Any, PlainValidator(as_length_by_axis)] = None
    kernel: Literal["matern12", "matern32", "matern52", "rbf"] = "matern52"

    def covariance(self, sd: float) -> AbstractKernel:
        return KERNELS[self.kernel](self.length_scale, sd)


class AbstractScaledTable(AbstractLengthTable):
    """With `learn_scales` sd and length scale are medians of unknown ones."""

    learn_scales: bool = False

    def scales(self) -> LearnedScales | None:
        return LearnedScales() if self.learn_scales else None


class GPTable(AbstractFieldTable, AbstractScaledTable):
    """A Gaussian process by inducing points; may also be a prescribed value on a boundary."""

    prior: Literal["gp"]
    mean: float
    sd: PositiveFloat
    inducing: PositiveInt = 50

    def distribution(self) -> GP:
        return GP(self.covariance(self.sd), self.inducing, self.mean, learned=self.scales())


class BoundaryGPTable(AbstractFieldTable, AbstractScaledTable):
    """Values on a boundary: a Gaussian process about a linear trend that is unknown too."""

    prior: Literal["boundary-gp"]
    mean: float
    sd: PositiveFloat
    trend_sd: PositiveFloat | None = None
    inducing: PositiveInt = 12

    def distribution(self) -> BoundaryGP:
        return BoundaryGP(
            self.covariance(self.sd), self.mean, self.trend_sd, self.inducing, self.scales()
        )


class LogGPTable(AbstractFieldTable, AbstractScaledTable):
    """A positive field whose logarithm is a Gaussian process."""

    prior: Literal["log-gp"]
    median: PositiveFloat
    log_sd: PositiveFloat
    inducing: PositiveInt = 50

    def distribution(self) -> GP:
        return LogGP(self.covariance(self.log_sd), self.inducing, self.median, self.scales())


class KLTable(AbstractFieldTable):
    """A Gaussian field by its principal functions: the fewest unknowns for its smoothness."""

    prior: Literal["kl"]
    mean: float
    sd: PositiveFloat
    terms: PositiveInt = 16

    def distribution(self) -> KarhunenLoeve:
        return KarhunenLoeve(self.covariance(self.sd), self.terms, self.mean)


class LogKLTable(AbstractFieldTable):
    """A positive field whose logarithm is given by its principal functions."""

    prior: Literal["log-kl"]
    median: PositiveFloat
    log_sd: PositiveFloat
    terms: PositiveInt = 16

    def distribution(self) -> KarhunenLoeve:
        middle = math.log(self.median)
        return KarhunenLoeve(self.covariance(self.log_sd), self.terms, middle, jnp.exp)


class SPDETable(AbstractScaledTable):
    """A Matern field with one unknown a node, for data that may tell something anywhere."""

    prior: Literal["spde"]
    mean: float
    sd: PositiveFloat

    def distribution(self) -> SPDEField:
        return SPDEField(self.sd, self.length_scale, self.mean, learned=self.scales())


class LogSPDETable(AbstractScaledTable):
    """A positive field whose logarithm is such a field."""

    prior: Literal["log-spde"]
    median: PositiveFloat
    log_sd: PositiveFloat

    def distribution(self) -> SPDEField:
        middle = math.log(self.median)
        return SPDEField(self.log_sd, self.length_scale, middle, jnp.exp, self.scales())


class RegionsTable(AbstractNumbersTable):
    """One normal number a region of the mesh."""

    prior: Literal["regions"]
    mean: PerRegion
    sd: PerRegion

    def distribution(self) -> Regions:
        return regions_prior(dist.Normal, mean=self.mean, sd=self.sd)


class LogRegionsTable(AbstractNumbersTable):
    """One positive number a region of the mesh."""

    prior: Literal["log-regions"]
    median: PerRegion
    log_sd: PerRegion

    def distribution(self) -> Regions:
        return regions_prior(
            lambda median, sd: dist.LogNormal(math.log(median), sd),
            median=self.median,
            log_sd=self.log_sd,
        )


def regions_prior(kind: Callable[[float, float], dist.Distribution], **parameters: Any) -> Regions:
    """Priors of the regions that are named or, by numbers alone, of all and the rest."""
    tables = {key: one for key, one in parameters.items() if isinstance(one, dict)}
    if not tables:
        alike = kind(*parameters.values())
        return Regions(alike, rest=alike)
    names = tuple(dict.fromkeys(name for one in tables.values() for name in one))
    for key, one in tables.items():
        for name in names:
            if name not in one:
                raise ValueError(
                    f"has no {key} for the region {name!r}: {nearest(name, one)}Give it, or one "
                    "number for all"
                )

    def of(name: str) -> list[Any]:
        return [one[name] if isinstance(one, dict) else one for one in parameters.values()]

    priors = {name: kind(*of(name)) for name in names}
    rest = priors.pop(REST, None)
    return Regions(priors, rest)


PriorTable = Annotated[
    NormalTable
    | LogNormalTable
    | HalfNormalTable
    | UniformTable
    | LogUniformTable
    | GPTable
    | BoundaryGPTable
    | LogGPTable
    | KLTable
    | LogKLTable
    | SPDETable
    | LogSPDETable
    | RegionsTable
    | LogRegionsTable,
    Field(discriminator="prior"),
]
