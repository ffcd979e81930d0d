r"""Do observed values of the state fix the scale of the equation?

If every term is multiplied by an unknown, all of them may be multiplied by one number and the
solution stays the same: heads alone tell $f/a$, not $f$ and $a$. A term fixes the scale if its
size is known: a known source or flux, a unit diffusivity, or an unknown with an informative prior.
"""

import inspect
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from riesz.fem.elements.domain import Domain
from riesz.fem.elements.space import Lagrange
from riesz.fem.kernel import position, resolve_terms, sum_of_terms
from riesz.fem.problem import BoundaryValueProblem, Group
from riesz.fem.terms.coefficient import (
    AbstractCoefficient,
    Constant,
    Function,
    Latent,
    Nodal,
    PerCell,
    WeightedSum,
    parts_of,
)
from riesz.fem.terms.pointwise import Point, State
from riesz.fem.terms.weakform import PointSource, Term
from riesz.notes import Note, NoteWarning
from riesz.priors.fields import FieldCoefficient
from riesz.priors.latent import LatentSpace

INFORMATIVE = 0.25
"""A prior that knows the size of a term up to this standard deviation of its logarithm fixes it."""

NUM_DRAWS, NUM_PLACES = 64, 64


def tell_unidentified_scale(
    problems: tuple[BoundaryValueProblem, ...], latents: LatentSpace
) -> None:
    """Warn if only the priors say how large the terms of the equations are.

    One term of known size fixes the unknowns that several experiments share.
    """
    problem = problems[0]
    groups = [group for one in problems for group in (one.cells, *one.facets)]
    terms = [(term, group) for group in groups for term in group.terms]
    sources = [source for one in problems for source, _ in one.point_sources]
    rates = [source.rates for source in sources if not isinstance(source.rates, Latent)]
    if any(is_known(term) for term, _ in terms) or any(np.asarray(one).any() for one in rates):
        return
    normals = np.random.default_rng(0).normal(size=(NUM_DRAWS, latents.num_coordinates))
    zs = eqx.filter_jit(eqx.filter_vmap(latents.z))(jnp.asarray(normals, problem.dtype))
    if any(has_known_size(size) for t in terms for size in term_sizes(problem, *t, zs)):
        return
    if any(has_known_size(rate_sizes(source, zs)) for source in sources):
        return
    scaled = [
        f"{term.name} by {unknowns_text(term)}"
        for term, _ in terms
        if not has_zero_coefficient(term)
    ]
    scaled += [f"point_source by {s.rates.name!r}" for s in sources if isinstance(s.rates, Latent)]
    warnings.warn(NoteWarning(Note("only_ratios", terms=scaled)), stacklevel=4)


def is_known(term: Term) -> bool:
    """Whether a term certainly has a size that no unknown changes."""
    reads_z = "z" in inspect.signature(term.integrand).parameters
    known = all(does_not_read_z(c) for c in term.coefficients.values())
    return known and not reads_z and not has_zero_coefficient(term)


def does_not_read_z(coefficient: AbstractCoefficient) -> bool:
    if isinstance(coefficient, WeightedSum):  # one part that is known fixes the scale of the others
        return any(map(does_not_read_z, coefficient.parts))
    if isinstance(coefficient, Function):
        return coefficient.num_arguments == 1
    return isinstance(coefficient, Constant | Nodal | PerCell)


def has_zero_coefficient(term: Term) -> bool:
    """Whether the first coefficient, which scales all terms of this library, is zero."""
    coefficient = next(iter(term.coefficients.values()), None)
    if isinstance(coefficient, Constant):
        return not np.any(np.asarray(coefficient.value))
    if isinstance(coefficient, Nodal | PerCell):
        return not np.any(np.asarray(coefficient.values))
    return False


def unknowns_text(term: Term) -> str:
    parts = [part for c in term.coefficients.values() for part in parts_of(c)]
    names = [repr(part.name) for part in parts if isinstance(part, Latent | FieldCoefficient)]
    return " and ".join(names) or "a function of unknowns"


def has_known_size(sizes: Float[Array, " draw"]) -> bool:
    """Whether the logarithm of a size varies little over the prior."""
    values = np.asarray(sizes)
    return bool((values > 0).all() and np.log(values).std() <= INFORMATIVE)


def rate_sizes(source: PointSource, zs: PyTree) -> Float[Array, " draw"]:
    assert isinstance(source.rates, Latent)
    rates = zs[source.rates.name]
    return jnp.sqrt(jnp.mean(rates.reshape(len(rates), -1) ** 2, axis=1))


def term_sizes(
    problem: BoundaryValueProblem, term: Term, group: Group, zs: PyTree
) -> tuple[Float[Array, " draw"], Float[Array, " draw"]]:
    """For each draw, the size of what a term is without a state, and of what a state adds to it."""
    number = len(group.domain.measure)
    some = np.unique(np.linspace(0, number - 1, NUM_PLACES).astype(int))
    places = group.domain.take(jnp.asarray(some, dtype=jnp.int32))
    return sizes_at(term, problem.space.element, places, zs)


@eqx.filter_jit
def sizes_at(
    term: Term, element: Lagrange, domain: Domain, zs: PyTree
) -> tuple[Float[Array, " draw"], Float[Array, " draw"]]:
    num_corners = len(domain.corners)
    middle = jnp.full((num_corners, len(domain.measure)), 1 / num_corners, domain.measure.dtype)
    barycentric = middle if domain.facet_points is None else domain.facet_points[0]

    def sizes_of(z):
        physics = resolve_terms((term,), element, z)

        def parts(vertices, weights, normal, local, number):
            state = State(number, (number,) * domain.dim)
            point = Point(position(vertices, tuple(weights)), tuple(weights), state, z)
            form = sum_of_terms(physics, local, normal, point)
            result = (form.density, *((None,) * domain.dim if form.flux is None else form.flux))
            return jnp.stack([jnp.zeros(()) if p is None else jnp.asarray(p) for p in result])

        over_places = jax.vmap(parts, in_axes=(-1, -1, -1, -1, None))
        arguments = (domain.vertices, barycentric, domain.normal, physics.gather(domain))
        without, with_state = (
            over_places(*arguments, jnp.asarray(u, domain.measure.dtype)) for u in (0.0, 1.0)
        )
        return root_mean_square(without), root_mean_square(with_state - without)

    return jax.vmap(sizes_of)(zs)


def root_mean_square(values: Float[Array, "place part"]) -> Float[Array, ""]:
    return jnp.sqrt(jnp.mean(jnp.sum(values**2, axis=1)))
