"""Quadrature over pointwise physics, for one cell or facet and then for all.

Functions here see a single entity, cell or facet; `integrate` maps them over a whole domain.
"""

import dataclasses
import inspect
import math
from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from riesz.errors import FormError
from riesz.fem.elements.domain import Domain
from riesz.fem.elements.space import Lagrange
from riesz.fem.terms.coefficient import resolve
from riesz.fem.terms.pointwise import LinearForm, Number, Point, State, TestFunction, dot
from riesz.fem.terms.weakform import Term, check_shape

UNROLLED_POINTS = 3
"""Up to here quadrature is unrolled, so that its points become constants of the compiled code."""

SMALL_SLOPE, SMALL_RESIDUAL = 0.2, 0.05
"""Where diffusion across the stream fades, beside a jump within a cell and transport down a slope.

From half to one and a half of the first, skew layers overshoot by 0.6 to 2.3 % and Newton's
iteration takes six to nine steps.
"""

LocalStates = Sequence[Float[Array, " entity"]]  # one array a local unknown
Numbers = tuple[Number, ...]
Gathered = tuple[dict[str, PyTree], ...]  # for each term and coefficient
Contribution = Callable[[Numbers, Number], Numbers]  # (barycentric point, weight) -> amounts


def supg_form(
    physics: Callable[[State], LinearForm],
    u: State,
    velocity: Float[Array, " dim"],
    inverse_jacobian: Float[Array, "dim dim"],
    volume: Float[Array, ""],
    jump: float | None,
) -> LinearForm:
    r"""SUPG: test the density with $v + \delta\,\tau\cdot\nabla v$ instead of $v$.

    $\delta = ((\sum_i |\tau\cdot\nabla\lambda_i|)^2 + (12\,a/h^2)^2)^{-1/2}$ after Shakib, Hughes
    and Johan (1991): $h/2|\tau|$ where transport wins, $h^2/12a$ where diffusion does. The
    diffusivity $a$ is read off the form: the mean of $\partial F/\partial\nabla u$ over the axes.
    With the size of a `jump`, diffusion across the stream is added.
    """
    dim = velocity.shape[0]
    form = physics(u)

    def flux_of(slopes):
        flux = physics(State(u.value, slopes)).flux or (None,) * dim
        return tuple(jnp.zeros_like(slopes[0]) if f is None else f for f in flux)

    # Of the slopes' type, but not made from them: what depends on nothing must not seem to.
    axes = [tuple(jnp.full_like(u.slopes[0], i == d) for i in range(dim)) for d in range(dim)]
    responses = [jax.jvp(flux_of, (u.slopes,), (axis,))[1][d] for d, axis in enumerate(axes)]
    diffusivity = sum(responses[1:], start=responses[0]) / dim
    slopes = [dot(row, velocity) for row in inverse_jacobian]
    crossing_rate = abs(sum(slopes[1:], start=slopes[0])) + sum(abs(s) for s in slopes)
    decay_rate = 12 * diffusivity / volume ** (2 / dim)
    rate_squared = crossing_rate**2 + decay_rate**2
    # Without velocity and diffusion there is no time scale, and nothing to stabilise; the inner
    # `where` keeps the derivative finite there.
    moving = rate_squared > 0
    delta = jnp.where(moving, jnp.where(moving, rate_squared, 1.0) ** -0.5, 0.0)
    density = 0.0 if form.density is None else form.density
    added = delta * density * velocity
    if jump is not None:
        added = added + crosswind_flux(u, delta, density, velocity, jump / volume ** (1 / dim))
    return form + added @ TestFunction(dim).grad


def crosswind_flux(
    u: State,
    delta: Float[Array, ""],
    residual: Number,
    velocity: Float[Array, " dim"],
    steep: Float[Array, ""],
) -> Float[Array, " dim"]:
    r"""Diffusion across the stream, as strong as the residual $R$ beside the slope of $u$.

    $\delta\,|\tau|^2\,\theta\,(I - \hat\tau\hat\tau^\top)\nabla u$ with
    $\theta = |R|/(|\tau||\nabla u|)$, after Codina (1993): it vanishes with the residual, and so
    leaves smooth solutions their order. Ours is smooth where Codina's is not, so that Newton's
    iteration ends and derivatives exist: to $|\nabla u|$ a fifth of a slope that is `steep` is
    added, and $|\theta|$ is $\theta^2/\sqrt{\theta^2 + 0.05^2}$.
    """
    slopes = jnp.stack(u.slopes)
    speed_squared = velocity @ velocity
    moving = speed_squared > 0
    divisor = jnp.where(moving, speed_squared, 1.0)
    across = slopes - (velocity @ slopes) / divisor * velocity
    theta_squared = residual**2 / (divisor * (slopes @ slopes + (SMALL_SLOPE * steep) ** 2))
    theta = theta_squared * (theta_squared + SMALL_RESIDUAL**2) ** -0.5
    return delta * speed_squared * theta * across


class Entity(eqx.Module):
    """One cell or facet: its geometry, the state on it and what its coefficients need.

    `vmap` runs over a whole domain of them, with the axis of entities last.
    """

    vertices: Float[Array, "corner dim *entities"]
    inverse_jacobian: Float[Array, "dim dim *entities"]
    measure: Float[Array, " *entities"]
    normal: Float[Array, " dim *entities"] | None
    facet_points: Float[Array, "point corner *entities"] | None
    local_state: Numbers
    gathered: Gathered


class Physics(eqx.Module):
    """The terms of one group with all latents in place, and the element they act on."""

    terms: tuple[Term, ...]
    element: Lagrange
    z: PyTree

    def gather(self, domain: Domain) -> Gathered:
        """What its coefficients need on every entity of a domain."""
        return tuple(
            {name: c.gather(domain) for name, c in term.coefficients.items()} for term in self.terms
        )


def entities_of(domain: Domain, local_states: LocalStates, gathered: Gathered) -> Entity:
    """All cells or facets of a domain, with the state on them."""
    return Entity(
        vertices=domain.vertices,
        inverse_jacobian=domain.inverse_jacobian,
        measure=domain.measure,
        normal=domain.normal,
        facet_points=domain.facet_points,
        local_state=tuple(local_states),
        gathered=gathered,
    )


def entity_residuals(
    physics: Physics, domain: Domain, local_states: LocalStates
) -> tuple[Float[Array, " entity"], ...]:
    """Contribution of every entity to each of its local unknowns, one array a local unknown."""
    return integrate(point_residual, physics, domain, local_states)


def entity_matrices(
    physics: Physics, domain: Domain, local_states: LocalStates
) -> tuple[Float[Array, "local entity"], ...]:
    """Row by row, the derivatives of the local residuals by each local unknown."""
    local = jnp.stack(local_states)

    def residuals(local_state):
        return entity_residuals(physics, domain, tuple(local_state))

    _, push_forward = jax.linearize(residuals, local)
    units = jnp.eye(len(local), dtype=local.dtype)[:, :, None]
    return jax.vmap(push_forward)(jnp.broadcast_to(units, (len(local), *local.shape)))


def entity_outflows(
    physics: Physics, facets: Domain, local_states: LocalStates
) -> Float[Array, " entity"]:
    """What passes through each facet along its normal: the integral of minus the flux."""
    return integrate(point_outflow, physics, facets, local_states)[0]


@eqx.filter_jit
def conductions(physics: Physics, domain: Domain) -> Float[Array, "dim dim entity"]:
    """The integral of the tensor that turns slopes into fluxes: of each axis, then of the flux."""
    columns = jnp.stack(integrate(point_conduction, physics, domain, ()))
    return columns.reshape(domain.dim, domain.dim, -1)


def resolve_terms(terms: tuple[Term, ...], element: Lagrange, z: PyTree) -> Physics:
    """The terms with their latents replaced by values."""

    def with_values(term: Term) -> Term:
        values = {name: resolve(c, z, name) for name, c in term.coefficients.items()}
        return dataclasses.replace(term, coefficients=values)

    return Physics(tuple(map(with_values, terms)), element, z)


def integrate(
    of_point: Callable[[Physics, Entity, Numbers, Number], Numbers],
    physics: Physics,
    domain: Domain,
    local_states: LocalStates,
) -> tuple[Float[Array, " entity"], ...]:
    """Quadrature of `of_point` over every entity of a domain."""

    def of_entity(entity: Entity) -> Numbers:
        def contribution(barycentric: Numbers, weight: Number) -> Numbers:
            if domain.axisymmetric:
                radius = position(entity.vertices, barycentric)[0]
                weight = 2 * math.pi * weight * radius
            return of_point(physics, entity, barycentric, weight)

        return sum_over_points(contribution, entity, domain)

    entities = entities_of(domain, local_states, physics.gather(domain))
    return jax.vmap(of_entity, in_axes=-1, out_axes=-1)(entities)


def sum_over_points(contribution: Contribution, entity: Entity, domain: Domain) -> Numbers:
    """Sum over the quadrature points of one entity."""
    if entity.facet_points is not None:
        points = [tuple(point) for point in entity.facet_points]
    elif len(domain.weights) <= UNROLLED_POINTS:
        points = domain.cell_points or ()
    else:
        return sum_by_scan(contribution, domain)
    parts = [contribution(p, w) for p, w in zip(points, domain.weights, strict=True)]
    return tuple(sum(column[1:], start=column[0]) for column in zip(*parts, strict=True))


def sum_by_scan(contribution: Contribution, domain: Domain) -> Numbers:
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
    physics: Physics, entity: Entity, barycentric: Numbers, weight: Number
) -> Numbers:
    """Contribution of one quadrature point to each local unknown."""
    element = physics.element
    form = form_at(physics, entity, barycentric)
    scale = weight * entity.measure
    density = None if form.density is None else scale * form.density
    flux = reference_flux(form, scale, entity.inverse_jacobian)
    shapes, slopes = element.values(barycentric), element.gradients(barycentric)
    return tuple(
        apply_to_shape(density, flux, shapes[i], slopes[i]) for i in range(element.num_local)
    )


def point_outflow(
    physics: Physics, entity: Entity, barycentric: Numbers, weight: Number
) -> Numbers:
    """Minus the flux along the normal, at one quadrature point of a facet.

    Stabilisation adds no flux: it vanishes for the exact solution, and belongs to cells.
    """
    u, x = state_at(physics.element, entity, barycentric), position(entity.vertices, barycentric)
    point = Point(x, barycentric, u, physics.z)
    flux = sum_of_terms(physics, entity.gathered, entity.normal, point).flux
    if flux is None or entity.normal is None:
        return (jnp.zeros_like(entity.measure),)
    outward = [f * n for f, n in zip(flux, entity.normal, strict=True) if f is not None]
    return (-weight * entity.measure * sum(outward),)


def point_conduction(
    physics: Physics, entity: Entity, barycentric: Numbers, weight: Number
) -> Numbers:
    """The flux that a slope of one along each axis makes, of terms linear in slopes."""
    axes, x = range(physics.element.dim), position(entity.vertices, barycentric)
    units = [State(0.0, tuple(float(axis == other) for other in axes)) for axis in axes]
    points = [Point(x, barycentric, unit, physics.z) for unit in units]
    forms = [sum_of_terms(physics, entity.gathered, entity.normal, point) for point in points]
    return tuple(weight * entity.measure * part for form in forms for part in form.flux or ())


def form_at(physics: Physics, entity: Entity, barycentric: Numbers) -> LinearForm:
    """The whole form at one point of a finite-element function, stabilisation included."""
    u = state_at(physics.element, entity, barycentric)
    x = position(entity.vertices, barycentric)

    def form_of(state: State) -> LinearForm:
        point = Point(x, barycentric, state, physics.z)
        return sum_of_terms(physics, entity.gathered, entity.normal, point)

    if not any(term.streamline for term in physics.terms):
        return form_of(u)
    velocity = streamline_velocity(physics, entity, Point(x, barycentric, u, physics.z))
    jumps = [term.crosswind for term in physics.terms if term.crosswind is not None]
    jump = max(jumps, default=None)
    return supg_form(form_of, u, velocity, entity.inverse_jacobian, entity.measure, jump)


def state_at(element: Lagrange, entity: Entity, barycentric: Numbers) -> State:
    """Value and gradient of a finite-element function from its local unknowns."""
    shapes, slopes = element.values(barycentric), element.gradients(barycentric)
    axes = range(element.dim)
    value = combine(shapes, entity.local_state)
    by_reference = [combine([slope[a] for slope in slopes], entity.local_state) for a in axes]
    grad = [combine([entity.inverse_jacobian[a, d] for a in axes], by_reference) for d in axes]
    return State(value, tuple(grad))


def position(
    vertices: Float[Array, " corner *place"], barycentric: Sequence[Number]
) -> Float[Array, "*place"]:
    return combine(barycentric, list(vertices))


def combine(weights: Sequence[Number], values: Sequence[Number]) -> Number:
    """Sum of products, without the terms whose weight is known to be zero."""
    products = [w * v for w, v in zip(weights, values, strict=True) if not is_zero(w)]
    return sum(products[1:], start=products[0]) if products else jnp.zeros_like(values[0])


def is_zero(number: Number) -> bool:
    return isinstance(number, float) and number == 0.0


def sum_of_terms(
    physics: Physics,
    gathered: Gathered,
    normal: Float[Array, " dim"] | None,
    point: Point,
) -> LinearForm:
    """The sum of all terms at one point, from what their coefficients gathered there."""
    total = LinearForm()
    for term, local in zip(physics.terms, gathered, strict=True):
        values = {
            # In the problem's precision, whatever that of the coefficient.
            name: c.at(local[name], point).astype(point.x.dtype)
            for name, c in term.coefficients.items()
        }
        for name, allowed in term.shapes:
            label = f"{name} of {term.name}"
            check_shape(values[name].shape, allowed, point.x.shape[0], label)
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
    parts = [part for part in (form.density, *(form.flux or ())) if part is not None]
    wide = [jnp.shape(part) for part in parts if jnp.ndim(part)]
    if wide:
        raise FormError(
            f"the integrand of {term.name!r} is an array of shape {wide[0]} at each point: it must "
            "be one number; take components or inner products of vectors."
        )
    return form


def streamline_velocity(physics: Physics, entity: Entity, point: Point) -> Float[Array, " dim"]:
    """The velocity of the stabilised advection terms."""
    velocities = [
        term.sign * term.coefficients["velocity"].at(local["velocity"], point).astype(point.x.dtype)
        for term, local in zip(physics.terms, entity.gathered, strict=True)
        if term.streamline
    ]
    return sum(velocities[1:], start=velocities[0])


def reference_flux(
    form: LinearForm, scale: Number, inverse_jacobian: Float[Array, "dim dim"]
) -> list[Number] | None:
    """The flux in reference coordinates, times the quadrature weight."""
    if form.flux is None:
        return None
    present = [(d, scale * f) for d, f in enumerate(form.flux) if f is not None]
    return [
        combine([row[d] for d, _ in present], [f for _, f in present]) for row in inverse_jacobian
    ]


def apply_to_shape(
    density: Number | None, flux: list[Number] | None, shape: Number, slope: Sequence[Number]
) -> Number:
    """The form applied to one shape function."""
    parts = [] if density is None or is_zero(shape) else [shape * density]
    if flux is not None:
        parts += [s * f for s, f in zip(slope, flux, strict=True) if not is_zero(s)]
    return sum(parts[1:], start=parts[0]) if parts else jnp.zeros(())
