"""Equations in weak form: pointwise integrands that add up to a residual.

A form is read as "find u such that form(u; v) = 0 for every v". Diffusion, advection and reaction
enter with a plus sign, sources with a minus: `diffusion(a) + advection(tau) - source(f)`.
Each integrand is a pure function of the state `u`, the test function `v` and its coefficients at
one point; a user's own goes through `integral`.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from riesz.errors import FormError
from riesz.fem.terms import integrands
from riesz.fem.terms.coefficient import (
    AbstractCoefficient,
    Latent,
    PerCell,
    WeightedSum,
    as_coefficient,
    as_floats,
    is_traced,
    reads_state,
)
from riesz.fem.terms.pointwise import LinearForm
from riesz.fem.terms.series import Series
from riesz.mesh.tags import BOUNDARY

Shape = tuple[str, ...]  # () for a scalar, ("dim",) for a vector, ("dim", "dim") for a tensor


class Term(eqx.Module):
    """An integrand with its coefficients, over all cells or over the facets with one tag."""

    name: str = eqx.field(static=True)
    integrand: Callable[..., LinearForm] = eqx.field(static=True)
    coefficients: dict[str, AbstractCoefficient]
    shapes: tuple[tuple[str, tuple[Shape, ...]], ...] = eqx.field(static=True)
    state_degree: tuple[int, int] = eqx.field(static=True)  # (m, c): m times the element's, plus c
    on: str | None = eqx.field(static=True, default=None)
    sign: float = eqx.field(static=True, default=1.0)
    positive: tuple[str, ...] = eqx.field(static=True, default=())
    streamline: bool = eqx.field(static=True, default=False)
    crosswind: float | None = eqx.field(static=True, default=None)  # the size of jumps of u

    def degree(self, element_degree: int) -> int:
        """Polynomial degree of the integrand on an element of the given degree."""
        per_degree, offset = self.state_degree
        of_coefficients = sum(c.degree() for c in self.coefficients.values())
        return max(per_degree * element_degree + offset, 0) + of_coefficients


def check_shape(shape: tuple[int, ...], allowed: tuple[Shape, ...], dim: int, label: str) -> None:
    wanted = [(dim,) * len(axes) for axes in allowed]
    if wanted and shape not in wanted:
        raise FormError(
            f"{label} has shape {shape} at each point, but in {dim} dimensions it must be "
            f"{' or '.join(map(str, wanted))}."
        )


class PointSource(eqx.Module):
    """Rates at single points, such as pumping wells (negative where water is taken out)."""

    points: Float[Array, "well dim"] | Latent
    rates: Float[Array, " well"] | Latent | Series
    tolerance: float | None = eqx.field(static=True, default=None)
    sign: float = eqx.field(static=True, default=1.0)


class WeakForm(eqx.Module):
    """A sum of terms; add, subtract and negate forms to write an equation."""

    terms: tuple[Term, ...] = ()
    point_sources: tuple[PointSource, ...] = ()

    def __add__(self, other: WeakForm) -> WeakForm:
        if not isinstance(other, WeakForm):
            return NotImplemented
        return WeakForm(self.terms + other.terms, self.point_sources + other.point_sources)

    def __neg__(self) -> WeakForm:
        return WeakForm(
            tuple(negate(term) for term in self.terms),
            tuple(negate(source) for source in self.point_sources),
        )

    def __sub__(self, other: WeakForm) -> WeakForm:
        return self + (-other)

    @property
    def is_symmetric(self) -> bool:
        """Whether the matrix is known to be; of an integrand written by hand nothing is known."""
        return all(term.integrand in integrands.SYMMETRIC for term in self.terms) and not any(
            map(reads_state, self.coefficients)
        )

    @property
    def has_jumps(self) -> bool:
        """Whether a coefficient is given cell by cell, or region by region."""
        return any(isinstance(value, PerCell | WeightedSum) for value in self.coefficients)

    @property
    def coefficients(self) -> list[AbstractCoefficient]:
        """Of all terms."""
        return [value for term in self.terms for value in term.coefficients.values()]

    def __repr__(self) -> str:
        parts = [f"{'+' if t.sign > 0 else '-'} {t.name}" for t in self.terms]
        parts += [f"{'+' if s.sign > 0 else '-'} point_source" for s in self.point_sources]
        return f"WeakForm({' '.join(parts)} = 0)"


def negate(part: Any) -> Any:
    return dataclasses.replace(part, sign=-part.sign)


OFFERED = ("x", "z", "normal")
"""Arguments that an integrand written by hand may ask for without naming a coefficient."""

SCALAR: tuple[Shape, ...] = ((),)
VECTOR: tuple[Shape, ...] = (("dim",),)
SCALAR_OR_TENSOR: tuple[Shape, ...] = ((), ("dim", "dim"))


def diffusion(diffusivity: Any, *, on: str | None = None) -> WeakForm:
    r"""$\int a\,\nabla u\cdot\nabla v$; `diffusivity` is a positive scalar or tensor.

    On tagged facets it is diffusion along them, as in a fracture, a drain or a well's screen, and
    `diffusivity` is a positive scalar, with the width of what conducts: it adds to that of cells.
    """
    return single(
        "diffusion",
        integrands.diffusion_integrand if on is None else integrands.along_facets_integrand,
        {"diffusivity": (diffusivity, SCALAR_OR_TENSOR if on is None else SCALAR)},
        state_degree=(2, -2),
        on=on,
        positive=("diffusivity",),
    )


def advection(velocity: Any, *, supg: bool = False, crosswind: Any = None) -> WeakForm:
    r"""$\int (\tau\cdot\nabla u)\,v$; `supg=True` stabilises transport that outruns diffusion.

    Streamline-upwind Petrov-Galerkin adds $\delta\,(\tau\cdot\nabla v)$ to the test function of
    all terms without a gradient of $v$, consistently: the exact solution stays a solution.
    Where the flow meets a layer at an angle, overshoots of up to 40 % of the jump remain beside
    it, on every mesh. `crosswind`, the size of jumps that u may have, in its unit, takes them to
    2 % by diffusion across the stream where a cell's residual is large; u is then no linear
    function of sources and boundary values.
    """
    if crosswind is not None:
        check_crosswind(crosswind, supg=supg)
    return single(
        "advection",
        integrands.advection_integrand,
        {"velocity": (velocity, VECTOR)},
        state_degree=(2, -1),
        streamline=supg,
        crosswind=None if crosswind is None else float(crosswind),
    )


def check_crosswind(jump: Any, *, supg: bool) -> None:
    is_number = isinstance(jump, float | int | np.number) and not isinstance(jump, bool)
    if not (is_number and 0 < jump < np.inf):
        raise FormError(
            f"crosswind is {jump!r}: give the size of jumps that the solution may have, a positive "
            "number in its unit, such as the difference of values on inflow boundaries."
        )
    if not supg:
        raise FormError("crosswind is an addition to streamline upwinding: give supg=True with it.")


def reaction(rate: Any) -> WeakForm:
    r"""$\int k\,u\,v$."""
    return single(
        "reaction", integrands.reaction_integrand, {"rate": (rate, SCALAR)}, state_degree=(2, 0)
    )


def storage(capacity: Any, *, on: str | None = None) -> WeakForm:
    r"""$\int s\,\partial_t u\,v$: what changes in time takes up, in cells or on tagged facets.

    `capacity` is positive: a number, a field, an unknown, or a function of the state. For
    `transient_problem`; in an equation without a time axis it counts for nothing.
    """
    return single(
        "storage",
        integrands.storage_integrand,
        {"capacity": (capacity, SCALAR), "rate": (0.0, SCALAR), "past": (0.0, SCALAR)},
        state_degree=(2, 0),
        on=on,
        positive=("capacity",),
    )


def source(strength: Any) -> WeakForm:
    r"""$\int f\,v$; subtract it: `diffusion(a) - source(f)`."""
    return single(
        "source", integrands.source_integrand, {"strength": (strength, SCALAR)}, state_degree=(1, 0)
    )


def line_source(strength: Any, *, on: str) -> WeakForm:
    r"""$\int_\Gamma s\,v$ along tagged facets, inside or on the boundary; subtract it."""
    return single(
        "line_source",
        integrands.source_integrand,
        {"strength": (strength, SCALAR)},
        state_degree=(1, 0),
        on=on,
    )


def neumann(outward_flux: Any, *, on: str = BOUNDARY) -> WeakForm:
    r"""$\int_\Gamma q\,v$ with the flux $q = -a\,\partial u/\partial n$ that leaves the domain."""
    return single(
        "neumann",
        integrands.flux_integrand,
        {"outward_flux": (outward_flux, SCALAR)},
        state_degree=(1, 0),
        on=on,
    )


def robin(conductance: Any, external_value: Any, *, on: str = BOUNDARY) -> WeakForm:
    r"""$\int_\Gamma c\,(u - u_0)\,v$: exchange through a boundary, or with a river inside."""
    return single(
        "robin",
        integrands.exchange_integrand,
        {"conductance": (conductance, SCALAR), "external_value": (external_value, SCALAR)},
        state_degree=(2, 0),
        on=on,
        positive=("conductance",),
    )


def leakage(conductance: Any, density: Any, level: Any, rise: Any = 0.0) -> WeakForm:
    r"""$\int c\,\ell\,(u - u_0 - r)\,v$: exchange with rivers whose lines lie anywhere in the mesh.

    `density` $\ell$ is the length of river by area, for instance of each cell: a river is then as
    wide as the cells that it crosses. By length, $c\,(u_0 + r - u)$ enters; `rise` $r$ lifts it.
    """
    return single(
        "leakage",
        integrands.leakage_integrand,
        {
            "conductance": (conductance, SCALAR),
            "density": (density, SCALAR),
            "level": (level, SCALAR),
            "rise": (rise, SCALAR),
        },
        state_degree=(2, 0),
        positive=("conductance",),
    )


def point_source(points: Any, rates: Any, *, tolerance: float | None = None) -> WeakForm:
    r"""$\sum_k Q_k\,v(x_k)$, for instance wells that inject $Q_k$; subtract it.

    `rates` is one number a point, the name of a latent that holds them, or a `series` in time.
    Points outside the domain by at most `tolerance` (a length) are moved to its boundary. Where
    they are to be inferred, `points` is the name of a latent: coordinates of one, or a row each.
    """
    if isinstance(points, str):
        places = Latent(points)
    elif is_traced(points):
        raise FormError(
            "points of the point source are traced: an equation is made outside of jit, vmap and "
            "grad. Name the place, point_source('place', rates), and pass z={'place': x}."
        )
    else:
        places = jnp.atleast_2d(as_floats(points, "points of the point source"))
    if isinstance(rates, Series):
        return WeakForm(point_sources=(PointSource(places, rates, tolerance),))
    if isinstance(rates, str):
        return WeakForm(point_sources=(PointSource(places, Latent(rates), tolerance),))
    values = jnp.atleast_1d(as_floats(rates, "rates of the point source"))
    if not isinstance(places, Latent) and values.shape != places.shape[:1]:
        raise FormError(
            f"a point source has {len(places)} points but rates of shape {values.shape}: "
            "give one rate a point."
        )
    return WeakForm(point_sources=(PointSource(places, values, tolerance),))


def integral(
    integrand: Callable[..., LinearForm],
    *,
    on: str | None = None,
    degree: int | None = None,
    **coefficients: Any,
) -> WeakForm:
    """A form from an integrand written by hand: `integrand(u, v, **coefficients)`.

    `u` has `.value` and `.grad`; so has `v`, and the result must be linear in it. An argument
    called `x` receives the point, `z` the latents, and on facets `normal` the unit normal.
    `degree` is the polynomial degree to integrate exactly (default: twice the element's, plus
    what the coefficients add).
    """
    accepted = inspect.signature(integrand).parameters
    unknown = [name for name in coefficients if name not in accepted]
    if unknown:
        raise FormError(
            f"{unknown[0]!r} is not an argument of the integrand "
            f"{getattr(integrand, '__name__', '?')}{tuple(accepted)}."
        )
    needed = [name for name, p in list(accepted.items())[2:] if p.default is p.empty]
    missing = [name for name in needed if name not in coefficients and name not in OFFERED]
    if missing:
        raise FormError(
            f"the integrand needs {missing[0]!r}, which was not given: pass {missing[0]}=..."
        )
    if "normal" in needed and on is None and "normal" not in coefficients:
        raise FormError("cells have no normal: integrate over facets, on=..., to use `normal`.")
    return single(
        getattr(integrand, "__name__", "integral"),
        integrand,
        {name: (value, ()) for name, value in coefficients.items()},
        state_degree=(2, 0) if degree is None else (0, degree),
        on=on,
    )


def single(
    name: str,
    integrand: Callable[..., LinearForm],
    coefficients: dict[str, tuple[Any, tuple[Shape, ...]]],
    **settings: Any,
) -> WeakForm:
    """A form of one term; an empty tuple of shapes allows every shape."""
    built = {key: as_coefficient(value, key) for key, (value, _) in coefficients.items()}
    shapes = tuple((key, allowed) for key, (_, allowed) in coefficients.items())
    return WeakForm((Term(name, integrand, built, shapes, **settings),))
