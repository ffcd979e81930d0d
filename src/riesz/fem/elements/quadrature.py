"""Quadrature on the reference simplex, in barycentric coordinates.

Low degrees use the symmetric rules with the fewest points; higher degrees use collapsed
Gauss-Jacobi products, exact for every degree and with positive weights.
"""

import math

import equinox as eqx
import numpy as np
from jaxtyping import Float
from scipy.special import roots_jacobi

from riesz.errors import FormError


class Quadrature(eqx.Module):
    """Points and weights on a simplex; the weights add up to one, so that callers scale by volume.

    Weights relative to the volume serve intervals, triangles, tetrahedra and single points alike.
    """

    points: Float[np.ndarray, "point corner"]  # barycentric coordinates
    weights: Float[np.ndarray, " point"]


def quadrature(dim: int, degree: int) -> Quadrature:
    """A rule that integrates polynomials up to `degree` exactly on a simplex of dimension `dim`."""
    if degree < 0:
        raise FormError(f"the quadrature degree is {degree}: it must be zero or more.")
    if dim == 0:
        return Quadrature(np.ones((1, 1)), np.ones(1))
    if degree <= 1:
        return Quadrature(np.full((1, dim + 1), 1 / (dim + 1)), np.ones(1))
    if degree == 2 and dim > 1:
        return vertex_orbit(dim)
    if degree in (3, 4) and dim == 2:
        return dunavant_four()
    return collapsed_gauss(dim, degree)


def vertex_orbit(dim: int) -> Quadrature:
    """One point towards each corner, exact to degree 2: on the line from centre to corner.

    With barycentric coordinates (a, b, ..., b) the second moments fix
    a = (1 + dim / sqrt(dim + 2)) / (dim + 1).
    """
    towards = (1 + dim / math.sqrt(dim + 2)) / (dim + 1)
    points = np.full((dim + 1, dim + 1), (1 - towards) / dim)
    np.fill_diagonal(points, towards)
    return Quadrature(points, np.full(dim + 1, 1 / (dim + 1)))


def dunavant_four() -> Quadrature:
    """Six points in two orbits (a, a, 1 - 2a), exact to degree 4 on triangles; Dunavant (1985)."""
    root_ten = math.sqrt(10)
    spread = math.sqrt(38 - 44 * math.sqrt(2 / 5))
    near, far = (8 - root_ten + spread) / 18, (8 - root_ten - spread) / 18
    share = math.sqrt(213125 - 53320 * root_ten)
    weights = ((620 + share) / 3720, (620 - share) / 3720)
    points = [np.roll([1 - 2 * a, a, a], shift) for a in (near, far) for shift in range(3)]
    return Quadrature(np.array(points), np.repeat(weights, 3))


def collapsed_gauss(dim: int, degree: int) -> Quadrature:
    """Gauss-Jacobi points of the cube, mapped to the simplex by collapsing one face at a time."""
    count = degree // 2 + 1
    points, weights = np.ones((1, 1)), np.ones(1)  # of the simplex of dimension zero
    for k in range(1, dim + 1):
        # The cone over a simplex of dimension k - 1 has sections that shrink like (1 - s)^(k-1).
        nodes, masses = roots_jacobi(count, k - 1, 0)
        heights, masses = (1 + nodes) / 2, masses / masses.sum()
        base = points[None, :, :] * (1 - heights)[:, None, None]
        apex = np.broadcast_to(heights[:, None, None], (count, len(points), 1))
        points = np.concatenate([base, apex], axis=2).reshape(-1, k + 1)
        weights = np.outer(masses, weights).ravel()
    return Quadrature(points, weights)
