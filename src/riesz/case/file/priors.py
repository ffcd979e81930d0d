"""Priors as a problem file writes them: a kind, and numbers in the user's units."""

from collections.abc import Callable, Iterator
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from pydantic import Field, PlainValidator, PositiveFloat, PositiveInt, create_model

from riesz.case.table import FileTable, Numbers, as_finite_numbers, brief, is_finite
from riesz.errors import nearest
from riesz.mesh.tags import REST
from riesz.priors.gaussian_process import GP, BoundaryGP
from riesz.priors.karhunen_loeve import KarhunenLoeve
from riesz.priors.kernels import RBF, AbstractKernel, LearnedScales, Matern12, Matern32, Matern52
from riesz.priors.regions import Regions
from riesz.priors.spde import SPDEField

POSITIVE = ("sd", "median", "log_sd")
"""Keys whose numbers must be so."""


class AbstractPriorTable(FileTable):
    """A prior by name."""

    prior: str

    def distribution(self) -> Any:
        """What the inverse problem takes."""
        return KINDS[self.prior].distribution(self)

    def faults(self) -> Iterator[str]:
        for key in POSITIVE:
            values = getattr(self, key, 1.0)
            numbers = list(values.values()) if isinstance(values, dict) else values
            if not np.all(np.asarray(numbers) > 0):
                yield f"has {key} = {values}: it must be positive"
        self.distribution()  # raises where numbers do not go together


def broadcast(*parts: Numbers) -> list[np.ndarray]:
    """Parameters of one shape: a number stands for all components."""
    try:
        return [np.array(part, float) for part in np.broadcast_arrays(*parts)]
    except ValueError:
        sizes = " and ".join(str(np.size(part)) for part in parts)
        raise ValueError(f"has parameters of {sizes} components: give as many of each") from None


def bounds(table: Any) -> list[np.ndarray]:
    lowest, highest = broadcast(table.low, table.high)
    if not (lowest < highest).all():
        raise ValueError(f"has low = {table.low} and high = {table.high}: low must be below")
    return [lowest, highest]


def log_normal(median: Any, log_sd: Any) -> dist.LogNormal:
    return dist.LogNormal(np.log(median), log_sd)


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


def as_length_by_axis(value: Any) -> float | list[float]:
    numbers = as_finite_numbers(value)
    if not np.all(np.asarray(numbers) > 0):
        raise ValueError(f"is {brief(value)}: give a number above 0, or one for each axis")
    return numbers


LengthByAxis = Annotated[Any, PlainValidator(as_length_by_axis)]

KERNELS: dict[str, type[AbstractKernel]] = {
    "matern12": Matern12,
    "matern32": Matern32,
    "matern52": Matern52,
    "rbf": RBF,
}


def gaussian_level(table: Any) -> tuple[float, float, Callable[[Any], Any] | None]:
    """The standard deviation and mean of a Gaussian field, and what turns it into the quantity."""
    if hasattr(table, "mean"):
        return table.sd, table.mean, None
    return table.log_sd, float(np.log(table.median)), jnp.exp


def kernel_of(table: Any) -> AbstractKernel:
    return KERNELS[table.kernel](table.length_scale, gaussian_level(table)[0])


def unknown_scales(table: Any) -> LearnedScales | None:
    """With `learn_scales` sd and length scale are medians of unknown ones."""
    return LearnedScales() if table.learn_scales else None


def inducing_field(table: Any) -> GP:
    _, mean, transform = gaussian_level(table)
    return GP(kernel_of(table), table.inducing, mean, transform, unknown_scales(table))


def principal_field(table: Any) -> KarhunenLoeve:
    return KarhunenLoeve(kernel_of(table), table.terms, *gaussian_level(table)[1:])


def nodal_field(table: Any) -> SPDEField:
    sd, mean, transform = gaussian_level(table)
    return SPDEField(sd, table.length_scale, mean, transform, unknown_scales(table))


def boundary_process(table: Any) -> BoundaryGP:
    scales = unknown_scales(table)
    return BoundaryGP(kernel_of(table), table.mean, table.trend_sd, table.inducing, scales)


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


Keys = dict[str, tuple[Any, Any]]
"""Keys of a table, each with its type and its default, which is ... where there is none."""


def keys_to_give(kind: Any, *names: str) -> Keys:
    return dict.fromkeys(names, (kind, ...))


LEVEL = {"mean": (float, ...), "sd": (PositiveFloat, ...)}
LOG_LEVEL = keys_to_give(PositiveFloat, "median", "log_sd")
KERNEL: Keys = {
    "length_scale": (LengthByAxis, None),  # by default a quarter of the domain's longest side
    "kernel": (Literal["matern12", "matern32", "matern52", "rbf"], "matern52"),
}
LEARNED: Keys = {"learn_scales": (bool, False)}
INDUCING: Keys = KERNEL | LEARNED | {"inducing": (PositiveInt, 50)}
PRINCIPAL: Keys = KERNEL | {"terms": (PositiveInt, 16)}
NODAL: Keys = LEARNED | {"length_scale": (PositiveFloat, None)}


class Kind(NamedTuple):
    """The keys of a prior in a problem file, and what it stands for."""

    keys: Keys
    distribution: Callable[[Any], Any]


KINDS = {
    # Numbers, or several that stand side by side.
    "normal": Kind(
        keys_to_give(Numbers, "mean", "sd"), lambda t: dist.Normal(*broadcast(t.mean, t.sd))
    ),
    "lognormal": Kind(
        keys_to_give(Numbers, "median", "log_sd"),
        lambda t: log_normal(*broadcast(t.median, t.log_sd)),
    ),
    "half-normal": Kind(keys_to_give(PositiveFloat, "sd"), lambda t: dist.HalfNormal(t.sd)),
    "uniform": Kind(keys_to_give(Numbers, "low", "high"), lambda t: dist.Uniform(*bounds(t))),
    "log-uniform": Kind(
        keys_to_give(PositiveFloat, "low", "high"), lambda t: dist.LogUniform(*bounds(t))
    ),
    # Fields: by inducing points, by principal functions, by a number at each node.
    "gp": Kind(LEVEL | INDUCING, inducing_field),
    "log-gp": Kind(LOG_LEVEL | INDUCING, inducing_field),
    "kl": Kind(LEVEL | PRINCIPAL, principal_field),
    "log-kl": Kind(LOG_LEVEL | PRINCIPAL, principal_field),
    "spde": Kind(LEVEL | NODAL, nodal_field),
    "log-spde": Kind(LOG_LEVEL | NODAL, nodal_field),
    # Values on a boundary: a Gaussian process about a linear trend that is unknown too.
    "boundary-gp": Kind(
        LEVEL | INDUCING | {"trend_sd": (PositiveFloat, None), "inducing": (PositiveInt, 12)},
        boundary_process,
    ),
    # One number a region of the mesh.
    "regions": Kind(
        keys_to_give(PerRegion, "mean", "sd"),
        lambda t: regions_prior(dist.Normal, mean=t.mean, sd=t.sd),
    ),
    "log-regions": Kind(
        keys_to_give(PerRegion, "median", "log_sd"),
        lambda t: regions_prior(log_normal, median=t.median, log_sd=t.log_sd),
    ),
}

if TYPE_CHECKING:
    PriorTable = AbstractPriorTable
else:
    TABLES = [
        create_model(kind, __base__=AbstractPriorTable, prior=(Literal[kind], ...), **one.keys)
        for kind, one in KINDS.items()
    ]
    PriorTable = Annotated[reduce(or_, TABLES), Field(discriminator="prior")]
