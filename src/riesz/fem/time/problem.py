r"""A problem in time: $s\,\partial_t u + \ldots = 0$ from an initial state on.

Each step is a boundary-value problem whose storage term has $\alpha u - w$ in place of the time
derivative: implicit Euler with $\alpha = 1/h$ and $w = u_{n-1}/h$, or the second-order backward
difference formula (BDF2) for steps of any lengths, $\omega$ being a step over the one before:

$$\alpha = \frac{1 + 2\omega}{(1 + \omega)\,h},\qquad
  w = \frac{1 + \omega}{h}\,u_{n-1} - \frac{\omega^2}{(1 + \omega)\,h}\,u_{n-2}.$$

The first step is one of Euler's, which does not harm the order. BDF2 is stable where a step is less
than $1 + \sqrt 2$ times as long as the one before (Grigorieff 1983).
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, DTypeLike, Float, PyTree

from riesz.arrays import on_device
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
from riesz.fem.terms.pointwise import Point
from riesz.fem.terms.series import TIME
from riesz.fem.terms.weakform import Term, WeakForm, storage_integrand
from riesz.fem.time.axis import TimeAxis, time_axis

EULER, BDF2 = "euler", "bdf2"

LARGEST_GROWTH = 1 + np.sqrt(2)
"""Of steps, from which on BDF2 is not stable."""

INITIAL = "initial state"


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


class Weights(eqx.Module):
    """Of a difference formula, step by step: `now` u_n minus `last` u_{n-1} and `before` u_{n-2}"""

    now: Float[Array, " *step"]
    last: Float[Array, " *step"]
    before: Float[Array, " *step"]


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
    scheme: str = BDF2,
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
    if scheme not in (EULER, BDF2):
        raise FormError(f"the scheme is {scheme!r}: give {EULER!r} or {BDF2!r}.")
    check_growth(axis, scheme)
    state = initial_piece(step, initial)
    return TransientProblem(step, axis, state, scheme)


def has_storage(form: WeakForm) -> bool:
    return any(term.integrand is storage_integrand for term in form.terms)


def check_growth(axis: TimeAxis, scheme: str) -> None:
    growth = axis.steps[1:] / axis.steps[:-1]
    (much,) = np.nonzero(growth >= LARGEST_GROWTH)
    if scheme == BDF2 and much.size:
        step = int(much[0]) + 2
        raise FormError(
            f"step {step} of the time axis is {growth[much[0]]:.3g} times as long as the one "
            f"before: {BDF2} needs less than {LARGEST_GROWTH:.3g}. Let steps grow more slowly, or "
            f"take scheme={EULER!r}."
        )


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


def weights_of(axis: TimeAxis, scheme: str, dtype: DTypeLike) -> Weights:
    """Of all steps; those of one kind have the same to the last digit, and so have their matrices.

    A solver that remembers matrices then knows them again.
    """
    steps = jnp.diff(on_device(axis.times, dtype))
    _, first = np.unique(axis.kinds, return_index=True)
    alike = first[np.array(axis.kinds)]
    euler = Weights(1 / steps, 1 / steps, jnp.zeros_like(steps))
    if scheme == EULER:
        return jax.tree.map(lambda rows: rows[alike], euler)
    length, ratio = steps[1:], steps[1:] / steps[:-1]
    later = Weights(
        now=(1 + 2 * ratio) / ((1 + ratio) * length),
        last=(1 + ratio) / length,
        before=-(ratio**2) / ((1 + ratio) * length),
    )
    return jax.tree.map(lambda one, two: jnp.concatenate([one[:1], two])[alike], euler, later)


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

    def changed(group: Group) -> Group:
        return dataclasses.replace(group, terms=tuple(map(with_known, group.terms)))

    def with_known(term: Term) -> Term:
        if term.integrand is not storage_integrand:
            return term
        return dataclasses.replace(term, coefficients=term.coefficients | known)

    return dataclasses.replace(
        problem, cells=changed(problem.cells), facets=tuple(map(changed, problem.facets))
    )


def at_time(z: PyTree, time: Float[Array, ""]) -> dict[str, Any]:
    """What the equation reads at one time."""
    return {**({} if z is None else z), TIME: jnp.asarray(time)}
