"""Coefficients of an equation: constants, nodal or cell arrays, functions, or names of latents.

Each kind gathers what it needs for every cell or facet (entity axis last), then gives its value at
one point; `vmap` does the loop. Some differ from region to region, and numbers or fields may be
multiplied by known tensors.
"""

import dataclasses
import inspect
import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, PyTree

from riesz.arrays import on_device
from riesz.errors import FormError
from riesz.fem.elements.domain import Domain
from riesz.fem.terms.pointwise import Point, nowhere

FUNCTION_DEGREE = 2
"""Polynomial degree that quadrature assumes of a function given by the user."""


class AbstractCoefficient(eqx.Module):
    """A quantity that may vary over the domain."""

    @abstractmethod
    def gather(self, domain: Domain) -> PyTree[Array]:
        """What each entity needs to evaluate it, with the entity axis last."""

    @abstractmethod
    def at(self, local: PyTree[Array], point: Point) -> Array:
        """The value at one point of one entity."""

    def at_places(self, places: Float[Array, "place dim"], z: PyTree) -> Array:
        """Where there is no state and nothing is gathered, as on the boundary."""
        return jax.vmap(lambda x: self.at((), Point(x, (), nowhere(len(x)), z)))(places)

    @abstractmethod
    def degree(self) -> int:
        """The polynomial degree for which to choose a quadrature rule."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of the entries of `z` that must be put in its place before it has a value."""
        return ()

    def resolve(self, z: PyTree, label: str) -> "AbstractCoefficient":
        """With what `z` holds in place of names."""
        return self

    def nodal(self, z: PyTree) -> Float[Array, " node"] | None:
        """Values at the nodes, of those that are known on the mesh alone."""
        return None


class Constant(AbstractCoefficient):
    """One number, vector or tensor for the whole domain."""

    value: Float[Array, "..."]

    def gather(self, domain: Domain) -> PyTree[Array]:
        return ()

    def at(self, local: PyTree[Array], point: Point) -> Array:
        return self.value

    def degree(self) -> int:
        return 0


class Nodal(AbstractCoefficient):
    """Values at the mesh nodes, linear in between."""

    values: Float[Array, " node *components"]

    def gather(self, domain: Domain) -> PyTree[Array]:
        check_value_count(len(self.values), domain.nodes.shape[1], "nodes")
        return jnp.moveaxis(self.values[domain.corners], 1, -1)

    def at(self, local: PyTree[Array], point: Point) -> Array:
        parts = [weight * local[i] for i, weight in enumerate(point.barycentric)]
        return sum(parts[1:], start=parts[0])

    def nodal(self, z: PyTree) -> Float[Array, " node"] | None:
        return self.values

    def degree(self) -> int:
        return 1


class PerCell(AbstractCoefficient):
    """One value a cell; on a facet, that of the cell beside it."""

    values: Float[Array, " cell *components"]

    def gather(self, domain: Domain) -> PyTree[Array]:
        check_value_count(len(self.values), domain.num_cells, "cells")
        values = self.values if domain.cell is None else self.values[domain.cell]
        return jnp.moveaxis(values, 0, -1)

    def at(self, local: PyTree[Array], point: Point) -> Array:
        return local

    def degree(self) -> int:
        return 0


class Function(AbstractCoefficient):
    """A function of (x), (x, z) or (x, z, u, grad u), told apart by the number of arguments.

    Of `fields`, `z` shows it the values at x.
    """

    function: Callable[..., Any]
    num_arguments: int = eqx.field(static=True)
    fields: dict[str, AbstractCoefficient] = eqx.field(default_factory=dict)

    def gather(self, domain: Domain) -> PyTree[Array]:
        return {name: field.gather(domain) for name, field in self.fields.items()}

    def at(self, local: PyTree[Array], point: Point) -> Array:
        z = point.z
        if self.fields:
            inner = local or dict.fromkeys(self.fields, ())  # prescribed values gather nothing
            here = {name: field.at(inner[name], point) for name, field in self.fields.items()}
            z = {**z, **here}
        arguments = (point.x, z, point.u.value, point.u.grad)
        return jnp.asarray(self.function(*arguments[: self.num_arguments]))

    def resolve(self, z: PyTree, label: str) -> AbstractCoefficient:
        fields = {name: field.resolve(z, label) for name, field in self.fields.items()}
        return dataclasses.replace(self, fields=fields) if fields else self

    def degree(self) -> int:
        return FUNCTION_DEGREE


def reads_state(coefficient: AbstractCoefficient) -> bool:
    """Whether a function in it asks for u or its slope."""
    is_function = lambda part: isinstance(part, Function)  # noqa: E731
    parts = jax.tree.leaves(coefficient, is_leaf=is_function)
    return any(is_function(part) and part.num_arguments > 2 for part in parts)


class Latent(AbstractCoefficient):
    """The entry of `z` with this name, of any of the other kinds."""

    name: str = eqx.field(static=True)

    def gather(self, domain: Domain) -> PyTree[Array]:
        raise self.error_of_missing()

    def at(self, local: PyTree[Array], point: Point) -> Array:
        raise self.error_of_missing()

    def error_of_missing(self) -> FormError:
        advice = f"give z={{{self.name!r}: ...}}"
        return FormError(f"the latent {self.name!r} has no value yet: {advice}")

    def degree(self) -> int:
        return 1  # exact for numbers, cell and nodal arrays, and enough for smooth functions

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)

    def resolve(self, z: PyTree, label: str) -> AbstractCoefficient:
        return as_coefficient(latent_value(self, z, label), f"{label} {self.name!r}")


class WeightedSum(AbstractCoefficient):
    r"""$\sum_i w_i p_i$: known weights, such as tensors or zeros and ones, times scalar parts."""

    parts: tuple[AbstractCoefficient, ...]
    weights: tuple[Constant | PerCell, ...]
    told: str = eqx.field(static=True)  # in words

    def gather(self, domain: Domain) -> PyTree[Array]:
        pairs = zip(self.weights, self.parts, strict=True)
        return tuple((weight.gather(domain), part.gather(domain)) for weight, part in pairs)

    def at(self, local: PyTree[Array], point: Point) -> Array:
        total = None
        for weight, part, (own, inner) in zip(self.weights, self.parts, local, strict=True):
            factor = part.at(inner, point).astype(point.x.dtype)
            if factor.shape != ():
                raise FormError(
                    f"a part of a coefficient, {self.told}, has shape {factor.shape}: it must be "
                    "one number."
                )
            product = factor * weight.at(own, point).astype(point.x.dtype)
            total = product if total is None else total + product
        return jnp.asarray(total)

    def degree(self) -> int:
        return max(part.degree() for part in self.parts)

    def with_ones(self) -> Constant | PerCell:
        """What it would be if all parts were one."""
        first, *others = map(as_cell_rows, self.weights)
        values = sum(others, start=first)
        return Constant(values[0]) if len(values) == 1 else PerCell(values)


def as_cell_rows(known: Constant | PerCell) -> Float[Array, " row *components"]:
    """Values of cells, or one row for all of them."""
    return known.value[None] if isinstance(known, Constant) else known.values


class Product(AbstractCoefficient):
    """Scalar parts, such as two unknowns, multiplied with each other."""

    parts: tuple[AbstractCoefficient, ...]

    def gather(self, domain: Domain) -> PyTree[Array]:
        return tuple(part.gather(domain) for part in self.parts)

    def at(self, local: PyTree[Array], point: Point) -> Array:
        inner = local or ((),) * len(self.parts)  # nothing is gathered for prescribed values
        pairs = zip(self.parts, inner, strict=True)
        factors = [part.at(own, point).astype(point.x.dtype) for part, own in pairs]
        return math.prod(factors[1:], start=factors[0])

    def degree(self) -> int:
        return sum(part.degree() for part in self.parts)


def parts_of(coefficient: AbstractCoefficient) -> tuple[AbstractCoefficient, ...]:
    """What may be a latent in a coefficient: parts of a sum or a product, otherwise itself."""
    if isinstance(coefficient, WeightedSum | Product):
        return sum(map(parts_of, coefficient.parts), ())
    return (coefficient,)


def with_parts(
    coefficient: AbstractCoefficient, change: Callable[[AbstractCoefficient], AbstractCoefficient]
) -> AbstractCoefficient:
    """The same with every part changed."""
    if isinstance(coefficient, WeightedSum | Product):
        parts = tuple(with_parts(part, change) for part in coefficient.parts)
        return dataclasses.replace(coefficient, parts=parts)
    return change(coefficient)


def nodal(values: Any) -> Nodal:
    """Values at the mesh nodes, linear in between."""
    return Nodal(as_floats(values, "nodal values"))


def per_cell(values: Any) -> PerCell:
    """One value a cell."""
    return PerCell(as_floats(values, "cell values"))


def as_coefficient(value: Any, name: str) -> AbstractCoefficient:
    """Anything that may stand for the coefficient called `name` in an equation."""
    if isinstance(value, AbstractCoefficient):
        return value
    if isinstance(value, str):
        return Latent(value)
    if callable(value):
        return as_function(value, name)
    array = as_floats(value, name)
    if array.ndim > 2 or max(array.shape, default=0) > 3:
        raise FormError(
            f"{name} is an array of shape {array.shape}: wrap values at the nodes in nodal(...), "
            "values of the cells in per_cell(...); a bare array is one vector or tensor."
        )
    return Constant(array)


def as_function(function: Callable[..., Any], name: str) -> Function:
    parameters = inspect.signature(function).parameters.values()
    positional = [
        p
        for p in parameters
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty
    ]
    if len(positional) not in (1, 2, 4):
        raise FormError(
            f"{name} is a function of {len(positional)} arguments: it takes (x), (x, z) or "
            "(x, z, u, grad_u)."
        )
    return Function(function, len(positional))


def as_floats(value: Any, name: str) -> Float[Array, "..."]:
    """A floating-point array; whole numbers become floats, anything else is refused."""
    try:
        array = value if isinstance(value, jax.Array) else np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise FormError(f"{name} is {value!r}: give a number, an array or a function.") from None
    array = on_device(array)
    if not jnp.issubdtype(array.dtype, jnp.floating):
        array = array.astype(float)
    if not is_traced(array):
        check_finite(np.asarray(array), name)
    return array


def check_value_count(count: int, wanted: int, what: str, label: str = "a coefficient") -> None:
    if count != wanted:
        raise FormError(
            f"{label} has {count} values, but the mesh has {wanted} {what}: give one value "
            f"for each of the {what}, in the mesh's order."
        )


def is_traced(tree: PyTree) -> bool:
    """Whether values in a tree are not known yet, because they belong to a compiled function."""
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(tree))


def check_finite(values: np.ndarray, name: str) -> None:
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        raise FormError(
            f"{name} has {len(bad)} NaN or infinite of {values.size} values, first at index "
            f"{tuple(bad[0].tolist())}: fill or remove them."
        )


def resolve(coefficient: AbstractCoefficient, z: PyTree, name: str) -> AbstractCoefficient:
    """The coefficient itself, with what `z` holds in place of latents' names."""
    return with_parts(coefficient, lambda part: part.resolve(z, name))


def latent_value(latent: Latent, z: PyTree, name: str) -> Any:
    """The entry of `z` that stands for the quantity called `name`."""
    if not isinstance(z, Mapping) or latent.name not in z:
        known = sorted(z) if isinstance(z, Mapping) else "nothing"
        raise FormError(
            f"{name} is the latent {latent.name!r}, but z holds {known}: "
            f"pass z={{{latent.name!r}: value}}."
        )
    value = z[latent.name]
    if isinstance(value, str):
        raise FormError(f"the latent {latent.name!r} is the text {value!r}, not a value.")
    return value
