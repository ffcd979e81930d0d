"""Lagrange elements P1 and P2: shape functions as polynomials in barycentric coordinates.

They take plain numbers (a quadrature point common to all cells, folded into the compiled code as
constants) and traced scalars (a point that differs from cell to cell) alike.
"""

from collections.abc import Sequence
from itertools import combinations

import equinox as eqx

from riesz.errors import FormError


class Lagrange(eqx.Module):
    """Continuous piecewise polynomials of degree 1 or 2 with values at nodes (and mid-edges)."""

    dim: int = eqx.field(static=True)
    degree: int = eqx.field(static=True)

    def __check_init__(self):
        if self.degree not in (1, 2):
            raise FormError(f"elements have degree 1 or 2, not {self.degree}.")
        if self.degree == 2 and self.dim == 3:
            raise FormError("tetrahedra have degree 1 only: refine the mesh, or use degree=1.")

    @property
    def num_local(self) -> int:
        """How many shape functions a cell has."""
        corners = self.dim + 1
        return corners if self.degree == 1 else corners * (corners + 1) // 2

    def edges(self) -> list[tuple[int, int]]:
        """Pairs of corners with a mid-edge shape function, in the order of `mesh.facets`."""
        return list(combinations(range(self.dim + 1), 2)) if self.degree == 2 else []

    def values(self, point: Sequence) -> list:
        """Shape functions at a point given by its barycentric coordinates."""
        if self.degree == 1:
            return list(point)
        corners = [s * (2 * s - 1) for s in point]
        return corners + [4 * point[a] * point[b] for a, b in self.edges()]

    def gradients(self, point: Sequence) -> list[list]:
        r"""$\partial\phi_i/\partial\xi_d$ in reference coordinates $\xi_d$ = barycentric $d+1$."""
        return [
            [by_corner[d + 1] - by_corner[0] for d in range(self.dim)]
            for by_corner in self.barycentric_derivatives(point)
        ]

    def barycentric_derivatives(self, point: Sequence) -> list[list]:
        """Derivatives of each shape function by each barycentric coordinate."""
        corners = range(self.dim + 1)
        if self.degree == 1:
            return [[float(i == a) for a in corners] for i in corners]
        at_corners = [[(4 * point[i] - 1) if i == a else 0.0 for a in corners] for i in corners]
        at_edges = [
            [4 * point[q] if a == p else 4 * point[p] if a == q else 0.0 for a in corners]
            for p, q in self.edges()
        ]
        return at_corners + at_edges
