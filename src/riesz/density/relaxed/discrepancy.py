r"""What errors of the equation do at the sensors.

In the relaxed model $L u = f + \epsilon w$ with $w \sim N(0, A)$ the data scatter about the exact
solution with covariance $S = D + \epsilon^2 K$, where $D$ holds the variances of the noise and
$K = H L^{-1} A L^{-\top} H^\top$. Where $L$ depends on the unknowns, so does $S$, and its
log-determinant is part of their posterior.
"""

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from jaxtyping import Array, Float, Int, PRNGKeyArray

from riesz.errors import RieszError
from riesz.fem.linear.linear_solve import AbstractLinearSolver
from riesz.fem.linear.sparse import SparseMatrix
from riesz.problem.problem import Coordinates, InverseProblem


class AbstractErrors(eqx.Module):
    """How errors of an equation are distributed, one or one a step, but for their scale."""

    @abstractmethod
    def gram(self, vector: Float[Array, "*step free"]) -> Float[Array, "*step free"]:
        """The product with their covariance."""

    @abstractmethod
    def draw(
        self, key: PRNGKeyArray, like: Float[Array, "*step free"]
    ) -> Float[Array, "*step free"]:
        """Some of them, of a given shape."""


class GramFactor(AbstractErrors):
    """A sparse F with F F^T = A: gives products with A, and draws of covariance A."""

    rows: Int[Array, " entry"]
    columns: Int[Array, " entry"]
    values: Float[Array, " entry"]

    def __matmul__(self, vector: Float[Array, " free"]) -> Float[Array, " free"]:
        products = self.values * vector[self.columns]
        return jax.ops.segment_sum(products, self.rows, len(vector))

    def transpose_product(self, vector: Float[Array, " free"]) -> Float[Array, " free"]:
        products = self.values * vector[self.rows]
        return jax.ops.segment_sum(products, self.columns, len(vector))

    def gram(self, vector: Float[Array, "*step free"]) -> Float[Array, "*step free"]:
        return jnp.apply_along_axis(lambda own: self @ self.transpose_product(own), -1, vector)

    def draw(
        self, key: PRNGKeyArray, like: Float[Array, "*step free"]
    ) -> Float[Array, "*step free"]:
        return jnp.apply_along_axis(self.__matmul__, -1, jr.normal(key, like.shape, like.dtype))


def gram_factor(gram: SparseMatrix) -> GramFactor:
    """By a sparse elimination without pivoting, which a positive matrix allows."""
    singular = RieszError(
        "the Gram matrix of the norm is not positive: without Dirichlet conditions add a "
        "reaction to it, gram=Gram(reaction=...)."
    )
    try:
        lu = spla.splu(
            sp.csc_array(gram.to_scipy().astype(float)),
            permc_spec="MMD_AT_PLUS_A",
            diag_pivot_thresh=0.0,
            options={"SymmetricMode": True},
        )
    except RuntimeError:  # SuperLU's word for an exactly singular matrix
        raise singular from None
    pivots = lu.U.diagonal()
    if not (pivots > 1e-12 * np.abs(pivots).max()).all():
        raise singular
    lower = sp.coo_array(lu.L @ sp.diags_array(np.sqrt(pivots)))
    unpermuted = np.argsort(lu.perm_r)
    rows, columns = lower.coords
    return GramFactor(
        jnp.asarray(unpermuted[rows], jnp.int32),
        jnp.asarray(columns, jnp.int32),
        jnp.asarray(lower.data, gram.values.dtype),
    )


def relax_solver(problem: InverseProblem) -> AbstractLinearSolver:
    """The linear solver for many draws and, for each, an adjoint solve a sensor."""
    return problem.default_solver(num_rhs=1 + len(problem.observed))


def noise_variances(problem: InverseProblem, coordinates: Coordinates) -> Float[Array, " sensor"]:
    """Of the measurements, one each."""
    return problem.noise_sd(problem.z(coordinates)) ** 2


def log_densities(
    gap: Float[Array, " sensor"],
    spread: Float[Array, "sensor sensor"],
    epsilon: Float[Array, " scale"],
) -> Float[Array, " scale"]:
    r"""$\log N(d;\, 0,\, I + \epsilon^2 K)$ up to a constant, for many $\epsilon$ at once.

    One eigendecomposition serves them all. First derivatives are right, and only those: they do
    without derivatives of eigenvectors, which there are none of where eigenvalues meet.
    """
    _, axes = jnp.linalg.eigh(jax.lax.stop_gradient(spread))
    turned, along = axes.T @ spread @ axes, axes.T @ gap  # diagonal but for its derivatives
    squares = epsilon[:, None] ** 2
    growth = 1 + squares * jnp.diagonal(turned)[None, :]
    solved = jax.lax.stop_gradient(along[None, :] / growth)  # S^-1 d
    # d' S^-1 d as the maximum of 2 x'd - x' S x, which is flat in x.
    energy = jnp.sum(solved**2, axis=1) + squares[:, 0] * jnp.sum(
        (solved @ turned) * solved, axis=1
    )
    return -0.5 * (2 * solved @ along - energy + jnp.sum(jnp.log(growth), axis=1))
