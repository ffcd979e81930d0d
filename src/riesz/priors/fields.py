"""Unknown functions of place: few weights in `z`, everything else in the equation.

Samples of the weights can then be mapped over without copying anything as large as the mesh, and a
training step evaluates a field only where its mini-patches are.
"""

from abc import abstractmethod
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from riesz.arrays import AnyArray, as_like, numpy_of, on_device
from riesz.errors import FormError, RieszError
from riesz.fem.elements.domain import Domain
from riesz.fem.terms.coefficient import (
    FUNCTION_DEGREE,
    AbstractCoefficient,
    Latent,
    as_coefficient,
    latent_value,
)
from riesz.fem.terms.pointwise import Point
from riesz.mesh.mesh import Mesh
from riesz.priors.kernels import Scales
from riesz.priors.latent import AbstractLatent

Scalar = Float[Array, ""]
Weights = Float[Array, " weight"]

Transform = Callable[[Array], Array]
"""What turns the value of a Gaussian field at one point into the quantity, such as `jnp.exp`."""

Mean = float | int | Callable[[Array], Any]
"""A number, or a function of one place."""

NODES_AT_ONCE = 4096
"""Bounds the memory of evaluating a field at all nodes."""

AnyWeights = Float[AnyArray, "*draw weight"]
Rest = Float[AnyArray, " rest *draw"]
WeightColumns = Float[AnyArray, " weight *draw"]
AtNodes = Float[AnyArray, "*draw chosen"]

Chosen = Int[np.ndarray, " chosen"] | slice
ALL = slice(None)


class AbstractField(eqx.Module):
    """A family of functions on the domain with finitely many weights."""

    is_log = False
    """Whether it is the exponential of what was thought of."""

    @abstractmethod
    def gather(self, domain: Domain) -> PyTree[Array]:
        """What each entity needs to evaluate it, with the entity axis last."""

    @abstractmethod
    def at(self, local: PyTree[Array], point: Point, weights: Weights) -> Scalar:
        """The value at one point of one entity."""

    @abstractmethod
    def nodal(self, weights: Weights) -> Float[Array, " node"]:
        """The values at all mesh nodes."""

    def nodal_draws(self, weights: AnyWeights, some: Chosen = ALL) -> AtNodes:
        """For many draws, at some nodes."""
        return np.asarray(draws_on_device(self, on_device(weights)))[:, some]

    def degree(self) -> int:
        """The polynomial degree for which to choose a quadrature rule."""
        return FUNCTION_DEGREE


@eqx.filter_jit
def draws_on_device(
    field: AbstractField, weights: Float[Array, "draw weight"]
) -> Float[Array, "draw node"]:
    return jax.lax.map(field.nodal, weights)


class AbstractArrayField(AbstractField):
    """A field whose nodal values follow for weights of either library: of NumPy's, those of many
    draws at once and without a program."""

    @abstractmethod
    def nodal(self, weights: AnyWeights, some: Chosen = ALL) -> AtNodes:
        """The values at all mesh nodes, or at some."""

    def nodal_draws(self, weights: AnyWeights, some: Chosen = ALL) -> AtNodes:
        return self.nodal(np.asarray(weights, float), some)


class AbstractPlaceField(AbstractField):
    """A field that needs nothing but the place: it may be evaluated anywhere."""

    @abstractmethod
    def at_place(self, x: Float[Array, " dim"], weights: Weights) -> Scalar:
        """The value at one place, inside the domain or not."""

    def gather(self, domain: Domain) -> PyTree[Array]:
        return ()

    def at(self, local: PyTree[Array], point: Point, weights: Weights) -> Scalar:
        return self.at_place(point.x, weights)


class FieldWeights(eqx.Module):
    """What `z` holds of an unknown field: prior mean and transform come on top of its weights.

    A kind of its own, so that weights and values cannot be taken for each other.
    """

    weights: Float[Array, "*draw weight"]

    def __jax_array__(self) -> Array:
        raise RieszError(
            "z holds the weights of a field where a number was wanted: in a function of (x, z) "
            "name the field by itself, for its value at x; rz.predict and Posterior.draws give "
            "values elsewhere."
        )


def numbers_in(entry: PyTree[Array]) -> Float[Array, " number"]:
    """What `z` holds of an unknown, as one row of numbers."""
    return jnp.ravel(entry.weights if isinstance(entry, FieldWeights) else entry)


class FieldCoefficient(AbstractCoefficient):
    """A field in an equation; the entry of `z` with this name has its weights, or its values."""

    field: AbstractField
    name: str = eqx.field(static=True)

    def gather(self, domain: Domain) -> PyTree[Array]:
        return self.field.gather(domain)

    def at(self, local: PyTree[Array], point: Point) -> Array:
        return self.field.at(local, point, point.z[self.name].weights)

    def resolve(self, z: PyTree, label: str) -> AbstractCoefficient:
        if z is None:
            return self
        given = latent_value(Latent(self.name), z, label)
        if isinstance(given, FieldWeights):
            return self
        if not (isinstance(given, AbstractCoefficient) or callable(given)) and jnp.ndim(given):
            raise FormError(
                f"the field {self.name!r} is given as a bare array of shape {jnp.shape(given)}: "
                "wrap values at the nodes in rz.nodal(...), values of the cells in "
                "rz.per_cell(...), or give a number or a function of the place; "
                "problem.z(coordinates) has its weights."
            )
        return as_coefficient(given, f"{label} {self.name!r}")

    def nodal(self, z: PyTree) -> Float[Array, " node"] | None:
        if isinstance(self.field, AbstractPlaceField):
            return None
        return self.field.nodal(z[self.name].weights)

    def degree(self) -> int:
        return self.field.degree()


class AbstractFieldLatent(AbstractLatent):
    """An unknown field: what `z` holds are its weights."""

    field: eqx.AbstractVar[AbstractField]

    def entry(self, value: Float[Array, "..."]) -> FieldWeights:
        return FieldWeights(value)

    def display_value(self, entry: PyTree[Float[Array, "..."]]) -> Float[Array, " node"]:
        return self.field.nodal(entry.weights)

    def coefficient(self, name: str) -> AbstractCoefficient:
        return FieldCoefficient(self.field, name)


class AbstractArrayLatent(AbstractFieldLatent):
    """An unknown field that is linear in all coordinates but its scales, by arrays of either
    library; what depends on scales is found once for the draws that share them."""

    def value(self, coordinates: Float[Array, " coordinate"]) -> Weights:
        return self.value_given(coordinates[: self.num_scales], coordinates[self.num_scales :])

    @abstractmethod
    def value_given(self, scales: Scales, rest: Rest) -> WeightColumns: ...

    def of_draws(
        self, draws: Float[np.ndarray, "draw coordinate"]
    ) -> Float[np.ndarray, "draw weight"]:
        return by_scales(lambda own, rest: self.value_given(own, rest.T).T, draws, self.num_scales)


def by_scales(
    function: Callable[[Any, Any], Any],
    draws: Float[np.ndarray, "draw number"],
    num_scales: int,
) -> Float[np.ndarray, "draw value"]:
    """A function of scales, which are the first numbers, and of the rest of draws that share them;
    of many draws."""
    every, which = np.unique(draws[:, :num_scales], axis=0, return_inverse=True)
    rows = [np.flatnonzero(which.reshape(-1) == number) for number in range(len(every))]
    each = zip(every, rows, strict=True)
    parts = [function(scales, draws[own, num_scales:]) for scales, own in each]
    return np.concatenate(parts)[np.argsort(np.concatenate(rows))]


class GaussianField(AbstractArrayLatent):
    """A field whose weights are linear in the coordinates, the identity where no map is given."""

    field: AbstractField
    description: str = eqx.field(static=True)
    num_weights: int = eqx.field(static=True)
    whitening: Float[Array, "weight coordinate"] | None = None

    @property
    def num_coordinates(self) -> int:
        return self.num_weights if self.whitening is None else self.whitening.shape[1]

    def value_given(self, scales: Scales, rest: Rest) -> WeightColumns:
        if self.whitening is None:
            return rest
        return as_like(self.whitening, rest).astype(rest.dtype) @ rest


def cell_values(local: PyTree[Array], kind: str) -> PyTree[Array]:
    """What a field gathered from the cell, which there is none of at a prescribed value."""
    if isinstance(local, tuple) and not local:
        raise RieszError(
            f"a {kind} lives on the cells of the mesh and cannot be a Dirichlet value: use GP "
            "without at_nodes, a function of the place alone, or a number."
        )
    return local


def over_nodes(
    function: Callable[[Float[Array, " dim"]], Scalar], nodes: Float[Array, "node dim"]
) -> Float[Array, " node"]:
    """A function of one place at all nodes, some at a time."""
    return jax.lax.map(function, nodes, batch_size=NODES_AT_ONCE)


def apply_transform(
    transform: Transform | None, values: Float[AnyArray, "..."]
) -> Float[AnyArray, "..."]:
    if transform is None or isinstance(values, jax.Array):
        return values if transform is None else transform(values)
    if transform is not jnp.exp:
        return np.asarray(transform(on_device(values)))
    with np.errstate(over="ignore", under="ignore"):  # as in programs: what is infinite is told
        return np.exp(values)


def mean_at(mean: Mean, x: Float[Array, " dim"]) -> Scalar:
    value = jnp.asarray(mean(x) if callable(mean) else mean)
    if value.shape != ():
        raise RieszError(
            f"the mean of a field has shape {value.shape} at one place: it must be one number."
        )
    return value.astype(x.dtype)


def mean_at_places(mean: Mean, places: Float[AnyArray, "place dim"]) -> Float[AnyArray, " place"]:
    if not callable(mean):
        return numpy_of(places).full(len(places), float(mean), places.dtype)
    if isinstance(places, jax.Array):
        return jax.vmap(lambda x: mean_at(mean, x))(places)
    return np.asarray(mean_program(mean)(on_device(places)))


@lru_cache(maxsize=16)
def mean_program(mean: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Compiled once for a function, however often it is asked for."""
    return jax.jit(jax.vmap(lambda x: mean_at(mean, x)))


def mean_at_nodes(mean: Mean, mesh: Mesh) -> Float[np.ndarray, " node"]:
    """The mean at all nodes, found to be finite."""
    values = mean_at_places(mean, mesh.nodes)
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        place = ", ".join(f"{x:.6g}" for x in mesh.nodes[bad[0]])
        raise RieszError(
            f"the mean of a field is {values[bad[0]]} at ({place}), and at {len(bad)} of "
            f"{mesh.num_nodes} nodes not a finite number: correct the function."
        )
    return values


def plain_number(value: Any) -> Any:
    """NumPy's and JAX's single numbers as Python's; anything else as it is."""
    is_single = isinstance(value, np.generic | np.ndarray | jax.Array) and np.ndim(value) == 0
    return value.item() if is_single else value


def as_mean(given: Any) -> Mean:
    """What may be the mean of a field."""
    mean = plain_number(given)
    if callable(mean) or (isinstance(mean, float | int) and np.isfinite(mean)):
        return mean
    result = mean if isinstance(mean, float | int) else f"a {type(mean).__name__}"
    raise RieszError(
        f"the mean of a field is {result}: give a finite number or a function of one place, such "
        "as lambda x: 1.0 + x[0]."
    )


def as_positive_number(name: str, given: Any) -> float:
    """What may be the sd or the length of a field."""
    value = plain_number(given)
    if isinstance(value, float | int) and 0 < value < np.inf:
        return value
    result = value if isinstance(value, float | int) else f"a {type(value).__name__}"
    raise RieszError(
        f"the {name} of a field is {result}: it must be positive, and finite. Kernels are for GP, "
        "LogGP and KarhunenLoeve."
    )


def range_text(
    middle: Float[np.ndarray, " node"], sd: Float[np.ndarray, " #node"], transform: Transform | None
) -> str:
    """Where values of the field lie before the data are seen, in physical units."""
    low, median, high = (apply_transform(transform, middle + k * sd) for k in (-1.96, 0, 1.96))
    ends = np.concatenate([low, high])
    if np.ptp(median) <= 1e-9 * np.abs(median).max(initial=0.0):
        about = f"median {median[0]:.4g}"
    else:
        about = f"medians {median.min():.4g} .. {median.max():.4g}"
    return f"95 % of values within {ends.min():.4g} .. {ends.max():.4g}, {about}"


class NodalField(AbstractArrayField):
    """Nodal values, linear in each cell, then transformed point by point."""

    mean: Float[Array, " node"]
    transform: Transform | None = eqx.field(static=True)

    def gather(self, domain: Domain) -> PyTree[Array]:
        return jnp.asarray(domain.corners), self.mean[domain.corners]

    def at(self, local: PyTree[Array], point: Point, weights: Weights) -> Scalar:
        corners, mean = cell_values(local, "field known at the nodes")
        values = weights[corners] + mean
        inside = sum(values[i] * shape for i, shape in enumerate(point.barycentric))
        return apply_transform(self.transform, jnp.asarray(inside))

    @property
    def is_log(self) -> bool:
        return self.transform is jnp.exp

    def nodal(self, weights: AnyWeights, some: Chosen = ALL) -> AtNodes:
        values = as_like(self.mean, weights)[some] + weights[..., some]
        return apply_transform(self.transform, values)

    def degree(self) -> int:
        return 1 if self.transform is None else super().degree()
