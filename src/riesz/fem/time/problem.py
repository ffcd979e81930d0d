r"""A problem in time: $s\,\partial_t u + \ldots = 0$ from an initial state on."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.tree_util import tree_map_with_path
from jaxtyping import Array, DTypeLike, Float, PyTree

from riesz.errors import FormError
from riesz.fem.assembly import piece_values
from riesz.fem.checks import check_prescribed
from riesz.fem.elements.domain import Domain
from riesz.fem.elements.space import Lagrange, Space
from riesz.fem.problem import (
    BoundaryValueProblem,
    DirichletPiece,
    Group,
    boundary_value_problem,
    dirichlet_piece,
)
from riesz.fem.terms.coefficient import AbstractCoefficient, Constant, as_coefficient, resolve
from riesz.fem.terms.integrands import storage_integrand
from riesz.fem.terms.pointwise import Point
from riesz.fem.terms.series import HELD, KINDS, TIME, Series
from riesz.fem.terms.weakform import Term, WeakForm
from riesz.fem.time.axis import TimeAxis, time_axis
from riesz.fem.time.scheme import SCHEMES, SDIRK2, stage_times

Numbers = Float[np.ndarray, " time"]

INITIAL = "initial state"

RIGHT_HAND = ("strength", "outward_flux", "external_value", "level", "rise")
"""Coefficients of linear terms that the matrix does not depend on."""

FLOWS = {*RIGHT_HAND, "point_sources"}
"""Parts of a problem in which a series is to bring the volume that it has."""


class SteadyState(eqx.Module):
    """The initial state is the one that the stresses of the first time would lead to."""


class StateValues(AbstractCoefficient):
    """A finite-element function, such as an earlier state."""

    values: Float[Array, " dof"]
    element: Lagrange

    def gather(self, domain: Domain) -> PyTree[Array]:
        return tuple(self.values[dofs] for dofs in domain.dofs)

    def at(self, local: PyTree[Array], point: Point) -> Array:
        shapes = self.element.values(point.barycentric)
        products = [shape * value for shape, value in zip(shapes, local, strict=True)]
        return sum(products[1:], start=products[0])

    def degree(self) -> int:
        return self.element.degree


class TransientProblem(eqx.Module):
    """Find u(t) from an initial state on, step by step."""

    step: BoundaryValueProblem  # with nothing stored: the equation of a steady state
    axis: TimeAxis
    initial: DirichletPiece | None  # its values at all unknowns; None: a steady state
    scheme: str = eqx.field(static=True)

    @property
    def space(self) -> Space:
        return self.step.space

    @property
    def dtype(self) -> np.dtype:
        return self.step.dtype

    def __repr__(self) -> str:
        return f"TransientProblem({self.axis!r} by {self.scheme}, {self.step!r})"


def transient_problem(
    space: Space,
    form: WeakForm,
    dirichlet: Mapping[str, Any] | None = None,
    *,
    times: Any,
    initial: Any = None,
    scheme: str = SDIRK2,
    dtype: DTypeLike | None = None,
) -> TransientProblem:
    """Bind an equation with storage to a space and a time axis.

    `times` is a `time_axis(...)`, or what one is made from. `initial` is a number, `nodal(...)`
    values, a function of (x) or (x, z), the name of an unknown, or `SteadyState()`, which is also
    taken where there is none given. Coefficients, sources and prescribed values may be a
    `series(...)`, or functions of (x, z) that read the time, `z["t"]`.
    """
    step = boundary_value_problem(space, form, dirichlet, dtype=dtype)
    return in_time(step, times, initial, scheme)


def in_time(step: BoundaryValueProblem, times: Any, initial: Any, scheme: str) -> TransientProblem:
    """The same equation, with its storage, in time."""
    if not has_storage(step.form):
        raise FormError(
            f"{step.form!r} has no storage term, so that nothing in it changes by itself: add "
            "storage(s), or solve for the steady state without a time axis."
        )
    axis = time_axis(times)
    if scheme not in SCHEMES:
        raise FormError(f"the scheme is {scheme!r}: give {' or '.join(map(repr, SCHEMES))}.")
    state = initial_piece(step, initial)
    return TransientProblem(with_samples(step, axis, scheme), axis, state, scheme)


def with_samples(step: BoundaryValueProblem, axis: TimeAxis, scheme: str) -> BoundaryValueProblem:
    """The same with series that know what they are worth at each stage."""
    by_kind = {
        (kind, flows): samples(kind, axis, scheme, flows=flows)
        for kind in KINDS
        for flows in (False, True)
    }

    def sample(path: tuple[Any, ...], part: Any) -> Any:
        if not isinstance(part, Series):
            return part
        names = {getattr(key, "name", getattr(key, "key", None)) for key in path}
        return part.sample(*by_kind[part.kind, not names.isdisjoint(FLOWS)])

    return tree_map_with_path(sample, step, is_leaf=lambda part: isinstance(part, Series))


def samples(
    kind: str, axis: TimeAxis, scheme: str, *, flows: bool
) -> tuple[Numbers, Float[np.ndarray, "time part 2"], Float[np.ndarray, "time part"]]:
    """When stages end, and what a series is worth there: spans of time, and the part of each mean.

    Values that are held count by their mean over the step. Those along lines are taken when a stage
    ends; of what flows in, a step's first stage makes up for what that leaves of its volume.
    """
    own, times = SCHEMES[scheme], stage_times(axis.times, scheme)
    whole = np.stack([axis.times[:-1], axis.times[1:]], axis=1)
    steps = np.repeat(whole, len(own.ends), axis=0)
    instants = np.stack([times, times], axis=1)
    spans, parts = np.stack([instants, instants], axis=1), np.tile([1.0, 0.0], (len(times), 1))
    if kind == HELD:
        spans[:, 0] = np.concatenate([whole[:1], steps])
    elif flows:
        first, share = slice(1, None, len(own.ends)), own.shares[0]
        spans[first] = np.stack([whole, instants[len(own.ends) :: len(own.ends)]], axis=1)
        parts[first] = 1 / share, 1 - 1 / share
    return times, spans, parts


def has_storage(form: WeakForm) -> bool:
    return any(term.integrand is storage_integrand for term in form.terms)


def initial_piece(step: BoundaryValueProblem, initial: Any) -> DirichletPiece | None:
    """The initial state as values that are prescribed at all unknowns."""
    if initial is None or isinstance(initial, SteadyState):
        return None
    value = as_coefficient(initial, INITIAL)
    every = np.arange(step.space.num_dofs)
    piece = dirichlet_piece(step.space, INITIAL, value, every, every, step.dtype)
    check_prescribed(value, piece.x, step.space.mesh, None, f"the {INITIAL}")
    return piece


def initial_values(piece: DirichletPiece, z: PyTree) -> Float[Array, " dof"]:
    """Other than on the boundary, values may be known on the mesh alone."""
    nodal = resolve(piece.value, z, INITIAL).nodal(z)
    return piece_values(piece, z) if nodal is None else nodal[piece.ends].mean(axis=1)


def with_history(
    problem: BoundaryValueProblem, rate: Float[Array, ""], past: Float[Array, " dof"]
) -> BoundaryValueProblem:
    """The problem of one step: what went before is in its storage terms."""
    return with_coefficients(problem, Constant(rate), StateValues(past, problem.space.element))


def with_coefficients(
    problem: BoundaryValueProblem, rate: AbstractCoefficient, past: AbstractCoefficient
) -> BoundaryValueProblem:
    """The same with any coefficients for the rate of its own state and for what went before."""
    known = {"rate": rate, "past": past}

    def change(group: Group) -> Group:
        return dataclasses.replace(group, terms=tuple(map(with_known, group.terms)))

    def with_known(term: Term) -> Term:
        if term.integrand is not storage_integrand:
            return term
        return dataclasses.replace(term, coefficients=term.coefficients | known)

    return dataclasses.replace(
        problem, cells=change(problem.cells), facets=tuple(map(change, problem.facets))
    )


def at_time(z: PyTree, time: Float[Array, ""]) -> dict[str, Any]:
    """What the equation reads at one time."""
    return {**({} if z is None else z), TIME: jnp.asarray(time)}
