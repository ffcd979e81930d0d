r"""What residuals would be if the model were right.

Let observations be $y = f + e$, with noise of covariance $\Sigma = L L^\top$ and predictions $f$
that are normal before the data, of covariance $K$. An observation less what all others say of it,
over the sd of that, is $z_i = (Q y)_i / \sqrt{Q_{ii}}$ with $Q = (K + \Sigma)^{-1}$: each is
standard normal, and together they have the covariance of $Q$. Since the covariance of predictions
after the data is $G = \Sigma - \Sigma Q \Sigma$, draws of the posterior tell $Q$: in units of
noise it is $I - V \Lambda V^\top$, where $V$ are the directions that the unknowns follow, each by a
share $\lambda < 1$ of what is measured along it. Exact where all is linear and normal; elsewhere by
the posterior's own moments.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

MOST_FOLLOWED = 0.999
"""Share of a direction, where draws alone tell it: they cannot tell it from one."""

LEAST_VARIANCE = 1e-9
"""Of a score, as a share of what it would be if no unknown followed it."""

ANY_ERROR = 1e6
"""Of an observation that is left out, in units of its noise."""

DRAWS_EACH = 3
"""Draws for each coordinate from which a regression by coordinates is known."""

EXPLAINED = 0.9
"""Share of the predictions' variance that must be linear in the coordinates to be regressed."""

Scores = Float[np.ndarray, "copy sensor"]


@dataclass(frozen=True, eq=False)
class Law:
    r"""The covariance of scores $L^{-\top}(I - V \Lambda V^\top) L^{-1}$, in units of noise.

    `root` is $L^{-\top}$ over the sd of what others leave of each error; None where each
    observation scatters by itself.
    """

    basis: Float[np.ndarray, "sensor rank"]
    followed: Float[np.ndarray, " rank"]
    root: Float[np.ndarray, "sensor sensor"] | None = None

    def colour(self, columns: Float[np.ndarray, "sensor column"]):
        return columns if self.root is None else self.root @ columns

    def variances(self) -> Float[np.ndarray, " sensor"]:
        own = np.ones(len(self.basis)) if self.root is None else np.sum(self.root**2, axis=1)
        lost = np.sum(self.colour(self.basis) ** 2 * self.followed, axis=1)
        return np.maximum(own - lost, LEAST_VARIANCE * own)

    def covariance(self, sums: Float[np.ndarray, "sensor group"]):
        """Of sums of scores."""
        own = sums if self.root is None else self.root.T @ sums
        along = (self.basis.T @ own) * np.sqrt(self.followed)[:, None]
        return own.T @ own - along.T @ along

    def without(self, rows: Int[np.ndarray, " some"]) -> "Law":
        """Where some observations may have any error."""
        errors = np.zeros((len(self.basis), len(rows)))
        errors[rows, np.arange(len(rows))] = ANY_ERROR
        if self.root is not None:
            errors = self.root.T @ errors
        known = self.basis * np.sqrt(self.followed / (1 - self.followed))
        left, sizes, _ = np.linalg.svd(np.column_stack([known, errors]), full_matrices=False)
        return Law(left, sizes**2 / (1 + sizes**2), self.root)

    def scores_without(
        self, rows: Int[np.ndarray, " some"], scores: Float[np.ndarray, "*copy sensor"]
    ) -> Float[np.ndarray, "*copy sensor"]:
        """Scores after some observations were left out, whose own are zero then."""
        chosen = np.zeros((len(self.basis), len(rows)))
        chosen[rows, np.arange(len(rows))] = 1.0
        own = chosen if self.root is None else self.root.T @ chosen
        own = own - self.basis @ (self.followed[:, None] * (self.basis.T @ own))
        columns = self.colour(own)
        return scores - scores[..., rows] @ np.linalg.solve(columns[rows], columns.T)

    def copies(self, rng: np.random.Generator, count: int) -> Scores:
        """Scores of data that the model itself made."""
        noise = rng.standard_normal((len(self.basis), count))
        left = 1 - np.sqrt(1 - self.followed)
        noise -= self.basis @ (left[:, None] * (self.basis.T @ noise))
        return self.colour(noise).T


def law_of(
    white: Float[np.ndarray, "draw sensor"],
    coordinates: Float[np.ndarray, "draw coordinate"] | None,
    root: Float[np.ndarray, "sensor sensor"] | None = None,
) -> Law:
    """From draws of what is predicted, in units of noise, and of the unknowns' coordinates.

    Where predictions are linear in these, few draws tell the prior's covariance without an error of
    their own; where not, or where there are more unknowns than draws, that of the draws is taken.
    """
    about = white - white.mean(axis=0)
    slopes = None if coordinates is None else regress(about, coordinates)
    if slopes is not None:
        left, sizes, _ = np.linalg.svd(slopes, full_matrices=False)
        return Law(left, sizes**2 / (1 + sizes**2), root)
    _, sizes, right = np.linalg.svd(about, full_matrices=False)
    return Law(right.T, np.minimum(sizes**2 / (len(white) - 1), MOST_FOLLOWED), root)


def regress(
    about: Float[np.ndarray, "draw sensor"], coordinates: Float[np.ndarray, "draw coordinate"]
) -> Float[np.ndarray, "sensor coordinate"] | None:
    """Slopes of predictions by coordinates; None where these do not explain them."""
    if len(about) < DRAWS_EACH * coordinates.shape[1]:
        return None
    moved = coordinates - coordinates.mean(axis=0)
    slopes, *_ = np.linalg.lstsq(moved, about, rcond=None)
    left, whole = np.sum((about - moved @ slopes) ** 2), np.sum(about**2)
    return slopes.T if left <= (1 - EXPLAINED) * whole else None
