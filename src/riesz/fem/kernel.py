"""The residual of one cell or facet: quadrature over pointwise physics.

Functions here see a single entity; `entity_residuals` maps them over a whole domain.
"""

import dataclasses
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from riesz.errors import FormError
from riesz.fem.coefficient import resolve
from riesz.fem.domain import Domain
from riesz.fem.element import Lagrange
from riesz.fem.pointwise import LinearForm, Number, Point, State, TestFunction
from riesz.fem.upwind import upwinded
from riesz.fem.weakform import Term

UNROLLED_POINTS = 6
"""Up to here quadrature is unrolled, so that its points become constants of the compiled code."""

Gathered = tuple[dict[str, PyTree], ...]  # for each term, what its coefficients need


class Entity(eqx.Module):
    """Geometry of one cell or facet."""

    vertices: Float[Array, "corner dim"]
    inverse_jacobian: Float[Array, "dim dim"]
    measure: Float[Array, ""]
    normal: Float[Array, " dim"] | None
    facet_points: Float[Array, "point corner"] | None


def entity_residuals(
    terms: tuple[Term, ...],
    element: Lagrange,
    domain: Domain,
    local_states: Sequence[Float[Array, " entity"]],
    z: PyTree,
) -> tuple[Float[Array, " entity"], ...]:
    """Contribution of every entity to each of its local unknowns, one array a local unknown."""

    def of_point(terms, *arguments):
        return point_residual(terms, element, *arguments, z)

    return integrate(of_point, terms, domain, local_states, z)


def entity_outflows(
    terms: tuple[Term, ...],
    element: Lagrange,
    facets: Domain,
    local_states: Sequence[Float[Array, " entity"]],
    z: PyTree,
) -> Float[Array, " entity"]:
    """What passes through each facet along its normal: the integral of minus the flux."""

    def of_point(terms, entity, barycentric, weight, local_state, gathered):
        form = form_at(terms, element, entity, barycentric, local_state, gathered, z)
        outward = sum(f * n for f, n in zip(form.flux or (), entity.normal) if f is not None)
        return (-weight * entity.measure * outward,)

    return integrate(of_point, terms, facets, local_states, z)[0]


def integrate(
    of_point: Callable[..., tuple[Number, ...]],
    terms: tuple[Term, ...],
    domain: Domain,
    local_states: Sequence[Float[Array, " entity"]],
    z: PyTree,
) -> tuple[Float[Array, " entity"], ...]:
    """Quadrature of `of_point(terms, entity, point, weight, local_state, gathered)` everywhere."""
    terms = tuple(resolve_term(term, z) for term in terms)
    gathered = tuple(
        {name: c.gather(domain) for name, c in term.coefficients.items()} for term in terms
    )
    entities = Entity(
        vertices=jnp.moveaxis(domain.nodes[:, domain.corners], 0, 1),
        inverse_jacobian=domain.inverse_jacobian,
        measure=domain.measure,
        normal=domain.normal,
        facet_points=domain.facet_points,
    )

    def of_entity(entity, local_state, local_gathered):
        def contribution(point, weight):
            return of_point(terms, entity, point, weight, local_state, local_gathered)

        return sum_over_points(contribution, entity, domain)

    return jax.vmap(of_entity, in_axes=-1, out_axes=-1)(entities, tuple(local_states), gathered)


def resolve_term(term: Term, z: PyTree) -> Term:
    """The term with its latents replaced by their values."""
    values = {name: resolve(c, z, name) for name, c in term.coefficients.items()}
    return dataclasses.replace(term, coefficients=values)


def sum_over_points(
    contribution: Callable[..., tuple[Number, ...]], entity: Entity, domain: Domain
) -> tuple[Float[Array, ""], ...]:
    """Sum over the quadrature points of one entity."""
    if entity.facet_points is not None:
        points = [tuple(point) for point in entity.facet_points]
    elif len(domain.weights) <= UNROLLED_POINTS:
        points = domain.cell_points or ()
    else:
        return summed_by_scan(contribution, domain)
    parts = [contribution(p, w) for p, w in zip(points, domain.weights, strict=True)]
    return tuple(sum(column[1:], start=column[0]) for column in zip(*parts, strict=True))


def summed_by_scan(
    contribution: Callable[..., tuple[Number, ...]], domain: Domain
) -> tuple[Float[Array, ""], ...]:
    """The same sum as a loop, which keeps compilation short for rules with many points."""
    dtype = domain.measure.dtype
    points, weights = jnp.asarray(domain.cell_points, dtype), jnp.asarray(domain.weights, dtype)

    def add(total, point_and_weight):
        point, weight = point_and_weight
        part = contribution(tuple(point), weight)
        return tuple(t + p for t, p in zip(total, part, strict=True)), None

    zeros = jax.eval_shape(contribution, tuple(points[0]), weights[0])
    start = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), zeros)
    total, _ = jax.lax.scan(add, start, (points, weights))
    return total


def point_residual(
    terms: tuple[Term, ...],
    element: Lagrange,
    entity: Entity,
    barycentric: tuple[Number, ...],
    weight: Number,
    local_state: tuple[Number, ...],
    gathered: Gathered,
    z: PyTree,
) -> tuple[Number, ...]:
    """Contribution of one quadrature point to each local unknown."""
    form = form_at(terms, element, entity, barycentric, local_state, gathered, z)
    scale = weight * entity.measure
    density = None if form.density is None else scale * form.density
    flux = reference_flux(form, scale, entity.inverse_jacobian, element.dim)
    shapes, slopes = element.values(barycentric), element.gradients(barycentric)
    return tuple(tested(density, flux, shapes[i], slopes[i]) for i in range(element.num_local))


def form_at(
    terms: tuple[Term, ...],
    element: Lagrange,
    entity: Entity,
    barycentric: tuple[Number, ...],
    local_state: tuple[Number, ...],
    gathered: Gathered,
    z: PyTree,
) -> LinearForm:
    """The whole form at one point of a finite-element function, stabilisation included."""
    shapes, slopes = element.values(barycentric), element.gradients(barycentric)
    u = state_at(shapes, slopes, local_state, entity.inverse_jacobian)
    x = position(entity.vertices, barycentric)

    def physics(state: State) -> LinearForm:
        return sum_of_terms(terms, gathered, Point(x, barycentric, state, z), entity.normal)

    if not any(term.streamline for term in terms):
        return physics(u)
    velocity = streamline_velocity(terms, gathered, Point(x, barycentric, u, z))
    return upwinded(physics, u, velocity, entity.inverse_jacobian, entity.measure)


def state_at(
    shapes: Sequence[Number],
    slopes: Sequence[Sequence[Number]],
    local_state: tuple[Number, ...],
    inverse_jacobian: Float[Array, "dim dim"],
) -> State:
    """Value and gradient of a finite-element function from its local unknowns."""
    dim = inverse_jacobian.shape[0]
    value = combine(shapes, local_state)
    by_reference = [combine([slope[a] for slope in slopes], local_state) for a in range(dim)]
    grad = [
        sum(
            (by_reference[a] * inverse_jacobian[a, d] for a in range(1, dim)),
            start=by_reference[0] * inverse_jacobian[0, d],
        )
        for d in range(dim)
    ]
    return State(value, jnp.stack(grad))


def combine(weights: Sequence[Number], values: Sequence[Number]) -> Number:
    """Sum of products, without the terms whose weight is known to be zero."""
    products = [w * v for w, v in zip(weights, values, strict=True) if not is_zero(w)]
    return sum(products[1:], start=products[0]) if products else 0.0 * values[0]


def is_zero(number: Number) -> bool:
    return isinstance(number, float) and number == 0.0


def position(
    vertices: Float[Array, "corner dim"], barycentric: tuple[Number, ...]
) -> Float[Array, " dim"]:
    return combine(barycentric, list(vertices))


def sum_of_terms(
    terms: tuple[Term, ...], gathered: Gathered, point: Point, normal: Float[Array, " dim"] | None
) -> LinearForm:
    """The sum of all terms at one point."""
    total = LinearForm()
    for term, local in zip(terms, gathered, strict=True):
        values = {name: c.at(local[name], point) for name, c in term.coefficients.items()}
        total = total + term.sign * apply_integrand(term, values, point, normal)
    return total


def apply_integrand(
    term: Term, values: dict[str, Array], point: Point, normal: Float[Array, " dim"] | None
) -> LinearForm:
    """Call an integrand with its coefficients and whichever of x, z and normal it asks for."""
    offered = {"x": point.x, "z": point.z, "normal": normal}
    wanted = inspect.signature(term.integrand).parameters
    extra = {k: v for k, v in offered.items() if k in wanted and k not in values}
    form = term.integrand(point.u, TestFunction(point.x.shape[0]), **values, **extra)
    if not isinstance(form, LinearForm):
        raise FormError(
            f"the integrand of {term.name!r} returned {type(form).__name__}: every part of it must "
            "be multiplied by the test function, v.value or v.grad, exactly once."
        )
    return form


def streamline_velocity(
    terms: tuple[Term, ...], gathered: Gathered, point: Point
) -> Float[Array, " dim"]:
    """The velocity of the stabilised advection terms."""
    velocities = [
        term.sign * term.coefficients["velocity"].at(local["velocity"], point)
        for term, local in zip(terms, gathered, strict=True)
        if term.streamline
    ]
    return sum(velocities[1:], start=velocities[0])


def reference_flux(
    form: LinearForm, scale: Number, inverse_jacobian: Float[Array, "dim dim"], dim: int
) -> list[Number] | None:
    """The flux in reference coordinates, times the quadrature weight."""
    if form.flux is None:
        return None
    present = [(d, scale * f) for d, f in enumerate(form.flux) if f is not None]
    return [
        sum(
            (f * inverse_jacobian[a, d] for d, f in present[1:]),
            start=present[0][1] * inverse_jacobian[a, present[0][0]],
        )
        for a in range(dim)
    ]


def tested(
    density: Number | None, flux: list[Number] | None, shape: Number, slope: Sequence[Number]
) -> Any:
    """The form applied to one shape function."""
    parts = [] if density is None or is_zero(shape) else [shape * density]
    if flux is not None:
        parts += [s * f for s, f in zip(slope, flux, strict=True) if not is_zero(s)]
    return sum(parts[1:], start=parts[0]) if parts else jnp.zeros(())
