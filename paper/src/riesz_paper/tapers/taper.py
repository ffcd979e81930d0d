r"""Tapers: functions of distance that cut the inverse Gram matrix down to near neighbours.

A tapered inverse is $\Gamma_{ij} = (A^{-1})_{ij}\,\varphi(|x_i - x_j|)$. It has few entries in a
row, so that a row's residuals are those of a mini-patch.
"""

from abc import abstractmethod

import equinox as eqx
import numpy as np
from jaxtyping import Float
from scipy.spatial import KDTree

from riesz.errors import RieszError

BISECTIONS = 40
"""Enough for the radius to be exact to the precision of distances."""


class AbstractTaper(eqx.Module):
    """A function of distance that vanishes from a radius on."""

    radius: eqx.AbstractVar[float]

    def __check_init__(self):
        if not (np.isfinite(self.radius) and self.radius > 0):
            raise RieszError(
                f"the taper's radius is {self.radius}: give a positive number, in the mesh's unit "
                "of length."
            )

    @abstractmethod
    def weights(self, distances: Float[np.ndarray, "*shape"], dim: int) -> np.ndarray:
        """The taper at distances between points of a `dim`-dimensional space."""


class HardTaper(AbstractTaper):
    """The paper's taper: one below the radius, zero from there on (supplement C).

    The tapered inverse is then indefinite: its quadratic form, and every estimate of it, may be
    negative, and a loss that contains it may fall without end. It is here to reproduce the paper.
    """

    radius: float

    def weights(self, distances: Float[np.ndarray, "*shape"], dim: int) -> np.ndarray:
        return (distances < self.radius).astype(float)


class Wendland(AbstractTaper):
    r"""Wendland's taper $\varphi_{d,1}$: twice differentiable, and positive definite.

    $\varphi(s) = (1 - s)_+^{\ell+1}\,((\ell + 1)\,s + 1)$ with $s$ the distance over the radius and
    $\ell = \lfloor d/2 \rfloor + 2$. By the Schur product theorem the tapered inverse is positive
    definite; the term of a single row may be negative all the same.
    """

    radius: float

    def weights(self, distances: Float[np.ndarray, "*shape"], dim: int) -> np.ndarray:
        near = distances / self.radius
        power = dim // 2 + 3
        return np.maximum(1 - near, 0.0) ** power * (power * near + 1)


def radius_holding(points: Float[np.ndarray, "node dim"], patch_nodes: int) -> float:
    """The radius within which a point has `patch_nodes` of the points on average, itself included.

    On a regular mesh the average jumps: the radius is then the least one with that many or more.
    """
    if not 1 <= patch_nodes <= len(points):
        raise RieszError(
            f"no radius makes patches of {patch_nodes} nodes: ask for 1 to {len(points)}, the "
            "number of free nodes."
        )
    tree = KDTree(points)
    low, high = 0.0, float(np.linalg.norm(np.ptp(points, axis=0))) or 1.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if tree.count_neighbors(tree, middle) < patch_nodes * len(points):
            low = middle
        else:
            high = middle
    return high * (1 + 1e-9)  # the hard taper leaves out a neighbour at the radius itself
