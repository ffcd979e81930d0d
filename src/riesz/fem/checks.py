"""Whether the coefficients of an equation fit the mesh and make sense, before any heavy work."""

from collections.abc import Iterable, Iterator

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree, Shaped

from riesz.arrays import on_device
from riesz.errors import FormError
from riesz.fem.elements.domain import Domain
from riesz.fem.terms.coefficient import (
    AbstractCoefficient,
    Constant,
    Function,
    Nodal,
    PerCell,
    Product,
    WeightedSum,
    check_finite,
    check_value_count,
    is_traced,
    parts_of,
    resolve,
)
from riesz.fem.terms.weakform import SCALAR, Shape, Term, check_shape
from riesz.mesh.mesh import Mesh

Places = Float[Array, "place dim"]

CELLS_AT_ONCE = 1 << 17
"""Functions are sampled on so many cells at a time: on large meshes all at once would not fit."""


def check_term(term: Term, domain: Domain, mesh: Mesh, z: PyTree) -> None:
    """Raise where a coefficient has a wrong length or shape, is not finite, or not positive.

    Latents, and functions of them or of the state, are left for later where `z` is None.
    """
    for name, allowed in term.shapes:
        for part, shapes in shapes_to_check(term.coefficients[name], allowed):
            if part.names and z is None:
                continue
            known, label = resolve(part, z, name), f"{name} of {term.name}"
            values = check_values(known, quadrature_places(domain), mesh, shapes, z, label)
            if values is not None and name in term.positive:
                check_positive(values, label)


def shapes_to_check(
    coefficient: AbstractCoefficient, allowed: tuple[Shape, ...]
) -> list[tuple[AbstractCoefficient, tuple[Shape, ...]]]:
    """What must have which shapes; of a sum its weights together, and each part or factor."""
    if not isinstance(coefficient, WeightedSum | Product):
        return [(coefficient, allowed)]
    whole = [(coefficient.with_ones(), allowed)] if isinstance(coefficient, WeightedSum) else []
    return [*whole, *((part, SCALAR) for part in parts_of(coefficient))]


def check_prescribed(
    coefficient: AbstractCoefficient, places: Places, mesh: Mesh, z: PyTree, label: str
) -> None:
    """The same for a Dirichlet value, which is a scalar and cannot depend on the state."""
    if coefficient.names and z is None:
        return
    coefficient = resolve(coefficient, z, label)
    if isinstance(coefficient, Function) and coefficient.num_arguments > 2:
        raise FormError(f"{label} is a function of the state: it takes (x) or (x, z).")
    check_values(coefficient, [places], mesh, SCALAR, z, label)


def check_values(
    coefficient: AbstractCoefficient,
    places: Iterable[Places],
    mesh: Mesh,
    allowed: tuple[Shape, ...],
    z: PyTree,
    label: str,
) -> Float[np.ndarray, " sample *components"] | None:
    """All values of a coefficient, found to be in order, or None where they are not known yet."""
    check_num_values(coefficient, mesh, label)
    values = values_if_known(coefficient, places, z)
    if values is None or is_traced(values):
        return None
    check_shape(values.shape[1:], allowed, mesh.dim, label)
    check_finite(np.asarray(values), label)
    return np.asarray(values)


def check_num_values(coefficient: AbstractCoefficient, mesh: Mesh, label: str) -> None:
    if isinstance(coefficient, Nodal):
        check_value_count(len(coefficient.values), mesh.num_nodes, "nodes", label)
    elif isinstance(coefficient, PerCell):
        check_value_count(len(coefficient.values), mesh.num_cells, "cells", label)


def values_if_known(
    coefficient: AbstractCoefficient, places: Iterable[Places], z: PyTree
) -> Float[Array, " sample *components"] | None:
    """All values that the quadrature will see, or None where they depend on what is unknown."""
    if isinstance(coefficient, Constant):
        return coefficient.value[None]
    if isinstance(coefficient, Nodal | PerCell):
        return coefficient.values
    if isinstance(coefficient, Function) and not coefficient.fields:
        last_known_argument = 1 if z is None else 2
        if coefficient.num_arguments <= last_known_argument:
            parts = [sample_function(coefficient, some, z) for some in places]
            return jnp.concatenate(parts) if len(parts) > 1 else parts[0]
    return None


@eqx.filter_jit
def sample_function(
    function: Function, places: Places, z: PyTree
) -> Shaped[Array, " place *components"]:
    """A function of place, at many of them; compiled, for a fit solves again and again."""
    return function.at_places(places, z)


def quadrature_places(domain: Domain) -> Iterator[Places]:
    """The coordinates of all quadrature points, of some cells after the other."""
    nodes, corners = np.asarray(domain.nodes), np.asarray(domain.corners)
    for start in range(0, corners.shape[1], CELLS_AT_ONCE):
        some = slice(start, start + CELLS_AT_ONCE)
        vertices = nodes[:, corners[:, some]]
        if domain.facet_points is None:
            places = np.einsum("dkc,qk->qcd", vertices, np.asarray(domain.cell_points))
        else:
            points = np.asarray(domain.facet_points)[:, :, some]
            places = np.einsum("dkc,qkc->qcd", vertices, points)
        yield on_device(places.reshape(-1, domain.dim), domain.nodes.dtype)


def check_positive(values: Float[np.ndarray, " sample *components"], label: str) -> None:
    if values.ndim == 3:
        values = np.linalg.eigvalsh((values + np.swapaxes(values, 1, 2)) / 2)[:, 0]
        label = f"the smallest eigenvalue of {label}"
    (bad,) = np.nonzero(values <= 0)
    if bad.size:
        raise FormError(
            f"{label} is {values[bad[0]]:.3g} at {bad.size} of {len(values)} places, first at "
            f"index {bad[0]}: it must be positive; for an unknown, use its logarithm."
        )
