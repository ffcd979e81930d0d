"""Pointwise integrands of the usual terms, each a pure function of values at one point.

`u` is the state and `v` the test function, each with a value and a gradient.
"""

from riesz.errors import FormError
from riesz.fem.terms.pointwise import dot


def diffusion_integrand(u, v, *, diffusivity):
    r"""$a\,\nabla u\cdot\nabla v$, with a scalar or a tensor $a$."""
    if diffusivity.ndim == 2:
        return tuple(dot(row, u.slopes) for row in diffusivity) @ v.grad
    return tuple(diffusivity * slope for slope in u.slopes) @ v.grad


def along_facets_integrand(u, v, *, diffusivity, normal):
    r"""$a\,\nabla_\Gamma u\cdot\nabla_\Gamma v$, with the gradient along a line or surface."""
    if len(u.slopes) == 1:
        raise FormError("a point has no direction along it: diffusion on facets needs a plane.")
    across = dot(normal, u.slopes)
    parts = zip(u.slopes, normal, strict=True)
    return tuple(diffusivity * (slope - across * n) for slope, n in parts) @ v.grad


def advection_integrand(u, v, *, velocity):
    r"""$(\tau\cdot\nabla u)\,v$, eq. (4) of Tait & Damoulas (2020)."""
    return dot(velocity, u.slopes) * v.value


def reaction_integrand(u, v, *, rate):
    r"""$k\,u\,v$."""
    return rate * u.value * v.value


def source_integrand(u, v, *, strength):
    r"""$f\,v$."""
    return strength * v.value


def flux_integrand(u, v, *, outward_flux):
    r"""$q\,v$ on the boundary, where $q = -a\,\partial u/\partial n$ leaves the domain."""
    return outward_flux * v.value


def exchange_integrand(u, v, *, conductance, external_value):
    r"""$c\,(u - u_0)\,v$: what flows out to a surrounding or a river at the level $u_0$."""
    return conductance * (u.value - external_value) * v.value


def leakage_integrand(u, v, *, conductance, density, level, rise):
    r"""$c\,\ell\,(u - u_0 - r)\,v$, with the length $\ell$ of lines by area."""
    return conductance * density * (u.value - level - rise) * v.value


def storage_integrand(u, v, *, capacity, rate, past):
    r"""$s\,(\alpha u - w)\,v$: what a change in time takes up, $w$ being what went before.

    Both $\alpha$ and $w$ are zero unless a step in time has put its own in their place: the
    equation is then that of the steady state.
    """
    return capacity * (rate * u.value - past) * v.value


MOVING = (diffusion_integrand, along_facets_integrand)
"""Integrands that move what is transported, without any gain or loss."""

SYMMETRIC = (
    *MOVING,
    reaction_integrand,
    storage_integrand,
    source_integrand,
    flux_integrand,
    exchange_integrand,
    leakage_integrand,
)
"""Integrands whose matrices are symmetric, as long as coefficients do not depend on the state."""

LINEAR = (*SYMMETRIC, advection_integrand)
"""Integrands that are linear in the state, as long as coefficients do not depend on it."""
