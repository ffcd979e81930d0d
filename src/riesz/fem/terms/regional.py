"""Coefficients made of others: one for each region of a mesh, and products."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from riesz.errors import FormError
from riesz.fem.terms.coefficient import (
    AbstractCoefficient,
    Constant,
    PerCell,
    Product,
    WeightedSum,
    as_cell_rows,
    as_coefficient,
)
from riesz.mesh.mesh import Mesh
from riesz.mesh.tags import REST, region_of_cells


def by_region(mesh: Mesh, values: Mapping[str, Any], *, rest: Any = None) -> AbstractCoefficient:
    """One value for each of some regions of the mesh, and for the rest of it.

    Values are numbers, vectors or tensors of one shape; a scalar may also be a function, a latent's
    name or any other coefficient.
    """
    cells = region_of_cells(mesh, values, has_rest=rest is not None)
    every = dict(values) if rest is None else {**values, REST: rest}
    given = [as_coefficient(one, f"the value in {name!r}") for name, one in every.items()]
    known = [np.asarray(one.value) for one in given if isinstance(one, Constant)]
    unknown = [(i, one) for i, one in enumerate(given) if not isinstance(one, Constant)]
    shapes = sorted({value.shape for value in known} | {() for _ in unknown})
    if len(shapes) > 1:
        raise FormError(
            f"the values of regions have the shapes {', '.join(map(str, shapes))}: give all of "
            "them one; an unknown is a number, which `scaled` may multiply by a tensor."
        )
    zero = np.zeros(shapes[0])
    table = np.stack([np.asarray(g.value) if isinstance(g, Constant) else zero for g in given])
    numbers = PerCell(jnp.asarray(table[cells]))
    if not unknown:
        return numbers
    shares = tuple(PerCell(jnp.asarray((cells == i).astype(float))) for i, _ in unknown)
    parts = tuple(one for _, one in unknown)
    text = "; ".join(f"{name}: {words_of(one)}" for name, one in every.items())
    if not known:
        return WeightedSum(parts, shares, text)
    return WeightedSum((Constant(jnp.ones(())), *parts), (numbers, *shares), text)


def scale(value: Any, by: Any) -> AbstractCoefficient:
    """A scalar coefficient, such as a latent's name, times a tensor or a number.

    `by` is one for all of the domain, or one for each cell, as `per_cell` and `by_region` give; or
    another scalar that is not known beforehand, such as the name of a second latent.
    """
    coefficient, factor = as_coefficient(value, "value"), as_coefficient(by, "by")
    if not isinstance(factor, Constant | PerCell):
        return Product((coefficient, factor))
    if isinstance(coefficient, Constant | PerCell):
        return coefficient_product(coefficient, factor)
    if isinstance(coefficient, WeightedSum):
        weights = tuple(coefficient_product(weight, factor) for weight in coefficient.weights)
        text = f"({coefficient.told}) times {words_of(factor)}"
        return dataclasses.replace(coefficient, weights=weights, told=text)
    return WeightedSum((coefficient,), (factor,), f"{words_of(value)} times {words_of(factor)}")


def coefficient_product(
    scalar: Constant | PerCell, factor: Constant | PerCell
) -> Constant | PerCell:
    numbers, factors = as_cell_rows(scalar), as_cell_rows(factor)
    if numbers.ndim > 1:
        raise FormError(
            f"a coefficient of shape {numbers.shape[1:]} is to be scaled: give a number."
        )
    values = numbers.reshape(-1, *(1,) * (factors.ndim - 1)) * factors
    are_constant = isinstance(scalar, Constant) and isinstance(factor, Constant)
    return Constant(values[0]) if are_constant else PerCell(values)


def words_of(value: Any) -> str:
    """What stands for a value in a text."""
    match value:
        case str():
            return f"unknown {value!r}"
        case Constant(value=array):
            return np.array2string(np.asarray(array), precision=6, separator=", ").replace("\n", "")
        case PerCell():
            return "values of cells"
        case AbstractCoefficient():
            return type(value).__name__
    return "a function" if callable(value) else f"{value}"
